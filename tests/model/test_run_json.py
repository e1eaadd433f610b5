"""Cases, runs and results go to JSON and back without loss, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import records
from torchmark.errors import NotSerialisableError, RecordFileError
from torchmark.model.result import Metric, Result
from torchmark.model.run import Run
from torchmark.model.run_json import decode_result, decode_run, encode_result, encode_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.model.case import Case

CASE = records.case()
TEXTS: dict[str, tuple[str, Callable[[str | bytes], Any]]] = {
    "run": (encode_run(records.run_of(CASE)), decode_run),
    "time": (encode_result(records.time_result(CASE)), decode_result),
    "count": (encode_result(records.count_result(CASE)), decode_result),
}
every_text = pytest.mark.parametrize(("text", "decode"), TEXTS.values(), ids=TEXTS)


@given(records.cases)
def test_a_case_comes_back_as_it_was(case: Case) -> None:
    returned, _ = decode_run(encode_run(records.run_of(case))).plan[0]
    assert returned == case
    assert returned.id == case.id


@given(records.runs)
def test_a_run_comes_back_as_it_was(run: Run) -> None:
    assert decode_run(encode_run(run)) == run


@given(records.results)
def test_a_result_comes_back_as_it_was(result: Result) -> None:
    assert decode_result(encode_result(result)) == result


def test_a_case_that_is_timed_and_counted_stands_in_the_text_once() -> None:
    text = encode_run(records.run_of(CASE))
    assert text.count(CASE.stmt) == 1
    assert [kind for _, kind in decode_run(text).plan] == [Metric.TIME, Metric.INSTRUCTIONS]


def test_cases_that_differ_only_in_being_skipped_stay_apart() -> None:
    run = records.run_of(CASE, replace(CASE, skip="needs CUDA"))
    assert decode_run(encode_run(run)) == run


def test_what_a_case_printed_is_kept_even_if_it_is_no_text() -> None:
    result = records.failed_result(CASE, stdout="bad \udcff byte")
    assert decode_result(encode_result(result)).stdout == "bad \\udcff byte"


@pytest.mark.parametrize(
    "payload", [{"a": (1, 2)}, {"a": math.nan}, {"a": {1}}, {1: "a"}, {"a": object()}]
)
@pytest.mark.parametrize("name", ["settings", "environment"])
def test_what_would_come_back_changed_is_refused_by_name(name: str, payload: Any) -> None:
    with pytest.raises(NotSerialisableError, match=name):
        encode_run(records.run_of(CASE, **{name: payload}))


@every_text
def test_an_unknown_version_is_named(text: str, decode: Callable[[str], Any]) -> None:
    record = json.loads(text) | {"version": 99}
    with pytest.raises(RecordFileError, match="version 99"):
        decode(json.dumps(record))


@every_text
def test_an_unknown_field_is_named(text: str, decode: Callable[[str], Any]) -> None:
    with pytest.raises(RecordFileError, match="surprise"):
        decode(json.dumps(json.loads(text) | {"surprise": 1}))


def test_one_kind_of_record_is_not_taken_for_another() -> None:
    run, result = TEXTS["run"][0], TEXTS["time"][0]
    with pytest.raises(RecordFileError):
        decode_result(run)
    with pytest.raises(RecordFileError):
        decode_run(result)


def test_a_plan_that_names_no_case_is_refused() -> None:
    record = json.loads(TEXTS["run"][0])
    record["plan"][0][0] = 7
    with pytest.raises(RecordFileError, match="not in it"):
        decode_run(json.dumps(record))


def test_a_wrong_measurement_is_told_with_the_case_it_belongs_to() -> None:
    record = json.loads(TEXTS["time"][0])
    record["measurement"]["number_per_run"] = 0
    with pytest.raises(RecordFileError, match="Pointwise / add"):
        decode_result(json.dumps(record))


@every_text
@given(data=st.data())
def test_damaged_text_gives_our_error_or_a_record(
    text: str, decode: Callable[[bytes], Any], data: st.DataObject
) -> None:
    content = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        with contextlib.suppress(RecordFileError):
            decode(damaged)

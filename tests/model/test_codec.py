"""Every record goes to JSON and back without loss, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import json
import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from msgspec.structs import replace

from tests import records
from tests.model.test_callgrind_stats import counts, stats_of
from tests.model.test_measurement import measurements
from torchmark import CallgrindStats, Measurement
from torchmark.errors import (
    CallgrindFileError,
    MeasurementFileError,
    NotSerialisableError,
    RecordFileError,
)
from torchmark.model.case import ScriptedModel
from torchmark.model.codec import (
    decode_measurement,
    decode_result,
    decode_run,
    decode_stats,
    encode_measurement,
    encode_result,
    encode_run,
    encode_stats,
    json_schema,
)
from torchmark.model.result import Facts, Result, Timing
from torchmark.model.run import Environment
from torchmark_probe.loops.intervals import median_interval
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.model.run import Run

GOLDEN = Path(__file__).parent.parent / "data" / "version_1"
CASE = records.case()
MEASUREMENT = records.time_result(CASE).measurement or pytest.fail("no times")
FILE_ERRORS = (RecordFileError, MeasurementFileError, CallgrindFileError)
TEXTS: dict[str, tuple[str, Callable[[str | bytes], Any]]] = {
    "run": (encode_run(records.run_of(CASE)), decode_run),
    "time": (encode_result(records.time_result(CASE)), decode_result),
    "count": (encode_result(records.count_result(CASE)), decode_result),
    "measurement": (encode_measurement(MEASUREMENT), decode_measurement),
    "scripted": (
        encode_result(records.time_result(records.case(model=ScriptedModel(source="pass")))),
        decode_result,
    ),
    "merged": (
        encode_measurement(Measurement.merge([MEASUREMENT, MEASUREMENT])[0]),
        decode_measurement,
    ),
    "stats": (
        encode_stats(records.count_result(CASE).stats or pytest.fail("no counts")),
        decode_stats,
    ),
}
every_text = pytest.mark.parametrize(("text", "decode"), TEXTS.values(), ids=TEXTS)


@cache
def validator() -> Draft202012Validator:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def check_schema(text: str) -> None:
    validator().validate(json.loads(text))


@given(records.runs)
def test_a_run_comes_back_as_it_was_and_satisfies_the_schema(run: Run) -> None:
    text = encode_run(run)
    assert decode_run(text) == run
    assert [each.case.id for each in decode_run(text).plan] == [each.case.id for each in run.plan]
    check_schema(text)


@pytest.mark.parametrize(
    "payloads",
    [
        records.timings,
        records.summaries,
        records.counts,
        records.paired_timings,
        records.paired_counts,
        records.paired_profiles,
    ],
    ids=["timing", "summary", "counts", "paired timing", "paired counts", "paired profile"],
)
@given(result=records.results, data=st.data())
def test_a_result_comes_back_as_it_was_and_satisfies_the_schema(
    payloads: st.SearchStrategy[Any], result: Result, data: st.DataObject
) -> None:
    whole = replace(result, payload=data.draw(payloads))
    text = encode_result(whole)
    assert decode_result(text) == whole
    assert decode_result(text).key == whole.key
    check_schema(text)


@given(measurements)
def test_a_measurement_satisfies_the_schema(measurement: Measurement) -> None:
    check_schema(Measurement.merge([measurement, measurement])[0].to_json())


@given(counts, counts)
def test_counts_satisfy_the_schema(data: dict[str, int], baseline: dict[str, int]) -> None:
    check_schema(stats_of(data, baseline).to_json())


@every_text
def test_the_schema_refuses_what_the_reader_refuses(
    text: str, decode: Callable[[str], Any]
) -> None:
    for change in ({"torchmark": "trace"}, {"version": 99}, {"record": {"surprise": 1}}):
        changed = json.loads(text) | change
        assert not validator().is_valid(changed)
        with pytest.raises(FILE_ERRORS):
            decode(json.dumps(changed))


def test_the_schema_says_what_the_numbers_of_a_language_mean() -> None:
    assert "0 is Python and 1 is C++" in json_schema()["$defs"]["Language"]["description"]


def test_cases_that_differ_only_in_being_skipped_stay_apart() -> None:
    run = records.run_of(CASE, records.case(skip="needs CUDA"))
    assert decode_run(encode_run(run)) == run


def test_what_a_case_printed_is_kept_even_if_it_is_no_text() -> None:
    result = records.failed_result(CASE, stdout="bad \udcff byte")
    assert decode_result(encode_result(result)).stdout == "bad \\udcff byte"
    assert decode_run(encode_run(records.run_of(results=(result,)))).results[0].stdout == (
        "bad \\udcff byte"
    )


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_an_error_that_is_no_number_does_not_cost_the_result(error: float) -> None:
    result = replace(records.time_result(CASE), facts=Facts(flops=7, max_error=error))
    assert decode_result(encode_result(result)).facts == Facts(flops=7)


def test_a_result_that_could_not_be_read_again_is_refused() -> None:
    sampling = Sampling(1, (math.nan,), (1.0,), (1.0,), 1.0, 0.0)
    result = replace(records.time_result(CASE), payload=Timing(processes=(sampling,)))
    with pytest.raises(NotSerialisableError, match=r"Pointwise / add.*\$\.payload"):
        encode_result(result)


@pytest.mark.parametrize("payload", [{"a": (1, 2)}, {"a": math.nan}, {"a": {1}}, {1: "a"}])
def test_what_would_come_back_changed_is_refused_by_name(payload: Any) -> None:
    with pytest.raises(NotSerialisableError, match="settings"):
        encode_run(records.run_of(CASE, settings=payload))
    with pytest.raises(NotSerialisableError, match="environments"):
        encode_run(records.run_of(CASE, environments=(Environment(facts=payload),)))


def test_what_json_cannot_hold_at_all_is_refused() -> None:
    with pytest.raises(NotSerialisableError, match=r"run '2026.*object"):
        encode_run(records.run_of(CASE, settings={"a": object()}))


@every_text
def test_a_newer_version_is_named_with_the_remedy(text: str, decode: Callable[[str], Any]) -> None:
    newer = json.loads(text) | {"version": 99, "record": {"unheard of": 1}}
    with pytest.raises(FILE_ERRORS, match=r"version 99.*Update torchmark"):
        decode(json.dumps(newer))


@every_text
def test_a_version_that_never_was_is_refused(text: str, decode: Callable[[str], Any]) -> None:
    with pytest.raises(FILE_ERRORS, match="version 0"):
        decode(json.dumps(json.loads(text) | {"version": 0}))


@every_text
def test_an_unknown_field_is_named(text: str, decode: Callable[[str], Any]) -> None:
    content = json.loads(text)
    content["record"]["surprise"] = 1
    with pytest.raises(FILE_ERRORS, match="surprise"):
        decode(json.dumps(content))


PARTS = [
    ("run", ("plan", 0, "case"), r"\$\.plan\[0\]\.case"),
    ("time", ("case",), r"\$\.case"),
    ("time", ("payload", "processes", 0), r"\$\.payload\.processes\[0\]"),
    ("scripted", ("case", "model"), r"\$\.case\.model"),
    ("measurement", ("task",), r"\$\.task"),
    ("measurement", ("sampling",), r"\$\.sampling"),
    ("merged", ("replicates", 1, "sampling"), r"\$\.replicates\[1\]\.sampling"),
    ("stats", ("task",), r"\$\.task"),
]
"""Parts of records that are dataclasses: the text, the way to the part, its place in an error."""


def text_with(name: str, way: tuple[str | int, ...], **changes: Any) -> str:
    """The text of that name with changes in one part of its record."""
    content = json.loads(TEXTS[name][0])
    part = content["record"]
    for step in way:
        part = part[step]
    part.update(changes)
    return json.dumps(content)


@pytest.mark.parametrize(("name", "way", "place"), PARTS)
def test_an_unknown_field_of_a_case_a_task_or_a_sampling_is_told_with_its_place(
    name: str, way: tuple[str | int, ...], place: str
) -> None:
    damaged = text_with(name, way, surprise=1)
    with pytest.raises(FILE_ERRORS, match=rf"unknown field `surprise` - at `{place}`"):
        TEXTS[name][1](damaged)
    assert not validator().is_valid(json.loads(damaged))


@pytest.mark.parametrize(
    ("name", "way"),
    [("run", ("plan", 0, "case")), ("time", ("case",)), ("stats", ("task",)),
     ("measurement", ("task",))],
)  # fmt: skip
def test_fewer_threads_than_one_are_refused(name: str, way: tuple[str | int, ...]) -> None:
    for threads in (0, -1):
        damaged = text_with(name, way, num_threads=threads)
        with pytest.raises(FILE_ERRORS, match=r"`int` >= 1 - at `\$\..*num_threads`"):
            TEXTS[name][1](damaged)
        assert not validator().is_valid(json.loads(damaged))


def test_keys_that_people_chose_are_not_unknown() -> None:
    facts = {"plan": [{"case": {"surprise": 1}}]}
    run = records.run_of(CASE, settings=facts, environments=(Environment(facts=facts),))
    assert decode_run(encode_run(run)) == run


@every_text
def test_a_wrong_type_is_told_with_its_place(text: str, decode: Callable[[str], Any]) -> None:
    content = json.loads(text)
    name = next(iter(content["record"]))
    content["record"][name] = 3.5
    with pytest.raises(FILE_ERRORS, match=rf"\$\.{name}"):
        decode(json.dumps(content))


@every_text
def test_one_kind_of_record_is_not_taken_for_another(
    text: str, decode: Callable[[str], Any]
) -> None:
    for other, _ in TEXTS.values():
        if json.loads(other)["torchmark"] != json.loads(text)["torchmark"]:
            with pytest.raises(FILE_ERRORS, match=r"expected .*, got"):
                decode(other)


def test_samples_of_different_number_are_refused() -> None:
    content = json.loads(TEXTS["time"][0])
    content["record"]["payload"]["processes"][0]["cpu"] = [1.0]
    with pytest.raises(RecordFileError, match="99 wall times, 1 CPU times"):
        decode_result(json.dumps(content))


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
        with contextlib.suppress(*FILE_ERRORS):
            decode(damaged)


# What torchmark 0.1 wrote; `sh tests/data/version_1/make.sh` makes it again.


def test_measurements_of_version_1_still_open() -> None:
    printed = json.loads((GOLDEN / "measurements.json").read_text())
    for raw, figures in zip(printed["measurements"], printed["results"], strict=True):
        measurement = Measurement.from_json(json.dumps(raw))
        assert measurement.raw_times == raw["raw_times"]
        assert measurement.stmt == raw["task"]["stmt"]
        assert measurement.sampling is not None
        assert list(measurement.sampling.wall) == raw["sampling"]["wall"]
        assert measurement.median == figures["median"]
        # The interval is computed anew: around that of the samples alone, which was 0.1's.
        low, high = figures["median_interval"]
        assert median_interval(measurement.times) == (low, high)
        assert measurement.median_interval.low < low < high < measurement.median_interval.high
        assert Measurement.from_json(measurement.to_json()) == measurement


def test_a_merged_measurement_of_version_1_still_opens() -> None:
    printed = json.loads((GOLDEN / "measurements.json").read_text())
    one = printed["measurements"][0]
    both = [time / one["number_per_run"] for time in one["raw_times"]] * 2
    changes = {"number_per_run": 1, "raw_times": both, "sampling": None, "replicates": [one, one]}
    part = Measurement.from_json(json.dumps(one))
    assert Measurement.from_json(json.dumps(one | changes)) == Measurement.merge([part, part])[0]


def test_counts_of_version_1_still_open() -> None:
    printed = json.loads((GOLDEN / "counts.json").read_text())
    (each,) = printed["counts"]
    stats = CallgrindStats.from_json(json.dumps(each["stats"]))
    assert stats.without_loop().sum() / stats.number_per_run == each["instructions_per_run"]
    assert [list(entry) for entry in stats.stats()] == each["stats"]["stmt_exclusive"]["functions"]
    assert CallgrindStats.from_json(stats.to_json()) == stats


def test_an_unknown_field_of_version_1_is_named() -> None:
    printed = json.loads((GOLDEN / "measurements.json").read_text())
    damaged = printed["measurements"][0] | {"surprise": 1}
    with pytest.raises(MeasurementFileError, match="surprise"):
        Measurement.from_json(json.dumps(damaged))


def test_a_run_of_version_1_is_not_misread() -> None:
    with pytest.raises(RecordFileError, match="version 1; this torchmark reads versions from 2"):
        decode_run('{"torchmark": "run", "version": 1, "id": "x", "started": "y", "kind": "run"}')

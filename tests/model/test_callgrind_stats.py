"""What counting gave prints, compares and travels as torch's does, and further."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.benchmark.utils.common import TaskSpec as TorchTaskSpec
from torch.utils.benchmark.utils.valgrind_wrapper import timer_interface as theirs

from tests.callgrind.samples import SMALL
from torchmark.callgrind.parse import parse_text
from torchmark.errors import CallgrindFileError, InvalidArgumentError, NotSerialisableError
from torchmark.model import function_counts as ours_module
from torchmark.model.callgrind_stats import (
    CallgrindStats,
    exclusive_counts,
    inclusive_counts,
    stats_from_profiles,
)
from torchmark.model.case import TaskSpec
from torchmark.model.function_counts import FunctionCount, FunctionCounts

NAMES = (
    "/home/a/pytorch/build/../aten/src/ATen/native/Add.cpp:add [/home/a/libtorch_cpu.so]",
    "/home/b/pytorch/build/../aten/src/ATen/native/Add.cpp:add [/home/b/libtorch_cpu.so]",
    "/home/a/pytorch/build/aten/src/ATen/Ops.cpp:call [/home/a/libtorch_cpu.so]",
    "/tmp/Python-3.11/Python/ceval.c:_PyEval_EvalFrameDefault [/usr/lib/libpython.so]",
    "/tmp/Python-3.11/Objects/dictobject.c:lookdict_unicode [/usr/lib/libpython.so]",
    "/opt/Python-3.8/Objects/dictobject.c:lookdict_unicode",
    "???:malloc [/usr/lib/libc.so.6]",
)

counts = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 10**9))


def function_counts(module: Any, data: dict[str, int], *, inclusive: bool) -> Any:
    rows = sorted(((count, name) for name, count in data.items()), reverse=True)
    return module.FunctionCounts(tuple(module.FunctionCount(*row) for row in rows), inclusive)


def fields(
    counts_module: Any, data: dict[str, int], baseline: dict[str, int] | None = None
) -> dict[str, Any]:
    return {
        "number_per_run": 100,
        "built_with_debug_symbols": True,
        "baseline_inclusive_stats": function_counts(counts_module, baseline or {}, inclusive=True),
        "baseline_exclusive_stats": function_counts(counts_module, baseline or {}, inclusive=False),
        "stmt_inclusive_stats": function_counts(counts_module, data, inclusive=True),
        "stmt_exclusive_stats": function_counts(counts_module, data, inclusive=False),
        "stmt_callgrind_out": None,
    }


def stats_of(
    data: dict[str, int], baseline: dict[str, int] | None = None, **changes: Any
) -> CallgrindStats:
    spec = TaskSpec("x + y", "x = y = 1")
    return CallgrindStats(task_spec=spec, **{**fields(ours_module, data, baseline), **changes})


def torchs_stats_of(
    data: dict[str, int], baseline: dict[str, int] | None = None, **changes: Any
) -> theirs.CallgrindStats:
    spec = TorchTaskSpec("x + y", "x = y = 1")
    return theirs.CallgrindStats(task_spec=spec, **{**fields(theirs, data, baseline), **changes})


def small() -> CallgrindStats:
    profile = parse_text(SMALL)
    return stats_from_profiles(TaskSpec("f()", "pass"), 10, profile, None, SMALL)


@given(counts, counts, st.booleans())
def test_stats_print_as_torch_prints_them(
    data: dict[str, int], baseline: dict[str, int], symbols: bool
) -> None:
    ours = repr(stats_of(data, baseline, built_with_debug_symbols=symbols))
    torchs = repr(torchs_stats_of(data, baseline, built_with_debug_symbols=symbols))
    assert ours.splitlines()[1:] == torchs.splitlines()[1:]
    assert ours.startswith("<torchmark.model.callgrind_stats.CallgrindStats object at 0x")


@given(counts, counts)
def test_standardized_differences_are_torchs(one: dict[str, int], two: dict[str, int]) -> None:
    ours, our_other = (stats_of(data).as_standardized() for data in (one, two))
    torchs, torchs_other = (torchs_stats_of(data).as_standardized() for data in (one, two))
    for inclusive in (False, True):
        delta = ours.delta(our_other, inclusive)
        torchs_delta = torchs.delta(torchs_other, inclusive)
        assert [tuple(entry) for entry in delta] == [tuple(entry) for entry in torchs_delta]
    assert ours.counts(denoise=True) == torchs.counts(denoise=True)


def test_builds_in_other_places_cancel_once_standardized() -> None:
    one, two = stats_of({NAMES[0]: 5}), stats_of({NAMES[1]: 5})
    assert len(one.delta(two)) == 2
    assert len(one.as_standardized().delta(two.as_standardized())) == 0


def test_standardized_stats_do_not_keep_the_file_with_the_full_names() -> None:
    assert small().as_standardized().stmt_callgrind_out is None


@given(counts, counts, st.none() | st.text(), st.booleans())
def test_json_gives_back_what_went_in(
    data: dict[str, int], baseline: dict[str, int], text: str | None, symbols: bool
) -> None:
    stats = stats_of(data, baseline, stmt_callgrind_out=text, built_with_debug_symbols=symbols)
    assert CallgrindStats.from_json(stats.to_json()) == stats


def test_json_keeps_how_counts_are_printed() -> None:
    stats = small()
    short = FunctionCounts((FunctionCount(-3, "f"),), False, False, 60)
    changed = stats_of({}, stmt_exclusive_stats=short)
    returned = CallgrindStats.from_json(changed.to_json())
    assert returned.stats() == short
    assert CallgrindStats.from_json(stats.to_json().encode()) == stats


@pytest.mark.parametrize(
    "count",
    [FunctionCount(1, "\ud800"), FunctionCount(1.5, "f")],  # type: ignore[arg-type]
    ids=["no text", "no integer"],
)
def test_json_refuses_what_it_would_change(count: FunctionCount) -> None:
    stats = stats_of({}, stmt_exclusive_stats=FunctionCounts((count,), inclusive=False))
    with pytest.raises(NotSerialisableError, match=r"x \+ y"):
        stats.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"number_per_run": 0},
        {"number_per_run": "100"},
        {"unknown": 1},
        {"stmt_exclusive": {"functions": []}},
        {"task": None},
    ],
    ids=str,
)
def test_json_that_is_not_ours_is_refused(change: dict[str, Any]) -> None:
    content = json.loads(small().to_json())
    text = json.dumps(content | {"record": content["record"] | change})
    with pytest.raises(CallgrindFileError):
        CallgrindStats.from_json(text)


@given(st.binary(max_size=40))
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(CallgrindFileError):
        CallgrindStats.from_json(data)


def test_a_profile_becomes_counts_under_the_names_that_torch_shows() -> None:
    assert {name: count for count, name in exclusive_counts(parse_text(SMALL))} == {
        "/tmp/t.c:fact'2 [/tmp/t]": 121,
        "/tmp/t.c:is_odd'2 [/tmp/t]": 48,
        "/tmp/t.c:is_even'2 [/tmp/t]": 45,
        "/tmp/inlined.h:is_even'2": 7,
        "/tmp/t.c:inner [/tmp/t]": 23,
        "/tmp/t.c:fact [/tmp/t]": 14,
        "/tmp/t.c:is_odd [/tmp/t]": 13,
        "/tmp/t.c:is_even [/tmp/t]": 13,
    }


def test_a_function_that_costs_the_whole_program_is_kept() -> None:
    inclusive = {name: count for count, name in inclusive_counts(parse_text(SMALL))}
    assert inclusive["/tmp/t.c:outer [/tmp/t]"] == inclusive["/tmp/t.c:inner [/tmp/t]"] == 284
    alone = parse_text("events: Ir\nob=/bin/a\nfl=a.c\nfn=f\n4 10\ntotals: 10\n")
    assert list(exclusive_counts(alone)) == [(10, "a.c:f [/bin/a]")]


def test_functions_of_one_name_in_two_libraries_stay_apart() -> None:
    text = "events: Ir\nfl=???\nob=a.so\nfn=f\n0 10\nob=b.so\nfn=f\n0 5\ntotals: 15\n"
    assert list(exclusive_counts(parse_text(text))) == [(10, "???:f [a.so]"), (5, "???:f [b.so]")]


def test_stats_of_profiles_count_statement_and_baseline() -> None:
    profile = parse_text(SMALL)
    stats = stats_from_profiles(TaskSpec("f()", "pass"), 10, profile, profile, None)
    assert stats.counts() == stats.baseline_exclusive_stats.sum() == 284
    assert stats.baseline_inclusive_stats.inclusive
    assert small().baseline_exclusive_stats.sum() == 0


@pytest.mark.parametrize(
    ("object_file", "source_file", "expected"),
    [("libtorch_cpu.so", "???", False), ("libtorch_cpu.so", "Add.cpp", True), ("a", "???", True)],
)
def test_torch_without_debug_symbols_is_noticed(
    object_file: str, source_file: str, expected: bool
) -> None:
    text = f"events: Ir\nob={object_file}\nfl={source_file}\nfn=f\n4 10\ntotals: 10\n"
    stats = stats_from_profiles(TaskSpec("f()", "pass"), 10, parse_text(text), None, None)
    assert stats.built_with_debug_symbols is expected


def test_the_file_is_exported_where_it_was_kept() -> None:
    assert small().to_callgrind_out() == SMALL
    folded = small().to_folded()
    assert sum(int(line.rpartition(" ")[2]) for line in folded.splitlines()) == 284
    assert json.loads(small().to_speedscope())["name"] == "f()"


@pytest.mark.parametrize("export", ["to_callgrind_out", "to_folded", "to_speedscope"])
def test_without_the_file_an_export_says_how_to_keep_it(export: str) -> None:
    with pytest.raises(InvalidArgumentError, match="retain_out_file=True"):
        getattr(small().as_standardized(), export)()

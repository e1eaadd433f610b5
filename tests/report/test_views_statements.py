"""Statements that were timed or counted together, in every format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import msgspec

from tests import records
from torchmark.model.codec import decode_run
from torchmark.model.function_counts import FunctionCount
from torchmark.model.result import Counts, FunctionTable, Metric, PlannedResult, Result, Timing
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.report import render
from torchmark.report.names import short_function
from torchmark_probe.loops.sampling import Sampling

SUM, TWICE = (
    records.case(name, stmt=name, setup="x = torch.ones(4)") for name in ("x.sum()", "x.sum() * 2")
)
STORED: dict[str, Any] = {
    "id": "20261115-221530-a1b2c3",
    "environments": (Environment(facts={"torch": {"version": "2.13.0"}}),),
}


def run_of(kind: RunKind, *results: Result, **fields: Any) -> Run:
    """As `torchmark time` and `torchmark count` make it where nothing is stored."""
    defaults: dict[str, Any] = {
        "id": "",
        "plan": tuple(PlannedResult(case=each.case, metric=each.metric) for each in results),
        "environments": (),
        "state": RunState.FINISHED,
    }
    return records.run_of(kind=kind, results=results, **{**defaults, **fields})


def timed(of: Any, seconds: float) -> Result:
    """Both statements meet the same weather in each round: 40 rounds of blocks of 100 runs."""
    slow = [1.0 + 0.01 * ((index * 7) % 11) for index in range(40)]
    wall = tuple(100 * seconds * each for each in slow)
    cpu = tuple(each / 2 for each in wall)
    sampling = Sampling(100, wall, cpu, (1.0,) * 40, 1.0, 0.0)
    return msgspec.structs.replace(records.time_result(of), payload=Timing(processes=(sampling,)))


def counted(of: Any, functions: dict[str, int]) -> Result:
    table = tuple(FunctionCount(100 * count, name) for name, count in functions.items())
    loop = (FunctionCount(100, "loop"),)
    payload = Counts(
        runs=100,
        statement=FunctionTable(exclusive=(*table, *loop), inclusive=(*table, *loop)),
        loop=FunctionTable(exclusive=loop, inclusive=loop),
    )
    return msgspec.structs.replace(records.count_result(of), payload=payload)


TIMES = (timed(SUM, 1e-6), timed(TWICE, 1.5e-6))
COUNTS = (
    counted(SUM, {"/a/sum.cpp:at::sum [/lib/libtorch.so]": 900, "???:other": 100}),
    counted(TWICE, {"/a/sum.cpp:at::sum [/lib/libtorch.so]": 900, "/a/mul.cpp:at::mul": 600}),
)

TIMES_TEXT = """\
Time of one run
statement                  time  CPU time                 ratio  verdict
  x.sum()      1.050 us ± 4.9 %  525.0 ns
  x.sum() * 2  1.575 us ± 4.9 %  787.5 ns  1.500 [1.500, 1.500]  slower
Ratio to x.sum(), round by round, with its 95 % interval.

Compared with x.sum(): 1 slower.
"""

ALONE_TEXT = """\
Time of one run
statement    small tensors  CPU time
  x.sum()  1.050 us ± 4.9 %  525.0 ns

Median 1.050 us, 95 % interval 998.9 ns to 1.101 us; 40 samples of 100 runs.
"""

COUNTS_TEXT = """\
Instructions, run 20261115-221530-a1b2c3
finished, started 2026-11-15T22:15:30Z
torch 2.13.0

Instructions per run, without the loop
statement      instructions  difference    change
  x.sum()             1,000
  x.sum() * 2         1,500        +500  +50.00 %

By function
statement
  x.sum()
      instructions  function
               900  sum.cpp:at::sum [libtorch.so]
      … 1 more: see --html or --json of torchmark show
  x.sum() * 2 minus x.sum()
      instructions  function
               600  mul.cpp:at::mul
      … 1 more: see --html or --json of torchmark show

x.sum() takes 1,000 instructions; compared with it: x.sum() * 2 +500.
"""


def test_times_are_a_table_with_ratios_to_the_first() -> None:
    assert render(run_of(RunKind.TIME, *TIMES), "text") == TIMES_TEXT


def test_one_statement_has_its_interval_and_no_ratio() -> None:
    run = run_of(RunKind.TIME, TIMES[0], settings={"description": "small tensors"})
    assert render(run, "text").split() == ALONE_TEXT.split()


def test_one_sample_is_said_to_have_no_interval() -> None:
    first = records.time_result(records.case("x.sum()", stmt="x.sum()"), 2.0, count=1, spread=0.0)
    text = render(run_of(RunKind.TIME, first), "text")
    assert "Median 2.000 s, too few samples for an interval; 1 sample of 1 run." in text
    assert "2.000 s ± ?" in text


def test_a_stored_run_says_which_it_is_and_where_it_ran() -> None:
    text = render(run_of(RunKind.TIME, *TIMES, **STORED), "text")
    assert text.startswith("Times, run 20261115-221530-a1b2c3\n")
    assert "torch 2.13.0" in text
    assert text.endswith(TIMES_TEXT)


def test_instructions_are_told_by_statement_and_by_function() -> None:
    run = run_of(RunKind.COUNT, *COUNTS, settings={"functions": 1}, **STORED)
    assert render(run, "text").splitlines() == COUNTS_TEXT.splitlines()


def test_equal_counts_are_said_to_be_equal_in_every_function() -> None:
    same = [counted(records.case(name), {"f": 5}) for name in ("one", "two")]
    lines = render(run_of(RunKind.COUNT, *same), "text").splitlines()
    (at,) = (number for number, line in enumerate(lines) if " minus " in line)
    assert lines[at + 1].strip() == "no function differs"
    assert not any("function" in line.split() and "differs" not in line for line in lines[at:])


def test_a_count_that_is_not_stored_names_the_options_that_show_all_functions() -> None:
    text = render(run_of(RunKind.COUNT, *COUNTS, settings={"functions": 1}), "text")
    said = "… 1 more: see --json, or --save and torchmark show latest --html FILE\n"
    assert text.count(said) == 2
    assert max(map(len, text.splitlines())) <= 80


def test_the_page_has_all_functions_by_their_whole_names() -> None:
    page = render(run_of(RunKind.COUNT, *COUNTS, settings={"functions": 1}, **STORED), "html")
    for part in ("sum.cpp:at::sum", "other", "mul.cpp:at::mul", "x = torch.ones(4)"):
        assert part in page


def test_statements_that_took_no_time_have_no_ratio() -> None:
    text = render(run_of(RunKind.TIME, TIMES[0], timed(TWICE, 0.0)), "text")
    assert "no ratio, because a time is 0 s" in text


def test_json_has_the_record_and_the_figures() -> None:
    run = run_of(RunKind.TIME, *TIMES)
    text = render(run, "json")
    assert decode_run(text) == run
    first, second = json.loads(text)["table"]
    assert (first["statement"], first["ratio"]) == ("x.sum()", None)
    assert second["ratio_low"] <= second["ratio"] <= second["ratio_high"]
    assert (second["rounds"], second["verdict"]) == (40, "slower")
    assert (second["samples"], second["runs_per_sample"]) == (40, 100)


def test_csv_has_a_line_for_each_statement() -> None:
    rows = list(csv.DictReader(io.StringIO(render(run_of(RunKind.COUNT, *COUNTS), "csv"))))
    assert [row["instructions_per_run"] for row in rows] == ["1000.0", "1500.0"]
    assert [row["difference"] for row in rows] == ["", "500.0"]


def test_a_run_without_results_is_shown_too() -> None:
    for kind, metric in ((RunKind.TIME, Metric.TIME), (RunKind.COUNT, Metric.INSTRUCTIONS)):
        planned = (PlannedResult(case=SUM, metric=metric),)
        assert "No " in render(run_of(kind, plan=planned, **STORED), "text")


def test_functions_without_brackets_keep_their_names() -> None:
    assert short_function("a/b.cpp:f(int)") == "b.cpp:f(int)"

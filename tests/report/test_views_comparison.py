"""Two runs compared, as people and programs read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import given, settings

from tests import ab_records, records
from torchmark.analyse.run_differences import compare_runs
from torchmark.model.case import Autograd
from torchmark.model.result import Result, Timing
from torchmark.model.run import Environment
from torchmark.report import render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.views.comparison import environment_changes, heading_of, make_view
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from torchmark.model.run import Run

ADD = records.case("Pointwise", "add", autograd=Autograd.FORWARD)
MUL = records.case("Pointwise", "mul", stmt="x * y")
MASK = records.case("Indexing", "mask", stmt="x[m]")
NEWER = {"torch": {"version": "2.14.0"}, "python": "3.11.7", "machine": {"load": 1.0}}
BEFORE = records.run_of(
    ADD,
    MUL,
    MASK,
    id="20261115-221530-a1b2c3",
    tags=("before",),
    results=(
        records.time_result(ADD, 1.0e-6),
        records.count_result(ADD, 1_000_000),
        records.time_result(MUL, 2.0e-6),
        records.count_result(MUL, 500_000),
        records.time_result(MASK, 3.0e-6),
    ),
)
AFTER = records.run_of(
    ADD,
    MUL,
    MASK,
    id="20261116-080000-d4e5f6",
    environments=(Environment(facts=NEWER),),
    results=(
        records.time_result(ADD, 1.25e-6),
        records.count_result(ADD, 1_000_150),
        records.time_result(MUL, 2.0e-6, count=20),
        records.count_result(MUL, 500_000),
        records.failed_result(MASK, reason="RuntimeError: sizes do not match\nmore"),
        records.count_result(MASK),
    ),
)

TEXT = """\
Comparison of two runs
before: Run 20261115-221530-a1b2c3 (before), running, started
  2026-11-15T22:15:30Z
after: Run 20261116-080000-d4e5f6, running, started 2026-11-15T22:15:30Z
torch.version: 2.13.0 → 2.14.0

Times
Pointwise                         before         after         change  verdict
  add · Python, eager, forward  1.000 us      1.250 us  +25.0 ± 2.0 %  slower
  mul · Python, eager           2.000 us  2.000 us (!)   +0.0 ± 1.6 %  same

Instructions
Pointwise                       instructions  difference    change  verdict
  add · Python, eager, forward      10,001.5       +1.50  +0.015 %  more
  mul · Python, eager                  5,000           0            same

Score of the times
group    cases          ratio [95 %]
  all        2  1.118 [1.104, 1.132]
ratio: geometric mean. The interval does not include what differs from run to
  run, such as the state of the machine.

Not compared
  Indexing / mask · Python, eager (time) failed in the second run: RuntimeError:
    sizes do not match
  Indexing / mask · Python, eager (instructions) only in the second run

Times: 1 slower, 1 same (changes up to 5 % are ignored); instructions: 1 more, 1
  same; 2 not compared.
"""


def text_of(first: Run, second: Run) -> str:
    return render_view(make_view(first, second, compare_runs(first, second)), "text")


def json_of(first: Run, second: Run) -> Any:
    differences = compare_runs(first, second)
    view = make_view(first, second, differences)
    return json.loads(render_figures(view, heading_of(first, second, differences)))


def with_results(run: Run, *results: Result) -> Run:
    return msgspec.structs.replace(run, results=results)


def test_the_text_reads_like_this() -> None:
    assert text_of(BEFORE, AFTER).splitlines() == TEXT.splitlines()


def test_the_json_has_the_same_figures() -> None:
    record = json_of(BEFORE, AFTER)
    assert (record["before"], record["after"]) == (BEFORE.id, AFTER.id)
    assert record["environment"] == {"torch.version": ["2.13.0", "2.14.0"]}
    assert record["thresholds"] == {"time": 0.05, "count": 0.0, "ratio": 0.01}
    time, _, count, _, failed, _ = record["table"]
    assert (time["case"], round(time["ratio"], 9), time["verdict"]) == (ADD.id, 1.25, "slower")
    assert time["ratio_low"] < 1.25 < time["ratio_high"]
    assert time["before_low"] < time["before"] < time["before_high"]
    assert count["difference"] == 1.5
    assert failed["verdict"] == "failed in the second run"


def test_an_interval_without_an_end_is_null_in_json() -> None:
    times = (1e-9, 1.0) * 5 + (1e-9,) * 5
    scattered = Timing(processes=(Sampling(1, times, times, (1.0,) * 15, 1.0, 0.0),))
    first = msgspec.structs.replace(records.time_result(ADD), payload=scattered)
    before, after = with_results(BEFORE, first), with_results(AFTER, records.time_result(ADD))
    assert json_of(before, after)["table"][0]["ratio_high"] is None
    text = text_of(before, after)
    assert "± ∞ %" in text
    assert "unclear" in text


def test_the_load_of_the_machine_is_no_difference_of_environments() -> None:
    assert environment_changes(BEFORE, AFTER) == {"torch.version": ("2.13.0", "2.14.0")}
    nowhere = msgspec.structs.replace(AFTER, environments=())
    assert environment_changes(AFTER, nowhere).keys() == {"torch.version", "python"}


def test_environments_of_ab_runs_are_compared_by_their_names() -> None:
    first = ab_records.run_of(ab_records.timed(ADD, 1.0))
    moved = Environment(name="B", facts={**ab_records.FACTS_B, "python": "3.12.0"})
    second = msgspec.structs.replace(first, environments=(first.environments[0], moved))
    assert environment_changes(first, second) == {"B: python": ("3.11.7", "3.12.0")}


def test_the_ratios_of_ab_runs_have_a_table_of_their_own() -> None:
    first, second = (ab_records.run_of(ab_records.timed(ADD, ratio)) for ratio in (1.0, 1.04))
    text = text_of(first, second)
    assert "Ratios (B's time over A's)" in text
    assert "1.040" in text
    assert "Ratios: 1 slower (changes up to 1 % are ignored)." in text


def test_runs_without_results_say_so() -> None:
    text = text_of(with_results(BEFORE), with_results(AFTER))
    assert "no results to compare" in text


def test_a_case_that_is_both_timed_and_counted_is_told_in_both_tables() -> None:
    assert text_of(BEFORE, BEFORE).count("  mul · Python, eager") == 2


@settings(max_examples=40)
@given(records.runs, records.runs)
def test_any_two_runs_can_be_shown(first: Run, second: Run) -> None:
    results = (records.time_result(ADD), records.count_result(MUL), records.failed_result(MASK))
    for one, other in ((results, results), (results, results[:1]), ((), results)):
        before, after = with_results(first, *one), with_results(second, *other)
        differences = compare_runs(before, after)
        view = make_view(before, after, differences)
        for form in ("text", "markdown", "csv", "html"):
            assert "\x1b" not in render_view(view, form)
        json_of(before, after)

"""Two runs compared, as people and programs read it."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests import records
from torchmark.analyse.run_differences import differences_of
from torchmark.model.case import Autograd
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric, Result
from torchmark.model.run import Run
from torchmark.model.task_spec import TaskSpec
from torchmark.report.run_comparison import environment_changes, render, render_json

ADD = records.case("Pointwise", "add", autograd=Autograd.FORWARD)
MUL = records.case("Pointwise", "mul", stmt="x * y")
MASK = records.case("Indexing", "mask", stmt="x[m]")
BEFORE = records.run_of(ADD, MUL, MASK, id="20261115-221530-a1b2c3", tags=("before",))
AFTER = records.run_of(
    ADD,
    MUL,
    MASK,
    id="20261116-080000-d4e5f6",
    environment={"torch": {"version": "2.14.0"}, "python": "3.11.7", "machine": {"load": 1.0}},
)
FIRST = [
    records.time_result(ADD, 1.0e-6),
    records.count_result(ADD, 1_000_000),
    records.time_result(MUL, 2.0e-6),
    records.count_result(MUL, 500_000),
    records.time_result(MASK, 3.0e-6),
]
SECOND = [
    records.time_result(ADD, 1.25e-6),
    records.count_result(ADD, 1_000_150),
    records.time_result(MUL, 2.0e-6, count=20),
    records.count_result(MUL, 500_000),
    records.failed_result(MASK, reason="RuntimeError: sizes do not match\nmore"),
    records.count_result(MASK),
]

TEXT = """\
before: Run 20261115-221530-a1b2c3 (before), running, started
  2026-11-15T22:15:30Z
after: Run 20261116-080000-d4e5f6, running, started 2026-11-15T22:15:30Z

torch.version: 2.13.0 → 2.14.0

Pointwise                         before     after         change
  add · Python, eager, forward  1.000 us  1.250 us  +25.0 ± 0.2 %    slower
  mul · Python, eager           2.000 us  2.000 us   +0.0 ± 0.3 %  same (!)

Pointwise                       instructions  difference
  add · Python, eager, forward      10,001.5       +1.50  +0.015 %  more
  mul · Python, eager                5,000.0           0            same

Indexing / mask · Python, eager (time) failed in the second run: RuntimeError:
  sizes do not match
Indexing / mask · Python, eager (count) only in the second run

Times: 1 slower, 1 same (changes up to 5 % are not called one); instructions: 1
  more, 1 same; 2 without a pair.
"""


def test_the_text_reads_like_this() -> None:
    text = render(BEFORE, AFTER, differences_of(FIRST, SECOND))
    assert text.splitlines() == TEXT.splitlines()


def test_the_json_has_the_same_figures() -> None:
    record = json.loads(render_json(BEFORE, AFTER, differences_of(FIRST, SECOND)))
    assert (record["before"], record["after"]) == (BEFORE.id, AFTER.id)
    assert record["environment"] == {"torch.version": ["2.13.0", "2.14.0"]}
    time = record["times"][0]
    assert (time["case"], round(time["ratio"], 9), time["verdict"]) == (ADD.id, 1.25, "slower")
    assert time["interval"][0] < 1.25 < time["interval"][1]
    assert record["counts"][0]["difference"] == 1.5
    assert record["incomparable"][0]["why"] == "failed in the second run"


def test_an_interval_without_an_end_is_null_in_json() -> None:
    scattered = Measurement(1, [1e-9, 1.0] * 5 + [1e-9] * 5, TaskSpec("x", "pass"))
    first = replace(records.time_result(ADD), measurement=scattered)
    differences = differences_of([first], [records.time_result(ADD)])
    record = json.loads(render_json(BEFORE, AFTER, differences))
    assert record["times"][0]["interval"][1] is None
    text = render(BEFORE, AFTER, differences)
    assert "± ∞ %" in text
    assert "unclear" in text


def test_the_load_of_the_machine_is_no_difference_of_environments() -> None:
    assert environment_changes(BEFORE, AFTER) == {"torch.version": ("2.13.0", "2.14.0")}
    assert environment_changes(AFTER, replace(AFTER, environment={})).keys() == {
        "torch.version",
        "python",
    }


def test_runs_without_results_say_so() -> None:
    assert "no results to compare" in render(BEFORE, AFTER, differences_of([], []))


def test_a_case_that_is_both_timed_and_counted_is_told_in_both_tables() -> None:
    text = render(BEFORE, AFTER, differences_of(FIRST, FIRST))
    assert text.count("  mul · Python, eager") == 2
    assert {kind.value for kind in Metric} == {"time", "count"}


@settings(max_examples=40)
@given(records.runs, records.runs, st.lists(records.results, max_size=4))
def test_any_two_runs_can_be_shown(first: Run, second: Run, results: list[Result]) -> None:
    for pair in ((results, results), (results, results[:1]), ([], results)):
        differences = differences_of(*pair)
        assert "\x1b" not in render(first, second, differences)
        json.loads(render_json(first, second, differences))

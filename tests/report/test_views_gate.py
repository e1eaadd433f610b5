"""What the gate says, as people and programs read it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import histories, records
from tests.report.made_up_views import find_section
from torchmark.analyse.gate import Baseline, Gate, GateRow, Limit, Outcome
from torchmark.cli.check import render_gate
from torchmark.model.run import RunKind
from torchmark.model.series import Origin, Quantity
from torchmark.report import render_view
from torchmark.report.views.gate import make_view, outcome_cell
from torchmark_probe.loops.intervals import Interval

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
CAT, MM = records.case("Shapes", "cat"), records.case("Linear algebra", "mm", stmt="x @ y")
RUN = histories.run_on(31, records.time_result(ADD), records.time_result(MUL))
ORIGIN = Origin(
    run="20260101-120000-000001",
    started="2026-01-01T12:00:00Z",
    kind=RunKind.RUN,
    suite="",
    environment=RUN.environment,
)
BASELINE = Baseline(level=1e-6, points=30, first=ORIGIN, last=ORIGIN)


def row(case: Any, outcome: Outcome, ratio: float | None = None, **fields: Any) -> GateRow:
    found: dict[str, Any] = {"quantity": Quantity.TIME, **fields}
    if ratio is not None:
        ends = Interval(ratio - 0.01, ratio + 0.01)
        found = {"before": 1e-6, "value": ratio * 1e-6, "ratio": ratio, "interval": ends,
                 "baseline": BASELINE, **found}  # fmt: skip
    return GateRow(case=case, outcome=outcome, **found)


GATE = Gate(
    run=RUN,
    against="branch main",
    rows=(
        row(ADD, Outcome.FAIL, 1.05, is_paired=True),
        row(MUL, Outcome.NEAR, 1.009),
        row(CAT, Outcome.FINE, 1.001),
        row(
            ADD,
            Outcome.WARN,
            1.005,
            quantity=Quantity.INSTRUCTIONS,
            before=1000.0,
            value=1005.0,
            limit=Limit(soft=0.0, hard=0.02),
        ),
        row(MM, Outcome.NEW, value=2e-6),
        row(CAT, Outcome.MISSING, quantity=Quantity.INSTRUCTIONS),
        row(MM, Outcome.BROKEN, quantity=Quantity.INSTRUCTIONS, reason="it crashed\nmore"),
    ),
    notes=("the baseline is out of date: its newest run, 20260101, was 30 days earlier",),
    again="20260202-120000-000001",
)


def text_of(gate: Gate) -> str:
    return render_view(make_view(gate), "text")


TEXT = """\
Check
Run 20260203-120000-000031, finished, started 2026-02-03T12:00:00+00:00
against: branch main
doubtful times were measured again in run 20260202-120000-000001

NOTE the baseline is out of date: its newest run, 20260101, was 30 days earlier

Time
Pointwise                before       now                    change  outcome
  add · Python, eager  1.000 us  1.050 us   +5.0 % [+4.0 %, +6.0 %]  slower (p)
  mul · Python, eager  1.000 us  1.009 us   +0.9 % [-0.1 %, +1.9 %]  unclear
Shapes                   before       now                    change  outcome
  cat · Python, eager  1.000 us  1.001 us  +0.10 % [-0.9 %, +1.1 %]  fine
slower: the interval lies above 0 % and the change is larger than the hard
  limit. slightly slower: the same, for the soft limit. unclear: the interval
  includes 0 % and reaches the limit. (p): measured together with the baseline.

Instructions
Pointwise              before    now  change  outcome
  add · Python, eager   1,000  1,005  +0.5 %  slightly more

Not judged
  Linear algebra / mm · Python, eager (time) has no baseline yet
  Shapes / cat · Python, eager (instructions) is in the baseline, but not in
    this run
  Linear algebra / mm · Python, eager (instructions) failed: it crashed

1 over the hard limit; 1 failed; 1 over the soft limit; 1 unclear; 1 fine; 1
  new; 1 missing.
"""


def test_the_text_reads_like_this() -> None:
    assert text_of(GATE).splitlines() == TEXT.splitlines()


def test_markdown_begins_with_the_result_and_names_what_fails() -> None:
    text = render_view(make_view(GATE), "markdown")
    assert "1 over the hard limit; 1 failed; 1 over the soft limit; 1 unclear; 1 fine" in text
    assert text.index("over the hard limit") < text.index("| case")
    assert "slower (p)" in text


def test_csv_has_a_line_for_each_figure_with_its_limits_and_baseline() -> None:
    lines = list(csv.DictReader(render_view(make_view(GATE), "csv").splitlines()))
    assert len(lines) == len(GATE.rows)
    first = lines[0]
    assert (first["outcome"], first["paired"], first["hard_limit"]) == ("slower", "true", "0.01")
    assert (first["baseline_runs"], first["baseline_last"]) == ("30", ORIGIN.run)
    assert lines[-1]["reason"] == "it crashed"


def test_json_has_what_was_compared_and_the_notes() -> None:
    found = json.loads(render_gate(GATE, make_view(GATE), "json"))
    assert (found["torchmark"], found["run"], found["against"]) == ("check", RUN.id, "branch main")
    assert found["again"] == GATE.again
    assert len(found["notes"]) == 1
    assert found["table"][0]["ratio"] == 1.05
    assert [each["outcome"] for each in found["table"]] == [
        "slower", "unclear", "fine", "slightly slower", "new", "missing", "failed",
    ]  # fmt: skip


def test_html_shows_text_of_users_as_text() -> None:
    odd = records.case("<script>alert(1)</script>", "\x1b[31m|")
    gate = replace(GATE, rows=(row(odd, Outcome.FAIL, 1.05), row(odd, Outcome.NEW)))
    page = render_view(make_view(gate), "html")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    ("rows", "summary"),
    [
        ((), "The run has no times or counts to check."),
        (
            (row(ADD, Outcome.NEW, value=1e-6),),
            "Nothing was judged: there is no baseline for these cases.",
        ),
        ((row(ADD, Outcome.FINE, 1.0),), "1 fine."),
        (
            (row(ADD, Outcome.BETTER, 0.9), row(MUL, Outcome.FINE, 1.0)),
            "1 faster or smaller; 1 fine.",
        ),
    ],
)
def test_the_summary_counts_outcomes(rows: tuple[GateRow, ...], summary: str) -> None:
    assert make_view(replace(GATE, rows=rows)).summary == summary


def test_what_could_not_be_judged_is_listed_with_its_reason() -> None:
    section = find_section(make_view(GATE), "gaps")
    assert section is not None
    assert section.listing == (
        "Linear algebra / mm · Python, eager (time) has no baseline yet",
        "Shapes / cat · Python, eager (instructions) is in the baseline, but not in this run",
        "Linear algebra / mm · Python, eager (instructions) failed: it crashed",
    )


def test_counts_are_more_or_fewer_and_not_slower() -> None:
    counted = row(ADD, Outcome.FAIL, 1.05, quantity=Quantity.INSTRUCTIONS)
    assert outcome_cell(counted).value == "more"
    assert outcome_cell(replace(counted, outcome=Outcome.BETTER)).value == "fewer"
    assert outcome_cell(replace(counted, outcome=Outcome.WARN)).value == "slightly more"


rows = st.builds(
    row,
    records.cases,
    st.sampled_from(Outcome),
    st.none() | st.floats(1e-3, 1e3),
    reason=records.texts,
    is_paired=st.booleans(),
    quantity=st.sampled_from(Quantity),
)


@given(st.lists(rows, max_size=4))
def test_any_gate_can_be_shown_in_every_format(found: list[GateRow]) -> None:
    gate = replace(GATE, rows=tuple(found))
    view = make_view(gate)
    for form in ("text", "markdown", "csv", "html", "json"):
        assert "\x1b" not in render_gate(gate, view, form)

"""The ladder of the overrides suite in text, Markdown, CSV and JSON."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import msgspec

from tests.records import case, count_result, failed_result, run_of, time_result
from torchmark.model.result import Metric, PlannedResult, Timing
from torchmark.model.run import RunKind
from torchmark.report import render
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from torchmark.model.run import Run

KINDS = ("Tensor", "SubTensor", "SubWithTorchFunction")
ADD = [case("overrides", "torch.add", kind, stmt="torch.add(x, y)") for kind in KINDS]
RELU = [case("overrides", "F.relu", kind, stmt="F.relu(x)") for kind in KINDS[:2]]
RUN = run_of(
    *ADD,
    *RELU,
    kind=RunKind.LADDER,
    results=(
        time_result(ADD[0], 1.25e-6),
        time_result(ADD[1], 3.5e-6),
        time_result(ADD[2], 4e-6),
        count_result(ADD[0], 450_000),
        count_result(ADD[1], 1_234_500),
        failed_result(ADD[2], Metric.INSTRUCTIONS),
        time_result(RELU[0], 12.345e-6),
        time_result(RELU[1], 12e-6),
    ),
)

TEXT = """\
Overrides ladder, run 20261115-221530-a1b2c3
running, started 2026-11-15T22:15:30Z
torch 2.13.0, Python 3.11.7

Cost over a plain Tensor
torch.add(x, y)                 time           over     ×  instr.    more
  Tensor                1.250 ±0.014              –     –   4,500       –
  SubTensor             3.500 ±0.039  +2.250 ±0.042  2.80  12,345  +7,845
  SubWithTorchFunction  4.000 ±0.045  +2.750 ±0.047  3.20  failed       –
F.relu(x)                       time           over     ×  instr.    more
  Tensor                12.34 ±0.138              –     –       –       –
  SubTensor             12.00 ±0.134  -0.345 ±0.192  0.97       –       –
"""


def doubtful() -> Run:
    """The widest that is to be expected: a warning, and six figures of instructions."""
    times = (1e-6, 9e-6, 10e-6, 12e-6, 40e-6)
    scattered = Timing(processes=(Sampling(1, times, times, (1.0,) * 5, 1.0, 0.0),))
    return run_of(
        *ADD,
        kind=RunKind.LADDER,
        results=(
            time_result(ADD[0], 1.25e-6),
            count_result(ADD[0], 450_000),
            msgspec.structs.replace(time_result(ADD[2]), payload=scattered),
            count_result(ADD[2], 12_345_600),
        ),
    )


def test_the_text_is_a_table_for_each_call() -> None:
    text = render(RUN, "text")
    assert text.startswith(TEXT)
    assert "overrides / torch.add / SubWithTorchFunction" in text
    assert "SIGSEGV" in text


def test_only_columns_that_are_shown_are_explained() -> None:
    timed = run_of(
        kind=RunKind.LADDER,
        plan=(PlannedResult(case=ADD[0], metric=Metric.TIME),),
        results=(time_result(ADD[0], 1.25e-6),),
    )
    explained = "more: additional instructions"
    assert explained in " ".join(render(RUN, "text").split())
    assert explained not in " ".join(render(timed, "text").split())


def test_no_line_is_longer_than_asked() -> None:
    for run in (RUN, doubtful()):
        text = render(run, "text")
        assert max(map(len, text.splitlines())) <= 80, text


def test_a_warning_is_marked_and_told() -> None:
    text = render(doubtful(), "text")
    assert "(!)" in text
    assert "WARNING too few samples" in text
    assert "(!)" in render(doubtful(), "markdown")


def test_what_was_not_counted_has_no_columns() -> None:
    results = tuple(each for each in RUN.results if each.metric is Metric.TIME)
    plan = tuple(each for each in RUN.plan if each.metric is Metric.TIME)
    text = render(msgspec.structs.replace(RUN, plan=plan, results=results), "text")
    assert "  SubTensor             3.500 ±0.039  +2.250 ±0.042  2.80\n" in text
    assert "instr." not in text


def test_results_of_other_suites_are_left_out() -> None:
    other = case("Pointwise", "add")
    run = msgspec.structs.replace(RUN, results=(*RUN.results, time_result(other)))
    for form in ("text", "csv", "markdown"):
        assert render(run, form) == render(RUN, form)


def test_markdown_has_whole_intervals() -> None:
    text = render(RUN, "markdown")
    assert "**torch.add(x, y)**" in text
    assert "**F.relu(x)**" in text
    assert re.search(r"\+2\.250 ±0\.042 \| +\[2\.208, 2\.292\]", text)


def test_json_has_every_figure_in_seconds() -> None:
    record = json.loads(render(RUN, "json"))
    tensor, sub, own, *_ = record["table"]
    assert (tensor["input"], tensor["overhead"], tensor["instructions"]) == ("Tensor", None, 4500.0)
    assert sub["overhead"] == 3.5e-6 - 1.25e-6
    assert sub["overhead_low"] < sub["overhead"] < sub["overhead_high"]
    assert sub["more_instructions"] == 7845.0
    assert (own["instructions"], own["more_instructions"]) == (None, None)
    assert own["reason"] == "the case crashed its process with SIGSEGV"


def test_json_of_an_interval_without_an_end_has_null() -> None:
    times = (1e-9, 1.0) * 5 + (1e-9,) * 5
    scattered = Timing(processes=(Sampling(1, times, times, (1.0,) * 15, 1.0, 0.0),))
    plain = msgspec.structs.replace(time_result(ADD[0]), payload=scattered)
    run = msgspec.structs.replace(RUN, results=(plain, time_result(ADD[1])))
    assert json.loads(render(run, "json"))["table"][1]["ratio_high"] is None

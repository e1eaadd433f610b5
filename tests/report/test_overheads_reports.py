"""The ladder in text, Markdown and JSON."""

from __future__ import annotations

import json

from tests.records import case, count_result, failed_result, run_of, time_result
from torchmark.analyse.overheads import Ladder, ladders_of
from torchmark.model.measurement import Measurement
from torchmark.model.result import Metric
from torchmark.model.task_spec import TaskSpec
from torchmark.report import overheads_json, overheads_markdown, overheads_text

KINDS = ("Tensor", "SubTensor", "SubWithTorchFunction")
ADD = [case("overrides", "torch.add", kind, stmt="torch.add(x, y)") for kind in KINDS]
RELU = [case("overrides", "F.relu", kind, stmt="F.relu(x)") for kind in KINDS[:2]]
RUN = run_of(*ADD, *RELU)

LADDERS = ladders_of(
    [
        time_result(ADD[0], 1.25e-6),
        time_result(ADD[1], 3.5e-6),
        time_result(ADD[2], 4e-6),
        count_result(ADD[0], 450_000),
        count_result(ADD[1], 1_234_500),
        failed_result(ADD[2], Metric.INSTRUCTIONS),
        time_result(RELU[0], 12.345e-6),
        time_result(RELU[1], 12e-6),
    ],
    "Tensor",
)

TEXT = """\
Run 20261115-221530-a1b2c3, running, started 2026-11-15T22:15:30Z
torch 2.13.0, Python 3.11.7

torch.add(x, y)                 time           over     ×  instr.    more
  Tensor                1.250 ±0.001              –     –   4,500       –
  SubTensor             3.500 ±0.004  +2.250 ±0.004  2.80  12,345  +7,845
  SubWithTorchFunction  4.000 ±0.004  +2.750 ±0.004  3.20  failed       –
F.relu(x)                       time           over     ×  instr.    more
  Tensor                12.34 ±0.012              –     –       –       –
  SubTensor             12.00 ±0.012  -0.345 ±0.017  0.97       –       –
"""


def doubtful() -> tuple[Ladder, ...]:
    """The widest that is to be expected: a doubt, and six figures of instructions."""
    scattered = Measurement(1, [1e-6, 9e-6, 10e-6, 12e-6, 40e-6], TaskSpec("x", "pass"))
    assert scattered.doubts
    wide = time_result(ADD[2])
    return ladders_of(
        [
            time_result(ADD[0], 1.25e-6),
            count_result(ADD[0], 450_000),
            type(wide)(
                case=wide.case, kind=wide.kind, status=wide.status, finished=wide.finished,
                measurement=scattered,
            ),
            count_result(ADD[2], 12_345_600),
        ],
        "Tensor",
    )  # fmt: skip


def test_the_text_is_a_ladder_for_each_call() -> None:
    text = overheads_text.render(RUN, LADDERS)
    assert text.split("\n\n")[:2] == TEXT.removesuffix("\n").split("\n\n")
    assert "FAILED overrides / torch.add / SubWithTorchFunction" in text
    assert "SIGSEGV" in text


def test_no_line_is_longer_than_asked() -> None:
    for ladders in (LADDERS, doubtful()):
        text = overheads_text.render(RUN, ladders)
        assert max(map(len, text.splitlines())) <= 80, text


def test_a_doubt_is_marked_and_told() -> None:
    text = overheads_text.render(RUN, doubtful())
    assert "(!)" in text
    assert "DOUBT" in text
    assert "(!)" in overheads_markdown.render(RUN, doubtful())


def test_markdown_has_a_table_for_each_call_with_whole_intervals() -> None:
    text = overheads_markdown.render(RUN, LADDERS)
    assert "| torch.add(x, y) " in text
    assert "| F.relu(x) " in text
    assert "+2.250 [2.246, 2.254]" in text
    assert "- **failed** overrides / torch.add / SubWithTorchFunction" in text


def test_json_has_every_figure_in_seconds() -> None:
    record = json.loads(overheads_json.render(RUN, LADDERS))
    assert record["run"] == RUN.id
    tensor, sub, own = record["ladders"][0]["rungs"]
    assert (tensor["kind"], tensor["time_overhead"], tensor["instructions"]) == (
        "Tensor", None, 4500.0,
    )  # fmt: skip
    assert sub["time_overhead"]["seconds"] == 3.5e-6 - 1.25e-6
    assert sub["more_instructions"] == 7845.0
    assert (own["instructions"], own["more_instructions"]) == (None, None)


def test_json_of_an_interval_without_an_end_is_still_json() -> None:
    record = json.loads(overheads_json.render(RUN, doubtful()))
    overhead = record["ladders"][0]["rungs"][1]["time_overhead"]
    assert len(overhead["ratio_interval"]) == 2

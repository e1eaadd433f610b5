"""A trace at a glance: counts that add up, a tree that reads, lines that fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.capture.traces.files import HEADER, call, end, step, tensor, written
from torchmark.analyse.trace_summary import summarise_trace
from torchmark.capture.traces.loading import load_trace
from torchmark.report.formats import text as text_format
from torchmark.report.views.trace_summary import make_record, make_view

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.analyse.trace_summary import TraceSummary


def place(phase: str, module: str | None, **more: Any) -> dict[str, Any]:
    return {"place": {"phase": phase, "module": module, **more}}


LINES = [
    HEADER,
    call("aten.addmm.default", tensor(8), tensor(4, 16), tensor(16, 8, strides=[1, 16])),
    call("aten.relu.default", tensor(4, 8)),
    call("aten.threshold_backward.default", tensor(4, 8), tensor(4, 8), 0),
    call("aten.add_.Tensor", tensor(8), 0.09999999999999998),
    call("aten.add_.Tensor", {"tensor": {"shape": [16, 8], "dtype": "float16"}}, 1),
    place("forward", "layers.0.linear"),
    place("forward", "layers.0"),
    place("backward", "layers.0"),
    place("forward", "layers.1.linear"),
    place("forward", "layers.1"),
    place("backward", "layers.1", thread=1),
    place("optimizer", None, compiled=True),
    place("forward", ""),
    {"step": {"calls": [3, 1, 0, 1, 2, 0, 1, 2, 3, 4], "places": [6, 7, 0, 1, 2, 3, 4, 5, 6, 6]}},
    {"again": 9},
    end(100, "2 workers of a DataLoader: what they call is not in here", steps=10),
]

EXPECTED = """\
trace.jsonl: captured, torch 2.13.0, Python 3.11.2, train.py
phases: forward 50 calls (50.0 %), backward 20 calls (20.0 %), optimizer 30
  calls (30.0 %)
dtypes: float32 90 calls (90.0 %), float16 10 calls (10.0 %)
30 calls in graphs that torch.compile compiled
2 threads

By operator
operator                           calls   share  distinct
  aten.add_.Tensor                    30  30.0 %         2
  aten.relu.default                   30  30.0 %         1
  aten.addmm.default                  20  20.0 %         1
  aten.threshold_backward.default     20  20.0 %         1

Calls by module
module                                              forward  backward  optimizer
  (the model itself)                                     10
    aten.relu.default  float32[4, 8]                     10
  layers                                                 40        20
    0 … 1 (2 equal modules, each)                        20        10
      aten.relu.default  float32[4, 8]                   10
      aten.threshold_backward.default  float32[4,                  10
        8], float32[4, 8], 0
      linear                                             10
        aten.addmm.default  float32[8], float32[4,       10
          16], float32[16, 8] strides (1, 16)
  (outside of modules)                                                        30
    aten.add_.Tensor                                                          30
      float32[8], 0.1                                                         20
      float16[16, 8], 1                                                       10

Not captured
  2 workers of a DataLoader: what they call is not in here

100 calls of 4 operators, 5 distinct; 10 steps, 1 distinct.
"""


def summarised(folder: Path, lines: list[Any]) -> TraceSummary:
    return summarise_trace(load_trace(written(folder, lines)))


def shown(summary: TraceSummary, width: int = 80) -> str:
    return text_format.render(make_view(summary, "trace.jsonl"), width)


def json_of(summary: TraceSummary) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(make_record(summary, "trace.jsonl")))
    return record


def test_the_text_has_operators_phases_shapes_and_modules(tmp_path: Path) -> None:
    assert shown(summarised(tmp_path, LINES)) == EXPECTED


def test_every_line_fits_and_every_branch_is_the_sum_of_those_below(tmp_path: Path) -> None:
    deep = [f"{'block.' * depth}head" for depth in range(30)]
    long = [tensor(*range(1, 20)) for _ in range(30)]
    lines = [
        HEADER,
        *(call("aten.neg.default", *long[:n]) for n in range(1, 20)),
        *(place("forward", module) for module in deep),
        *({"counts": [[n % 19, n, 10**9]]} for n in range(30)),
    ]
    summary = summarised(tmp_path, lines)
    for width in (60, 80, 140):
        text = shown(summary, width)
        assert max(map(len, text.splitlines())) <= width
    record = json_of(summary)
    check_sums(record["tree"], 30 * 10**9)


def check_sums(branches: list[dict[str, Any]], expected: int) -> None:
    assert sum(sum(branch["calls"].values()) for branch in branches) == expected
    for branch in branches:
        if "within" in branch:
            check_sums(branch["within"], sum(branch["calls"].values()))


def test_the_json_has_all_of_it(tmp_path: Path) -> None:
    record = json_of(summarised(tmp_path, LINES))
    assert (record["calls"], record["distinct"], record["steps"]) == (100, 5, 10)
    assert record["phases"] == {"forward": 50, "backward": 20, "optimizer": 30}
    assert record["operators"][0] == {
        "op": "aten.add_.Tensor", "calls": 30, "share": 0.3, "distinct": 2,
        "dtypes": ["float32", "float16"],
    }  # fmt: skip
    assert [branch["module"] for branch in record["tree"]] == [
        "(the model itself)", "layers", "(outside of modules)",
    ]  # fmt: skip
    check_sums(record["tree"], 100)


def test_a_trace_without_modules_is_shown_by_operator(tmp_path: Path) -> None:
    lines = [HEADER, call(), {"place": {"phase": "unknown"}}, {"counts": [[0, 0, 3]]}, end(3)]
    text = shown(summarised(tmp_path, lines))
    assert "Calls by operator" in text
    assert "order not known" in text
    assert "phases" not in text


def test_a_trace_without_calls_says_so(tmp_path: Path) -> None:
    text = shown(summarised(tmp_path, [HEADER, end(0)]))
    assert "0 calls of 0 operators" in text


def test_one_step_that_differs_is_no_repeat(tmp_path: Path) -> None:
    lines = [HEADER, call(), place("forward", None), step(0), step(0, 0), step(0), end(4)]
    text = shown(summarised(tmp_path, lines))
    assert "3 steps, 2 distinct" in text

"""A replay in every format: text, CSV and a page."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.replays import call, done, not_done, replay, time
from torchmark.analyse.replay import understood
from torchmark.model.replay_record import Backend, ReplayMode
from torchmark.model.result import Status
from torchmark.report import replay_csv, replay_page, replay_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browsing import Visit

REASON = "the call needs 4.0 TB, 23.3 GB are free"
HOSTILE = "<script>alert(1)</script>\x1b[31m"

PLAIN = replay(
    call(0, "aten.mm.default", done(2.2e-3), flops=100_000_000, shape=(64, 64)),
    call(1, "aten.relu.default", done(2e-6), count=40),
    call(2, "aten.relu.default", done(3e-6, remarks=("output 0: its strides differ",)),
         shape=(8, 8)),
    call(3, "aten.zeros.default", not_done(Status.SKIPPED, REASON), count=1),
    call(4, "aten.late.default", signature=HOSTILE),
    unseen=("2 worker processes",),
)  # fmt: skip

TEXT = """\
step.jsonl.gz, each call by itself, 1 thread, seed 0, started
  2026-11-16T09:00:00+00:00
torch 2.13.0, Python 3.11.7

71 calls in 10 steps, 5 of them distinct.
The calls of a step take 2.211 ms: 100 % work, 0 % overhead.

by operator  calls    total   share  FLOPs  bytes      what
  mm            10  22.0 ms  99.5 %  1.00G   328K      work
  relu          50   110 us   0.5 %         10.2K  overhead
  zeros          1                            128
  late          10                          1.28K

by call  calls          each   share  FLOPs  bytes      what
  mm        10  2.20 ms ±2 %  99.5 %   100M  32.8K      work
    float32[64, 64]
  relu      40  2.00 us ±2 %   0.4 %           128  overhead
    float32[4, 4]
  … 1 more call, 0.1 % of the time: --top, --csv and --html

This machine at its best: copies 100GB/s for 256 KiB, 50.0GB/s for 4,096 KiB,
  10.0GB/s for 131,072 KiB; products 50.0GFLOP/s in float32; the smallest call
  takes 1.00 us.

SKIPPED: the call needs 4.0 TB, 23.3 GB are free: zeros(float32[4, 4])

NOT AS RECORDED: output 0: its strides differ: relu(float32[8, 8])

The trace lacks: 2 worker processes

3 replayed, 1 cannot be replayed, 1 not measured.
"""


def test_the_text_has_operators_calls_and_what_could_not_be() -> None:
    assert replay_text.render(understood(PLAIN), top=2) == TEXT


@pytest.mark.parametrize("backends", [(Backend.EAGER,), tuple(Backend)])
@pytest.mark.parametrize("width", [80, 120])
def test_lines_of_the_text_fit(width: int, backends: tuple[Backend, ...]) -> None:
    table = understood(
        replay(
            call(0, "aten.native_layer_norm_backward.default", done(2e-6), count=123_456,
                 signature=", ".join(["float32[128, 256, 512] strides (131072, 512, 1)"] * 9)),
            call(1, "aten.mm.default", done(2e-3, remarks=("word " * 60,)), flops=10**9),
            backends=backends,
        )
    )  # fmt: skip
    for line in replay_text.render(table, width=width).splitlines():
        assert len(line) <= width, line


def test_backends_stand_side_by_side() -> None:
    compiled = done(1e-6, Backend.COMPILE, prepare_seconds=2.5, largest_error=1e-7)
    text = replay_text.render(
        understood(
            replay(
                call(0, "aten.relu.default", done(2e-6), compiled,
                     not_done(Status.SKIPPED, "pip install 'torchmark[ort]'", Backend.ORT)),
                backends=(Backend.EAGER, Backend.COMPILE, Backend.ORT),
            )
        )
    )  # fmt: skip
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "relu 10 20.0 us 100.0 % 1.28K 2.00×" in rows
    assert "relu 100.0 % 2.00 us ±2 % 1.00 us 2.00× skipped" in rows
    assert "compile: 2.00 times as fast as eager, over 1 call that both have." in rows
    assert "SKIPPED ort: pip install 'torchmark[ort]': relu(float32[4, 4])" in text


def test_in_order_the_whole_pass_stands_beside_the_sum() -> None:
    in_order = replace(PLAIN, mode=ReplayMode.ORDER, pass_seconds=time(4.422e-3))
    text = replay_text.render(understood(in_order))
    assert "calls in their order" in text
    assert "4.42 ms ±2 % on the clock; the sum of the calls is 0.50 of it" in " ".join(text.split())


def test_the_csv_has_every_call_and_backend_under_a_stable_header() -> None:
    assert replay_csv.HEADER[:8] == (
        "call", "op", "arguments", "phases", "modules", "calls", "backend", "outcome",
    )  # fmt: skip
    both = replace(
        PLAIN,
        backends=(Backend.EAGER, Backend.COMPILE),
        calls=(
            call(7, "aten.relu.default", done(2e-6), done(1e-6, Backend.COMPILE)),
            *PLAIN.calls[3:],
        ),
    )
    lines = list(csv.DictReader(io.StringIO(replay_csv.render(understood(both)))))
    assert len(lines) == 6
    by_call = {(line["call"], line["backend"]): line for line in lines}
    relu = by_call["7", "eager"]
    assert (float(relu["seconds"]), float(relu["share"]), relu["nature"]) == (2e-6, 1.0, "overhead")
    assert (relu["flops"], relu["bytes"]) == ("", "128"), "unknown is empty, and is not 0"
    assert float(by_call["7", "compile"]["speedup"]) == 2
    assert by_call["3", "eager"]["reason"] == REASON
    assert by_call["4", "compile"]["outcome"] == "not measured"
    assert "\x1b" not in by_call["4", "eager"]["arguments"]


def test_a_reader_of_the_page_sees_shares_and_opens_operators(
    tmp_path: Path, visit: Callable[[Path], Visit]
) -> None:
    file = tmp_path / "replay.html"
    file.write_text(replay_page.render(understood(PLAIN)), encoding="utf-8")
    page = visit(file).page
    assert page.title() == "torchmark replay of step.jsonl.gz"
    bars = page.locator(".picture rect").all()
    widths = [bar.bounding_box() or {"width": 0.0} for bar in bars]
    assert len(bars) == 2
    assert widths[0]["width"] > 100 * widths[1]["width"] > 0
    relu = page.locator(".operators details").filter(has_text="relu")
    cell = relu.locator("td.arguments").first
    assert not cell.is_visible()
    relu.locator("summary").click()
    assert cell.is_visible()
    rows = [summary.bounding_box() for summary in page.locator(".operators summary").all()]
    assert all(row is not None and row["height"] < 40 for row in rows), "one line for an operator"
    assert page.locator("#failures").inner_text().count(REASON) == 1
    assert page.locator("script").count() == 0


def test_a_page_of_nothing_but_failures_is_a_page(
    tmp_path: Path, visit: Callable[[Path], Visit]
) -> None:
    failed = replay(call(0, "aten.x.y", not_done(Status.FAILED, HOSTILE)), speeds=None)
    file = tmp_path / "replay.html"
    file.write_text(replay_page.render(understood(failed)), encoding="utf-8")
    page = visit(file).page
    assert "<script>alert(1)</script>" in page.locator("#failures").inner_text()
    assert page.locator(".picture").count() == 0

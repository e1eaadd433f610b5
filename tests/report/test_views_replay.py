"""A replay as every format has it: text, CSV and a page."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.replays import MadeCall, call, done, not_done, replay, sampled, summary, with_count
from torchmark.model.result import Status, TimeSummary
from torchmark.model.run import Alternative, Change
from torchmark.model.run_settings import Backend, CallPlace
from torchmark.model.trace import PlainSteps
from torchmark.report import render
from torchmark.report.formats import text
from torchmark.report.views.replay import make_view
from torchmark.report.views.replay_calls import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browsing import Visit
    from torchmark.model.run import Run

REASON = "the call needs 4.0 TB, 23.3 GB are free"
HOSTILE = "<script>alert(1)</script>\x1b[31m"


IN_LINE_7 = CallPlace(
    phase="forward", module="encoder.0", function="torch.mm", source="model.py:7", count=10
)


def plain(whole: float | None = None, **more: Any) -> Run:
    return replay(
        call(0, "aten.mm.default", done(2.2e-3, flops=100_000_000, peak_memory_bytes=16384),
             shape=(64, 64), places=(IN_LINE_7,)),
        call(1, "aten.relu.default", done(2e-6), count=40),
        call(2, "aten.relu.default", done(3e-6, remarks=("output 0: its strides differ",)),
             shape=(8, 8)),
        call(3, "aten.zeros.default", not_done(Status.SKIPPED, REASON), count=1),
        call(4, "aten.late.default", signature=HOSTILE),
        unseen=("2 worker processes",),
        whole=whole,
        **more,
    )  # fmt: skip


def on_cuda(made: MadeCall) -> MadeCall:
    record = made.traced.record.replace('"float32"', '"float32","device":"cuda:0"')
    return replace(made, traced=msgspec.structs.replace(made.traced, record=record))


def test_calls_of_another_device_are_said_in_the_header_the_csv_and_a_warning() -> None:
    here = call(0, "aten.mm.default", done(2e-3))
    run = replay(here, on_cuda(call(1, "aten.relu.default", done(2e-6))))
    view = make_view(run)
    assert view.lead[1] == "recorded on cuda:0, replayed on the CPU"
    assert "1 of 2 distinct calls were recorded on cuda:0" in view.warnings[0]
    rows = list(csv.DictReader(io.StringIO(render(run, "csv"))))
    assert [row["recorded_on"] for row in rows] == ["", "cuda:0"]
    assert "cuda" not in render(replay(here), "text")


TEXT = """\
Replay 20261116-090000-a1b2c3
step.jsonl.gz: each call alone, 1 thread, seed 0
finished, started 2026-11-16T09:00:00+00:00
torch 2.13.0, Python 3.11.7
71 calls in 10 steps, 5 of them distinct.
The calls of a step take 2.211 ms: 100 % work, 0 % overhead.

NOTE Missing from the trace: 2 worker processes

By operator
operator    calls    total   share   FLOPs   bytes  what
  mm           10  22.0 ms  99.5 %  1.00 G   328 k  work
  relu         50   110 us   0.5 %          10.2 k  overhead
  zeros         1                              128
  late         10                           1.28 k
work: at the best speed of this machine, the bytes or FLOPs need at least half
  of the time. overhead: they need less, and the call is short. slow: they need
  less, and the call is long.
Best speed of this machine: copies 100 GB/s for 256 KiB, 50.0 GB/s for 4,096
  KiB, 10.0 GB/s for 131,072 KiB; matrix products 50.0 GFLOP/s in float32; the
  smallest call takes 1.00 us.

By call
The first 2 of 3 distinct calls take 99.9 % of the time.
call                calls          each   share  FLOPs   bytes  memory  what
  mm(float32[64, 64])
                       10  2.20 ms ±2 %  99.5 %  100 M  32.8 k  16.4 k  work
      model.py:7 torch.mm (forward, encoder.0)
  relu(float32[4, 4])
                       40  2.00 us ±2 %   0.4 %            128          overhead
  … 1 more: see --html or --json

By phase
phase      calls    share
  forward     71  100.0 %

By module
module             modules  calls    share
  the whole model        1     71  100.0 %
    encoder.0            1     71  100.0 %

Not replayed
  SKIPPED: the call needs 4.0 TB, 23.3 GB are free: zeros(float32[4, 4])

Not as recorded
  output 0: its strides differ: relu(float32[8, 8])

3 replayed, 1 skipped, 1 not measured; the calls of a step take 2.211 ms.
"""


def test_the_text_has_operators_calls_and_what_could_not_be() -> None:
    assert text.render(make_view(plain(top=2))) == TEXT


@pytest.mark.parametrize("backends", [(Backend.EAGER,), tuple(Backend)])
@pytest.mark.parametrize("width", [80, 120])
def test_lines_of_the_text_fit(width: int, backends: tuple[Backend, ...]) -> None:
    run = replay(
        call(0, "aten.native_layer_norm_backward.default", sampled(2e-6), count=123_456,
             signature=", ".join(["float32[128, 256, 512] strides (131072, 512, 1)"] * 9)),
        call(1, "aten.mm.default", done(2e-3, remarks=("word " * 60,), flops=10**9)),
        backends=backends,
    )  # fmt: skip
    for line in render(run, "text", width=width).splitlines():
        assert len(line) <= width, line


def test_backends_stand_side_by_side() -> None:
    compiled = done(1e-6, Backend.COMPILE, prepare_seconds=2.5, max_error=1e-7)
    run = replay(
        call(0, "aten.relu.default", done(2e-6), compiled,
             not_done(Status.SKIPPED, "pip install 'torchmark[ort]'", Backend.ORT)),
        backends=tuple(Backend),
    )  # fmt: skip
    shown = render(run, "text")
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "relu 10 20.0 us 100.0 % 1.28 k 2.00×" in rows
    assert "relu(float32[4, 4]) 2.00 us ±2 % 1.00 us 2.00× skipped 100.0 %" in rows
    assert "compile is 2.00 times as fast as eager (1 call measured with both)." in rows
    assert "SKIPPED ort: pip install 'torchmark[ort]': relu(float32[4, 4])" in shown
    assert "prepared in 2.500 s; largest error 1e-07" in render(run, "html")


def test_in_order_the_whole_pass_stands_beside_the_sum() -> None:
    shown = render(plain(whole=4.422e-3), "text")
    assert "calls in order" in shown
    said = "One pass over all calls takes 4.42 ms ±2 %; the sum of the calls is 0.50 of that."
    assert said in " ".join(shown.split())


def said_of(**more: Any) -> str:
    """The text of a replay whose calls take 2.211 ms in a step, as one line."""
    return " ".join(render(plain(**more), "text").split())


def test_the_real_step_stands_next_to_the_sum_of_its_calls() -> None:
    step = PlainSteps(seconds=(4.422e-3,) * 10, running=(4.0e-3,) * 10, threads=1)
    shown = said_of(plain_steps=step)
    assert "A real step took 4.42 ms ±<1 % in the captured program (median of 10 steps" in shown
    assert "It ran for 4.00 ms and waited for 422 us: for data, or because other" in shown
    assert (
        "The replayed calls take 0.55 of the time that it ran; 1.79 ms are not spent in calls"
        in shown
    )
    assert "the calls of a step take 2.211 ms, 0.55 of a real step." in shown
    rows = list(csv.DictReader(io.StringIO(render(plain(plain_steps=step), "csv"))))
    assert (rows[-1]["op"], rows[-1]["seconds"]) == ("(real step)", "0.004422")


def test_real_steps_that_differ_much_are_said_to_be_a_weak_comparison() -> None:
    steady = PlainSteps(seconds=(1e-3,) * 10, running=(1e-3,) * 10, threads=1)
    wild = PlainSteps(seconds=(1e-3,) * 6 + (9e-3,) * 4, running=(1e-3,) * 10, threads=1)
    assert "very different times" not in said_of(plain_steps=steady)
    assert "The steps took very different times" in said_of(plain_steps=wild)


def test_without_a_plain_step_the_report_says_how_to_get_one() -> None:
    shown = said_of(plain_steps=PlainSteps(threads=1))
    assert "The time of a real step is not known" in shown
    assert "Capture with --steps 3" in shown
    assert "real step" not in said_of(plain_steps=None), "this trace never has one"


def test_a_real_step_with_other_threads_is_said_and_one_of_few_calls_is_not_compared() -> None:
    step = PlainSteps(seconds=(1e-3,) * 10, running=(1e-3,) * 10, threads=2)
    shown = said_of(plain_steps=step)
    assert "The real step used 2 threads and this replay 1; replay with --threads 2" in shown
    assert (
        "The replayed calls take 2.21 of that, so they are slower than in the step itself." in shown
    )
    assert "waited" not in shown
    assert "A real step" not in said_of(plain_steps=step, is_whole=False)


def test_why_calls_are_not_in_their_order_is_in_the_heading() -> None:
    shown = said_of(mode_reason="the trace has no order")
    assert "each call alone (the trace has no order), 1 thread" in shown


def test_hints_say_what_to_change_and_where() -> None:
    present, changed = TimeSummary(samples=9, median=2e-3, low=1.9e-3, high=2.1e-3), summary(1e-4)
    shared: dict[str, Any] = {"times": 1, "present": present, "changed": changed}
    run = msgspec.structs.replace(
        plain(),
        alternatives=(
            Alternative(change=Change.FUSED, calls=(0,), what="AdamW.step on 4 parameters",
                        **shared),
            Alternative(change=Change.FLOAT32, calls=(0,), what="", **shared),
            Alternative(change=Change.CONTIGUOUS, calls=(0,), what="", copying=summary(1e-5),
                        **shared),
            Alternative(change=Change.CONTIGUOUS, calls=(0,), what="", copying=summary(1e-2),
                        **shared),
        ),
    )  # fmt: skip
    shown = " ".join(render(run, "text").split())
    assert (
        "AdamW.step on 4 parameters takes 2.00 ms ±5 %, and 100 us ±2 % with fused=True. This "
        "saves 86 % of a step. Pass fused=True to AdamW (model.py:7)." in shown
    )
    assert "mm(float32[64, 64]) takes 2.00 ms ±5 %, and 100 us ±2 % in float32." in shown
    assert "use float32 for this call (model.py:7)." in shown
    assert "Call .contiguous() on its inputs, which takes 10.0 us (model.py:7)." in shown
    assert "a copy takes 10.0 ms, which is faster only if several calls use it" in shown
    assert shown.endswith("; 4 hints.")
    for form in ("html", "markdown"):
        assert "Pass fused=True to AdamW (model.py:7)" in render(run, form)
    record = msgspec.json.decode(render(run, "json"))["record"]
    assert record["alternatives"][0]["what"] == "AdamW.step on 4 parameters"


def test_every_line_that_makes_a_call_is_named_with_its_function() -> None:
    places = [
        CallPlace(phase=phase, module=f"layer.{at}", function="torch.mm",
                  source=f"model.py:{line}", count=count)
        for phase, line, at, count in
        (("forward", 7, 0, 1), ("backward", 7, 1, 1), ("forward", 9, 2, 5), ("forward", 11, 3, 1),
         ("forward", 12, 4, 1))
    ]  # fmt: skip
    run = replay(call(0, "aten.mm.default", done(1e-3), count=9, places=tuple(places)))
    shown = render(run, "text")
    lines = [line.strip() for line in shown.splitlines()]
    at = lines.index("model.py:9 torch.mm (forward, layer.2)")
    assert lines[at + 1] == "model.py:7 torch.mm (forward, backward, layer.0 and 1 more)"
    assert lines[at + 3] == "and 1 more line"
    (row,) = csv.DictReader(io.StringIO(render(run, "csv")))
    assert row["sources"].split() == [f"model.py:{line}" for line in (9, 7, 11, 12)]
    assert row["functions"] == "torch.mm"
    assert "model.py:9 and 3 more" in render(run, "html")


def test_where_nothing_but_instructions_was_counted_they_stand_for_the_time() -> None:
    shown = render(replay(call(0, "aten.relu.default", with_count(1234)), speeds=None), "text")
    assert "relu(float32[4, 4]) 10 1,234 100.0 % 128" in " ".join(shown.split())


def test_warnings_are_sentences_and_mark_the_times() -> None:
    shown = render(replay(call(0, "aten.relu.default", sampled(2e-6, count=9))), "text")
    assert "2.00 us ±1 % (!)" in shown
    assert "WARNING too few samples, aten.relu.default" in shown
    assert "only 9 samples" in " ".join(shown.split())


def test_one_sample_has_no_interval() -> None:
    run = replay(call(0, "aten.relu.default", sampled(2.41, count=1)))
    assert "2.40 s ±? (!)" in render(run, "text")
    row = next(csv.DictReader(io.StringIO(render(run, "csv"))))
    assert (row["samples"], row["interval_low"], row["interval_high"]) == ("1", "", "")


def test_an_interval_below_one_per_cent_is_said_to_be_that() -> None:
    narrow = TimeSummary(samples=40, median=2e-6, low=1.99e-6, high=2.01e-6)
    backend, make = done(2e-6)
    came = (backend, lambda case: msgspec.structs.replace(make(case), payload=narrow))
    assert "2.00 us ±<1 %  100.0 %" in render(replay(call(0, "aten.relu.default", came)), "text")


def test_the_csv_has_every_call_and_backend_under_a_stable_header() -> None:
    assert COLUMNS[:8] == (
        "call", "op", "arguments", "phases", "modules", "calls", "backend", "status",
    )  # fmt: skip
    run = replay(
        call(7, "aten.relu.default", done(2e-6), done(1e-6, Backend.COMPILE)),
        call(3, "aten.zeros.default", not_done(Status.SKIPPED, REASON)),
        call(4, "aten.late.default", signature=HOSTILE),
        backends=(Backend.EAGER, Backend.COMPILE),
    )
    lines = list(csv.DictReader(io.StringIO(render(run, "csv"))))
    assert [line["call"] for line in lines] == ["3", "3", "4", "4", "7", "7"]
    by_call = {(line["call"], line["backend"]): line for line in lines}
    relu = by_call["7", "eager"]
    assert (float(relu["seconds"]), float(relu["share"]), relu["nature"]) == (2e-6, 1.0, "overhead")
    assert (relu["flops"], relu["bytes"]) == ("", "128"), "unknown is empty, and is not 0"
    assert float(by_call["7", "compile"]["speedup"]) == 2
    assert by_call["3", "eager"]["reason"] == REASON
    assert by_call["4", "compile"]["status"] == "not measured"
    assert "\x1b" not in by_call["4", "eager"]["arguments"]


def test_the_whole_pass_is_a_row_of_the_csv_that_no_sum_takes_in() -> None:
    *_, last = csv.DictReader(io.StringIO(render(plain(whole=1.0), "csv")))
    assert (last["call"], last["op"], last["seconds"]) == ("", "(whole pass)", "1.0")
    assert (last["total_seconds"], last["share"]) == ("", "")


def test_the_json_has_the_record_and_the_figures() -> None:
    record = msgspec.json.decode(render(plain(), "json"))
    assert record["record"]["settings"]["replay"]["trace"] == "step.jsonl.gz"
    assert [row["call"] for row in record["table"]] == [0, 1, 2, 3, 4]


def test_a_reader_of_the_page_sees_shares_and_opens_operators(
    tmp_path: Path, visit: Callable[[Path], Visit]
) -> None:
    file = tmp_path / "replay.html"
    file.write_text(render(plain(), "html"), encoding="utf-8")
    page = visit(file).page
    assert page.title() == "Replay 20261116-090000-a1b2c3"
    page.locator("#chart-shares svg, #chart-shares canvas").first.wait_for()
    relu = page.locator("#operators tr.case").filter(has_text="relu")
    arguments = page.locator("#operators").get_by_text("float32[8, 8]")
    assert not arguments.is_visible()
    relu.locator("summary").click()
    assert arguments.is_visible()
    assert page.locator("#not-replayed").inner_text().count(REASON) == 1
    assert "encoder" in page.locator("#modules").inner_text()


def test_the_page_of_a_large_model_stays_small() -> None:
    """Its calls are listed twice, so what they share must not be written with each of them."""
    layers = [f"encoder.layers.{number}.self_attention.projection" for number in range(3)]
    places = tuple(CallPlace(phase="forward", module=layer, count=4) for layer in layers)
    given = "float32[{0}, 512, 64] strides (32768, 64, 1), float32[64, {0}], [1, 2, 3], False"
    calls = [
        call(number, f"aten.native_operator_{number % 110}.default",
             done(1e-6 * (number % 97 + 1), flops=number * 1000),
             signature=given.format(number + 1), count=12, places=places)
        for number in range(800)
    ]  # fmt: skip
    assert len(render(replay(*calls), "html")) < 1_500_000


def test_a_page_of_nothing_but_failures_is_a_page(
    tmp_path: Path, visit: Callable[[Path], Visit]
) -> None:
    failed = replay(call(0, "aten.x.y", not_done(Status.FAILED, HOSTILE)), speeds=None)
    file = tmp_path / "replay.html"
    file.write_text(render(failed, "html"), encoding="utf-8")
    page = visit(file).page
    assert "<script>alert(1)</script>" in page.locator("#not-replayed").inner_text()
    assert page.locator("figure").count() == 0

"""From results to rows: reasons, facts, what is measured again, the order of a step."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests import records
from tests.replays import call, done, tensor, time
from torchmark.engine.measuring import failed
from torchmark.engine.replaying import (
    ReplayWish,
    calls_of,
    calls_to_repeat,
    facts_in,
    with_result,
)
from torchmark.engine.replaying_in_order import OrderReplay, usual_step
from torchmark.engine.zygote.conversation import Ending, Output
from torchmark.errors import CaseFailedError
from torchmark.model.replay_record import Backend, Replayed
from torchmark.model.result import Metric, Status
from torchmark.model.trace import Place, RecordedCall, Step, Trace
from torchmark_probe.loops.sampling import Sampling

CASE = records.case("aten.relu.default", "float32[4, 4]")
BARE = call(0, "aten.relu.default")


def relu(size: int) -> RecordedCall:
    x = tensor(size)
    return RecordedCall(op="aten.relu.default", schema=None, args=(x,), kwargs={}, outputs=x)


TRACE = Trace(
    source="capture",
    calls=(relu(1), relu(2), relu(3)),
    places=(Place(phase="forward", module="a"), Place(phase="backward")),
    steps=(
        Step(calls=(2, 0), places=(0, 0)),
        Step(calls=(0, 1, 0), places=(0, 0, 1), repeats=3),
        Step(calls=(1,), places=(0,), repeats=3),
    ),
    counts={(2, 0): 1, (0, 0): 4, (1, 0): 6, (0, 1): 3},
)


def failure(message: str, kind: str = "raised") -> Any:
    return failed(CASE, Metric.TIME, CaseFailedError(message, kind=kind))


@pytest.mark.parametrize(
    ("message", "outcome", "reason"),
    [
        ("the case raised: torchmark_probe.replay.x.UnknownOperatorError: no such thing\nat",
         Status.SKIPPED, "no such thing"),
        ("the case ran out of memory: torchmark_probe.replay.x.TooLargeError: needs 1 TB",
         Status.SKIPPED, "needs 1 TB"),
        ("the case raised: RuntimeError: torchmark_probe", Status.FAILED, None),
        ("the case crashed its process with SIGSEGV", Status.FAILED, None),
        ("the case was stopped at its limit of 1 s", Status.FAILED, None),
    ],
)  # fmt: skip
def test_what_the_probe_says_cannot_be_done_is_a_skip_and_all_else_a_failure(
    message: str, status: Status, reason: str | None
) -> None:
    (result,) = with_result(BARE, Backend.EAGER, failure(message)).by
    assert (result.status, result.reason) == (outcome, reason or message)


def test_facts_are_found_among_what_the_operator_printed() -> None:
    line = json.dumps({"torchmark_replay": {"flops": 7}})
    assert facts_in(f"noise\n{line}\nmore torchmark_replay noise") == {"flops": 7}
    assert facts_in("nothing") == {}


def test_a_count_joins_the_time_that_is_there() -> None:
    timed = with_result(BARE, Backend.EAGER, records.time_result(CASE, 2e-6))
    both = with_result(timed, Backend.EAGER, records.count_result(CASE, 1_000_000))
    (result,) = both.by
    assert result.time is not None
    assert result.time.seconds == pytest.approx(2e-6)
    assert result.instructions == 10_000
    not_counted = failed(CASE, Metric.INSTRUCTIONS, CaseFailedError("crashed", kind="crashed"))
    (result,) = with_result(timed, Backend.EAGER, not_counted).by
    assert result.time is not None
    assert (result.status, result.reason) == (Status.FAILED, "crashed")


def test_large_shares_with_wide_intervals_are_measured_again() -> None:
    wide = replace(time(1e-3), low=0.5e-3, high=2e-3)
    unsure = Replayed(backend=Backend.EAGER, status=Status.DONE, time=wide)
    small = replace(unsure, time=replace(wide, seconds=1e-6, low=0.0))
    calls = [
        call(0, "aten.a.b", unsure),
        call(1, "aten.a.b", done(1e-3)),
        call(2, "aten.a.b", small),
        call(3, "aten.a.b"),
    ]
    assert calls_to_repeat(calls, Backend.EAGER) == [0]


def test_calls_are_counted_over_the_trace_or_in_a_step() -> None:
    assert {each.number: each.count for each in calls_of(TRACE)} == {0: 7, 1: 6, 2: 1}
    step = usual_step(TRACE)
    assert step is TRACE.steps[2], "the last of those that repeat the most"
    in_step = calls_of(TRACE, TRACE.steps[1])
    assert [(each.number, each.count) for each in in_step] == [(0, 2), (1, 1)]
    assert [(place.phase, place.module, place.count) for place in in_step[0].places] == [
        ("forward", "a", 1),
        ("backward", None, 1),
    ]


class _Zygote:
    """Knows one call that crashes, and takes a second for each position."""

    def __init__(self) -> None:
        self.orders: list[list[int]] = []

    def run(self, case: Any, **_: Any) -> Any:
        if "[2]" in case.globals["record"]["value"].replace(" ", ""):
            raise CaseFailedError("the case crashed its process with SIGKILL", kind="crashed")
        facts = json.dumps({"torchmark_replay": {"flops": 5, "remarks": []}})
        return type("Output", (), {"stdout": facts})

    def held(self, request: dict[str, Any], _: float) -> Ending:
        order = request["order"]
        self.orders.append(order)
        sampling = Sampling(1, (4.0,) * 9, (4.0,) * 9, (1.0,) * 9, 1.0, 1e-9)
        answer = {
            "outcome": "done",
            "sampling": vars(sampling),
            "seconds": [float(at) for at in range(len(order))],
            "left_out": {},
        }
        nothing = Output(stdout="", stderr="")
        return Ending(answer=answer, status=0, pid=1, output=nothing, seconds=4.0, limit=None)


class _Zygotes:
    def __init__(self) -> None:
        self.zygote = _Zygote()

    def of(self, _: Backend) -> _Zygote:
        return self.zygote


def test_in_order_a_call_that_crashes_is_left_out_and_the_others_keep_their_sum() -> None:
    zygotes = _Zygotes()
    step = Step(calls=(0, 1, 0, 2), places=(0, 0, 0, 0))
    replaying = OrderReplay(calls_of(TRACE, step), step.calls, ReplayWish(), zygotes)  # type: ignore[arg-type]
    found = {each.number: each for each, _ in replaying.news(())}
    assert zygotes.zygote.orders == [[0, 0, 1]]
    times = {number: each.by[0].time for number, each in found.items()}
    assert times[1] is None
    assert found[1].by[0].reason == "the case crashed its process with SIGKILL"
    assert times[0] is not None
    assert (times[0].seconds, times[0].low, times[0].high) == (0.5, 0.0, 1.0)
    assert (found[0].flops, found[0].count) == (5, 2)
    assert replaying.pass_seconds is not None
    assert replaying.pass_seconds.seconds == 4.0

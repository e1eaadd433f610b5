"""Calls measured by themselves and in their order, with a zygote that has no processes."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import records
from tests.records import NOW
from tests.replays import ENVIRONMENT, recorded, summary
from torchmark.analyse.estimates import time_of
from torchmark.define.recorded import plan_replay
from torchmark.engine.measuring import failed_result
from torchmark.engine.replaying import BUDGET, HotReplay, Undecided, limits_for
from torchmark.engine.replaying_in_order import OrderReplay
from torchmark.engine.zygote.cases import Output, Sample
from torchmark.engine.zygote.conversation import Ending
from torchmark.errors import CaseFailedError
from torchmark.model.result import Facts, Metric, Result, Status, TimeSummary, Timing
from torchmark.model.run import Effort, Run, RunKind
from torchmark.model.run_settings import Backend, ReplayMode
from torchmark.model.trace import Place, Step, Trace
from torchmark_probe.loops.sampling import Sampling
from torchmark_probe.zygote.messages import LeftOut, ReplayedInOrder

if TYPE_CHECKING:
    from collections.abc import Collection

EFFORT = Effort(limits=limits_for(BUDGET))
CASE = records.case("aten.relu.default", "float32[4, 4]")


def run_of(trace: Trace, **asked: Any) -> Run:
    settings, planned = plan_replay(trace, "t", **asked)
    return Run(
        id="20261116-090000-a1b2c3",
        kind=RunKind.REPLAY,
        started=NOW,
        plan=tuple(planned),
        environments=(ENVIRONMENT,),
        settings={"replay": msgspec.json.decode(msgspec.json.encode(settings))},
    )


def trace_of(counts: list[int], order: tuple[int, ...] = ()) -> Trace:
    """Calls of relu on so many elements as their number says, each that often."""
    return Trace(
        source="capture",
        calls=tuple(recorded("aten.relu.default", number) for number in range(len(counts))),
        places=(Place(phase="forward"),),
        steps=(Step(calls=order, places=(0,) * len(order)),) if order else (),
        counts={(number, 0): count for number, count in enumerate(counts)},
    )


class FakeZygote:
    """Takes for a call what the test says; knows calls that crash or cannot be done."""

    def __init__(self, seconds: list[float], wide: Collection[int] = ()) -> None:
        self._seconds, self._wide = seconds, wide
        self.crashing: set[int] = set()
        self.unsupported: set[int] = set()
        self.interrupting: set[int] = set()
        self.longest = math.inf
        """Seconds of a budget above which every call crashes."""

        self.takes_real_time = False
        """Whether there are as many samples as the budget has room for."""

        self.calls: list[tuple[int, float]] = []
        """The numbers of calls that were timed, and their budgets."""

        self.orders: list[list[int]] = []
        self.left_out: list[LeftOut] = []
        """Of the passes, by their places in the order."""

    def sample(self, case: Any, *, limits: Any, **_: Any) -> Sample:
        number = self._number_of(case)
        self.calls.append((number, limits.max_run_time))
        self._check(number)
        if limits.max_run_time > self.longest:
            raise CaseFailedError("the case was stopped", kind="timeout")
        spread = 0.5 if number in self._wide else 0.001
        seconds = self._seconds[number]
        count = math.ceil(limits.max_run_time / seconds - 1e-9) if self.takes_real_time else 99
        (sampling,) = records.timed(seconds, min(count, 9999), spread).processes
        return Sample(sampling, first_run=1.0, output=self._output())

    def run(self, case: Any, **_: Any) -> Output:
        self._check(self._number_of(case))
        return self._output()

    def hold(self, work: Any, **_: Any) -> Ending:
        self.orders.append(work.order)
        sampling = Sampling(1, (4.0,) * 9, (4.0,) * 9, (1.0,) * 9, 1.0, 1e-9)
        left_out = {each.number for each in self.left_out}
        seconds = [float(at) for at, place in enumerate(work.order) if place not in left_out]
        return Ending(
            outcome=ReplayedInOrder(
                sampling=sampling,
                seconds=seconds,
                lows=[each * 0.5 for each in seconds],
                highs=[each * 2 for each in seconds],
                passes=9,
                left_out=self.left_out,
            ),
            status=0, pid=1, output=self._output(), limit=None,
        )  # fmt: skip

    def _number_of(self, case: Any) -> int:
        return next(
            number for number in range(len(self._seconds)) if f'"shape":[{number}]' in case.setup
        )

    def _check(self, number: int) -> None:
        if number in self.interrupting:
            raise KeyboardInterrupt
        if number in self.crashing:
            raise CaseFailedError("the case crashed its process with SIGKILL", kind="crashed")
        if number in self.unsupported:
            raise CaseFailedError("there is no such operator", kind="unsupported")

    def _output(self) -> Output:
        return Output(stdout="", stderr="", facts={"flops": 5, "remarks": ["a remark"]})


class FakeZygotes:
    def __init__(self, zygote: FakeZygote) -> None:
        self._zygote = zygote

    def of(self, _: Backend) -> FakeZygote:
        return self._zygote


def measure(kind: type[HotReplay | OrderReplay], run: Run, zygote: FakeZygote) -> list[Result]:
    replaying = kind(run, EFFORT, FakeZygotes(zygote), ())  # type: ignore[arg-type]
    return [news for news in replaying.results() if isinstance(news, Result)]


def shape_of(result: Result) -> str:
    return result.case.label[1]


def test_what_a_backend_cannot_do_is_skipped_and_all_else_fails() -> None:
    zygote = FakeZygote([1e-6] * 3)
    zygote.crashing, zygote.unsupported = {0}, {1}
    results = {
        shape_of(each): each for each in measure(HotReplay, run_of(trace_of([1] * 3)), zygote)
    }
    said = {shape: (each.status, each.reason) for shape, each in results.items()}
    assert said == {
        "float32[0]": (Status.FAILED, "the case crashed its process with SIGKILL"),
        "float32[1]": (Status.SKIPPED, "there is no such operator"),
        "float32[2]": (Status.DONE, ""),
    }
    assert results["float32[2]"].facts == Facts(flops=5, bytes=16, remarks=("a remark",))
    assert results["float32[1]"].facts.bytes == 8, "known from the record"


def test_large_shares_with_wide_intervals_are_measured_longer_and_handed_on_once() -> None:
    # The second has a small share once the third is known; the third is known well enough.
    zygote = FakeZygote([1e-3, 1e-5, 1e-3, 1e-3], wide={0, 1})
    results = measure(HotReplay, run_of(trace_of([1, 1, 1, 1])), zygote)
    assert Counter(map(shape_of, results)) == {f"float32[{number}]": 1 for number in range(4)}
    assert zygote.calls == [(0, BUDGET), (1, BUDGET), (2, BUDGET), (3, BUDGET), (0, 5 * BUDGET)]
    assert shape_of(results[-1]) == "float32[0]", "what waits comes last"


@pytest.mark.parametrize(("seconds", "samples"), [(0.7, 7), (2.0, 7), (15.0, 4)])
def test_one_sample_of_a_large_share_becomes_several(seconds: float, samples: int) -> None:
    """Up to a minute of them; what is longer keeps the few that fit, and no interval."""
    zygote = FakeZygote([seconds, 1e-9])
    zygote.takes_real_time = True
    *_, result = measure(HotReplay, run_of(trace_of([1, 1])), zygote)
    assert shape_of(result) == "float32[0]"
    time = time_of(result)
    assert time is not None
    assert time.samples == samples
    assert (time.interval is None) == (samples < 5)


def test_a_longer_measurement_that_fails_leaves_the_first_one() -> None:
    zygote = FakeZygote([1e-3], wide={0})
    zygote.longest = BUDGET
    (kept,) = measure(HotReplay, run_of(trace_of([1])), zygote)
    assert len(zygote.calls) == 2
    assert kept.status is Status.DONE


def test_ctrl_c_hands_on_what_waits() -> None:
    zygote = FakeZygote([1e-3, 1e-3], wide={0})
    zygote.interrupting = {1}
    replaying = HotReplay(run_of(trace_of([1, 1])), EFFORT, FakeZygotes(zygote), ())  # type: ignore[arg-type]
    heard: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        heard.extend(replaying.results())
    assert [shape_of(each) for each in heard if isinstance(each, Result)] == ["float32[0]"]


@given(
    st.lists(
        st.tuples(st.floats(1e-6, 1.0), st.integers(1, 100), st.booleans()), min_size=1, max_size=60
    )
)
def test_every_result_is_handed_on_once_and_few_wait(
    calls: list[tuple[float, int, bool]],
) -> None:
    undecided = Undecided(0.0)
    final: list[Result] = []
    for number, (seconds, count, is_wide) in enumerate(calls):
        case = records.case("op", str(number))
        low = seconds * (0.5 if is_wide else 0.999)
        payload = TimeSummary(samples=9, median=seconds, low=low, high=seconds)
        result = Result(
            case=case, metric=Metric.TIME, status=Status.DONE, finished=NOW, payload=payload
        )
        final += undecided.add(result, count)
        assert len(undecided.left()) <= 34, "no more than that have three per cent"
    ids = [each.case.id for each in (*final, *undecided.left())]
    assert Counter(ids) == {records.case("op", str(at)).id: 1 for at in range(len(calls))}
    whole = sum(seconds * count for seconds, count, _ in calls)
    for result in undecided.left():
        seconds, count, is_wide = calls[int(result.case.label[1])]
        assert is_wide
        assert seconds * count >= 0.03 * whole * 0.999


def test_a_run_that_goes_on_does_not_measure_what_is_there() -> None:
    run = run_of(trace_of([1, 1, 1]))
    there = measure(HotReplay, run, FakeZygote([1e-3] * 3))[:1]
    crashed = failed_result(run.plan[1].case, Metric.TIME, CaseFailedError("x", kind="crashed"))
    zygote = FakeZygote([1e-3] * 3)
    rest = measure(HotReplay, msgspec.structs.replace(run, results=(*there, crashed)), zygote)
    assert [shape_of(each) for each in rest] == ["float32[1]", "float32[2]"], "failures again"


def test_shares_of_a_run_that_goes_on_are_of_what_is_there_too() -> None:
    run = run_of(trace_of([1, 1]))
    large = Result(
        case=run.plan[0].case, metric=Metric.TIME, status=Status.DONE, finished=NOW,
        payload=summary(1.0),
    )  # fmt: skip
    zygote = FakeZygote([1.0, 1e-3], wide={1})
    measure(HotReplay, msgspec.structs.replace(run, results=(large,)), zygote)
    assert zygote.calls == [(1, BUDGET)], "a small share beside what is in the store"


ORDER = run_of(trace_of([1, 1, 1], order=(0, 1, 0, 2)), mode=ReplayMode.ORDER)


def test_in_order_a_call_that_crashes_is_left_out_and_the_others_keep_their_sum() -> None:
    zygote = FakeZygote([1.0] * 3)
    zygote.crashing = {1}
    results = {shape_of(each): each for each in measure(OrderReplay, ORDER, zygote)}
    assert zygote.orders == [[0, 0, 1]]
    assert results["float32[1]"].reason == "the case crashed its process with SIGKILL"
    relu = results["float32[0]"]
    assert relu.payload == TimeSummary(samples=9, median=0.5, low=0.25, high=1.0)
    assert relu.facts == Facts(flops=5, bytes=0, remarks=("a remark",))
    whole = results["4 calls in their order"]
    assert isinstance(whole.payload, Timing)
    assert whole.measurement is not None
    assert whole.measurement.median == 4.0
    assert len(results) == len(ORDER.plan)


@pytest.mark.parametrize(
    ("is_unsupported", "status"), [(True, Status.SKIPPED), (False, Status.FAILED)]
)
def test_in_order_a_call_that_the_passes_leave_out_costs_itself_alone(
    is_unsupported: bool, status: Status
) -> None:
    zygote = FakeZygote([1.0] * 3)
    zygote.left_out = [LeftOut(1, "no memory is free", is_unsupported)]
    results = {shape_of(each): each for each in measure(OrderReplay, ORDER, zygote)}
    left_out = results["float32[1]"]
    assert (left_out.status, left_out.reason) == (status, "no memory is free")
    assert left_out.facts.bytes == 8, "known from the record"
    times = {shape: results[shape].payload for shape in ("float32[0]", "float32[2]")}
    assert times == {
        "float32[0]": TimeSummary(samples=9, median=1.0, low=0.5, high=2.0),
        "float32[2]": TimeSummary(samples=9, median=3.0, low=1.5, high=6.0),
    }


@pytest.mark.parametrize("stored", range(5))
def test_in_order_a_run_that_was_killed_gets_every_result_once(stored: int) -> None:
    there = measure(OrderReplay, ORDER, FakeZygote([1.0] * 3))[:stored]
    zygote = FakeZygote([1.0] * 3)
    rest = measure(OrderReplay, msgspec.structs.replace(ORDER, results=tuple(there)), zygote)
    keys = Counter(each.key for each in (*there, *rest))
    assert keys == {planned.key: 1 for planned in ORDER.plan}
    assert zygote.orders == ([[0, 1, 0, 2]] if stored < 4 else []), "all calls are in every pass"


def test_in_order_nothing_runs_where_no_call_can() -> None:
    zygote = FakeZygote([1.0] * 3)
    zygote.unsupported = {0, 1, 2}
    results = measure(OrderReplay, ORDER, zygote)
    assert {each.status for each in results} == {Status.SKIPPED}
    assert results[-1].reason == "no call of the step can be replayed"
    assert zygote.orders == []

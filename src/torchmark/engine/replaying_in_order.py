"""The calls of one step in their order, pass after pass, in one process.

A call that crashes would end all of them. So each distinct call first runs once in a process of
its own, which also tells its FLOPs; those that came through make the passes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.define.suites.recorded import call_text
from torchmark.engine.measuring import failed, now
from torchmark.engine.replaying import case_of, python_case, with_result
from torchmark.engine.zygote.recorded_order import replay_in_order
from torchmark.errors import TorchmarkError
from torchmark.model.replay_record import Backend, CallTime
from torchmark.model.result import Metric, Result, Status
from torchmark_probe.loops.intervals import median, median_interval
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from torchmark.engine.replay_zygotes import ReplayZygotes
    from torchmark.engine.replaying import News, ReplayWish
    from torchmark.engine.zygote.recorded_order import ReplayInOrder
    from torchmark.model.replay_record import ReplayedCall
    from torchmark.model.trace import Step, Trace

_PASSES = Limits(precision=0.01, min_run_time=1.0, max_run_time=10.0)
"""Seconds of whole passes; there is one such measurement in a replay."""


def usual_step(trace: Trace) -> Step:
    """The step that was repeated the most, of those the last: the first one sets things up."""
    return max(reversed(trace.steps), key=lambda step: step.repeats)


class OrderReplay:
    """One replay of a step."""

    def __init__(
        self,
        calls: Sequence[ReplayedCall],
        order: Sequence[int],
        wish: ReplayWish,
        zygotes: ReplayZygotes,
    ) -> None:
        """`order` has the numbers of calls in the trace; those that are not in `calls` are left."""
        self._calls = {call.number: call for call in calls}
        self._order = [number for number in order if number in self._calls]
        self._wish = wish
        self._zygote = zygotes.of(Backend.EAGER)
        self.pass_seconds: CallTime | None = None
        """What a whole pass takes; None until it is known."""

    def total(self) -> int:
        return len(self._calls)

    def news(self, cores: Collection[int]) -> Iterator[News]:
        """Calls as they are tried, then all again with their times."""
        good: list[int] = []
        for number, call in self._calls.items():
            result = self._tried(call)
            self._calls[number] = with_result(call, Backend.EAGER, result)
            if result.status is Status.DONE:
                good.append(number)
            yield self._calls[number], result
        if good:
            yield from self._timed(good, cores)

    def _tried(self, call: ReplayedCall) -> Result:
        case = case_of(call, self._wish, Backend.EAGER)
        try:
            output = self._zygote.run(
                python_case(call, Backend.EAGER, self._wish.seed),
                time_limit=self._wish.timeout,
                memory_limit=self._wish.memory,
            )
        except TorchmarkError as error:
            return failed(case, Metric.TIME, error)
        return Result(
            case=case, metric=Metric.TIME, status=Status.DONE, finished=now(), stdout=output.stdout
        )

    def _timed(self, good: Sequence[int], cores: Collection[int]) -> Iterator[News]:
        places = {number: place for place, number in enumerate(good)}
        order = [places[number] for number in self._order if number in places]
        try:
            passes = replay_in_order(
                self._zygote,
                [call_text(self._calls[number].call) for number in good],
                order,
                limits=_PASSES,
                seed=self._wish.seed,
                cores=cores,
                time_limit=self._wish.timeout,
                memory_limit=self._wish.memory,
            )
        except TorchmarkError as error:
            for number in good:
                call = self._calls[number]
                result = failed(case_of(call, self._wish, Backend.EAGER), Metric.TIME, error)
                yield with_result(call, Backend.EAGER, result), None
            return
        self.pass_seconds = _pass_time(passes)
        for number in good:
            yield self._with_time(number, places[number], order, passes), None

    def _with_time(
        self, number: int, place: int, order: Sequence[int], passes: ReplayInOrder
    ) -> ReplayedCall:
        call = self._calls[number]
        replayed = call.by_backend(Backend.EAGER)
        assert replayed is not None
        if place in passes.left_out:
            reason = passes.left_out[place]
            return replace(call, by=(replace(replayed, status=Status.FAILED, reason=reason),))
        seconds = [
            each
            for at, each in zip(passes.positions, passes.seconds, strict=True)
            if order[at] == place
        ]
        return replace(call, by=(replace(replayed, time=_mean_time(seconds)),))


def _mean_time(seconds: Sequence[float]) -> CallTime:
    """Of a call at all its positions: their mean, so that the sum stays; from least to most."""
    return CallTime(
        seconds=sum(seconds) / len(seconds),
        low=min(seconds),
        high=max(seconds),
        samples=len(seconds),
    )


def _pass_time(passes: ReplayInOrder) -> CallTime:
    seconds = list(passes.seconds_of_passes())
    low, high = median_interval(seconds)
    return CallTime(seconds=median(seconds), low=max(0.0, low), high=high, samples=len(seconds))

"""Replays the calls of one step in order, pass after pass, in one process.

A call that crashes would end the whole replay. So each distinct call first runs once in a fresh
process, which also reports its FLOPs. The calls that succeed make up the passes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from torchmark.engine.measuring import facts_of, failed_result
from torchmark.engine.replaying import ReplayZygotes, calls_by_case, runnable, with_bytes
from torchmark.engine.zygote.conversation import outcome_of
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import TorchmarkError
from torchmark.model.case import Case
from torchmark.model.result import Facts, Metric, PlannedResult, Result, Status, TimeSummary, Timing
from torchmark.model.run import TIME_LIMIT, Effort, Progress, Run, Stage
from torchmark.model.run_settings import Backend, settings_of
from torchmark_probe.loops.sampling import Limits
from torchmark_probe.zygote.messages import LeftOut, ReplayedInOrder, ReplayInOrder

_LEAST = 5
_MOST = 50
"""Whole passes are measured this many times longer than a single call: 1 to 10 seconds with the
default budget. A replay has one such measurement."""

_PRECISION = 0.01


class OrderReplay:
    """Measures the missing results of a run: all calls of a step in order."""

    def __init__(
        self, run: Run, effort: Effort, zygotes: ReplayZygotes, cores: Collection[int]
    ) -> None:
        self._settings = settings_of(run)
        self._effort = effort
        self._zygote = zygotes.of(Backend.EAGER)
        self._cores = cores
        self._calls = calls_by_case(self._settings)
        self._missing = [planned.case for planned in run.missing()]
        self._good = {
            self._calls[result.case.id].number
            for result in run.results
            if result.status is Status.DONE and result.case.id in self._calls
        }
        """Numbers of the calls that can be part of a pass."""

        self._facts: dict[str, Facts] = {}
        """Facts of the calls that ran once, by the id of their case."""

    def results(self) -> Iterator[Progress]:
        """Yield calls that fail when they are tried, then the times of all others."""
        yield Stage(text="running each distinct call once")
        for case in self._missing:
            if case.id in self._calls:
                yield from self._try(case)
        yield Stage(text="running each distinct call once", is_over=True)
        waiting = [case for case in self._missing if self._waits(case)]
        if not self._good:
            yield from (
                _planned(case).finish(Status.SKIPPED, reason="no call of the step can be replayed")
                for case in waiting
            )
        elif waiting:
            yield Stage(text="replaying the calls in order")
            yield from self._time_all(waiting)
            yield Stage(text="replaying the calls in order", is_over=True)

    def _waits(self, case: Case) -> bool:
        """Whether the case is a call that works, or the whole pass."""
        return case.id not in self._calls or self._calls[case.id].number in self._good

    def _try(self, case: Case) -> Iterator[Result]:
        try:
            output = self._zygote.run(
                runnable(case),
                time_limit=self._effort.timeout,
                memory_limit=self._effort.memory,
            )
        except TorchmarkError as error:
            failed = failed_result(case, Metric.TIME, error)
            yield with_bytes(failed, self._calls[case.id])
            return
        self._facts[case.id] = facts_of(output)
        self._good.add(self._calls[case.id].number)

    def _time_all(self, waiting: Sequence[Case]) -> Iterator[Result]:
        good = [call for call in self._settings.calls if call.number in self._good]
        places = {call.number: place for place, call in enumerate(good)}
        order = [places[number] for number in self._settings.order if number in places]
        try:
            passes = replay_in_order(
                self._zygote,
                [call.record for call in good],
                order,
                limits=limits_for_passes(self._effort.limits.max_run_time),
                seed=self._settings.seed,
                values=self._settings.values,
                cores=self._cores,
                time_limit=self._effort.timeout,
                memory_limit=self._effort.memory,
            )
        except TorchmarkError as error:
            yield from (failed_result(case, Metric.TIME, error) for case in waiting)
            return
        left_out = {each.number: each for each in passes.left_out}
        positions: dict[int, list[int]] = defaultdict(list)
        was_run = [place for place in order if place not in left_out]
        for position, place in enumerate(was_run):
            positions[place].append(position)
        for case in waiting:
            if case.id in self._calls:
                place = places[self._calls[case.id].number]
                time = _time_at(positions[place], passes) if positions[place] else None
                yield self._call_result(case, left_out.get(place), time)
            else:
                whole = Timing(processes=(passes.sampling,))
                yield _planned(case).finish(payload=whole)

    def _call_result(
        self, case: Case, left_out: LeftOut | None, time: TimeSummary | None
    ) -> Result:
        if left_out is not None:
            status = Status.SKIPPED if left_out.is_unsupported else Status.FAILED
            result = _planned(case).finish(status, reason=left_out.reason)
        else:
            facts = self._facts.get(case.id, Facts())
            result = _planned(case).finish(payload=time, facts=facts)
        return with_bytes(result, self._calls[case.id])


def limits_for_passes(budget: float) -> Limits:
    """Say when to stop measuring whole passes, given the budget of a single call."""
    return Limits(_PRECISION, _LEAST * budget, _MOST * budget)


def _planned(case: Case) -> PlannedResult:
    return PlannedResult(case=case, metric=Metric.TIME)


def replay_in_order(
    zygote: Zygote,
    calls: Sequence[str],
    order: Sequence[int],
    *,
    limits: Limits,
    seed: int = 0,
    values: str = "",
    cores: Collection[int] = (),
    time_limit: float = TIME_LIMIT,
    memory_limit: int | None = None,
) -> ReplayedInOrder:
    """Run recorded calls, each given as the JSON of "call" in a trace, in this order.

    `order` has indexes into `calls`. A call that cannot be recreated, or raises, is reported in
    `left_out`. A call that crashes ends the case; run the calls one by one first, and leave those
    that crash out of `order`.
    """
    work = ReplayInOrder(list(calls), list(order), limits, seed, values)
    ending = zygote.hold(work, cores=cores, time_limit=time_limit, memory_limit=memory_limit)
    return outcome_of(ending, ReplayedInOrder)


def _time_at(positions: Sequence[int], passes: ReplayedInOrder) -> TimeSummary:
    """Average a call's medians over its positions, so that the sum over all calls is preserved.

    A disturbance affects all positions, so averaging does not make the intervals narrower.
    """

    def mean(figures: Sequence[float]) -> float:
        return sum(figures[position] for position in positions) / len(positions)

    return TimeSummary(
        samples=passes.passes,
        median=mean(passes.seconds),
        low=mean(passes.lows),
        high=mean(passes.highs),
    )

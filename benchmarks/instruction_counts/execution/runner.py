"""Runner of the instruction-count suite: times and counts for each WorkOrder, one after another."""

from __future__ import annotations

import timeit
from collections.abc import Iterable

from execution.work import WorkOrder
from worker.main import CALLGRIND_NUMBER, CALLGRIND_REPEATS, MIN_RUN_TIME, WorkerOutput

from torchmark import Timer, count_together
from torchmark.errors import NotSupportedError
from torchmark.model.run import TIME_LIMIT


class Runner:
    def __init__(self, work_items: Iterable[WorkOrder]) -> None:
        self._work_items = tuple(work_items)

    def run(self) -> dict[WorkOrder, WorkerOutput]:
        """What each gave; the first that fails ends it, as in the original."""
        return {order: _measure(order) for order in self._work_items}


def _measure(order: WorkOrder) -> WorkerOutput:
    if order.source_cmd is not None:
        raise NotSupportedError("Runner measures this environment; use torchmark ab for others")
    given = order.timer_args
    timer = Timer(
        given.stmt,
        given.setup,
        given.global_setup,
        timeit.default_timer,
        num_threads=given.num_threads,
        language=given.language,
    )
    times = timer.blocked_autorange(min_run_time=MIN_RUN_TIME).times
    counts = count_together(
        [timer] * CALLGRIND_REPEATS,
        CALLGRIND_NUMBER,
        collect_baseline=False,
        time_limit=order.timeout or TIME_LIMIT,
    )
    return WorkerOutput(tuple(times), tuple(each.counts(denoise=True) for each in counts))

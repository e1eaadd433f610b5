"""Carries out a plan: lanes take times, the other cores count, and one thread prepares cases.

Iterating over `results` yields every start and every result as soon as it exists. Nothing is held
back, so results that were stored survive a crash. A failing case yields a failed result. Leaving
the loop early ends every process of the run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from torchmark.engine.cores import Division, begin, on_cores
from torchmark.engine.cpp.compiler import stop_compilers
from torchmark.engine.measuring import count_case, failed_result, time_case
from torchmark.engine.preparing import Models, PreparedCase, prepare_cases
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.cases import Ready
from torchmark.errors import TorchmarkError
from torchmark.model.case import Case, Runtime
from torchmark.model.result import Metric, PlannedResult, Status
from torchmark.model.run import Began, Effort, Progress, Stage

_STARTING = "starting the counter: importing torch under valgrind takes 25 to 60 s"

_MOST_COUNTERS = 32
"""Counts at once: each has a copy of the memory that it writes to, about 100 MB."""


_Jobs: TypeAlias = "queue.SimpleQueue[tuple[Case, Ready, Metric] | None]"
"""Cases that are ready, each with the metric to measure; None marks the end."""


@dataclass
class Execution:
    """One plan, carried out once."""

    plan: Sequence[PlannedResult]
    effort: Effort
    division: Division
    workers: Workers
    repeats: Mapping[str, int] = field(default_factory=dict)
    """How many fresh processes time a case, by its id, where this differs from the effort's
    number."""

    kept_models: Path | None = None
    """The run's directory for copies of the models, if the run has one."""

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._news: queue.SimpleQueue[Progress | Future[None]] = queue.SimpleQueue()
        """Progress, and the futures of threads that have ended."""

        self._to_time: _Jobs = queue.SimpleQueue()
        self._to_count: _Jobs = queue.SimpleQueue()
        self._wide: _Jobs = queue.SimpleQueue()
        # On a single core, two measurements would disturb each other.
        self._only_core = threading.Lock() if not self.division.others else None
        self._told: set[str] = set()

    def results(self) -> Generator[Progress, None, None]:
        """Yield starts and results until the plan is done."""
        models = Models(
            self.workers,
            cores=self.division.others,
            kept=self.kept_models,
            time_limit=self.effort.timeout,
        )
        try:
            with on_cores(self.division.others):
                yield from self._carried_out(models)
        finally:
            self._stopping.set()
            stop_compilers()
            self.workers.close()
            models.close()

    def _carried_out(self, models: Models) -> Iterator[Progress]:
        counters = max(1, min(len(self.division.others), _MOST_COUNTERS))
        yield from self._while_running(
            [
                partial(self._prepare, models, counters),
                *[partial(self._work_off, self._to_count, ())] * counters,
                *[partial(self._work_off, self._to_time, lane) for lane in self.division.lanes],
            ]
        )
        # Cases that need more cores than a lane has get all cores, while nothing else runs.
        everything = self.division.everything
        yield from self._while_running([partial(self._work_off, self._wide, everything)])

    def _while_running(self, work: Sequence[Callable[[], None]]) -> Iterator[Progress]:
        for function in work:  # on the cores of this thread
            begin(function, "run").add_done_callback(self._news.put)
        running = len(work)
        while running:
            news = self._news.get()
            if isinstance(news, Future):
                news.result()  # raises the internal error that ended the thread, if any
                running -= 1
            else:
                yield news

    def _prepare(self, models: Models, counters: int) -> None:
        """Hand out the cases that are ready, then mark the end of every queue."""
        wanted: dict[str, list[Metric]] = {}
        cases: dict[str, Case] = {}
        for planned in self.plan:
            case, metric = planned.case, planned.metric
            reason = reason_to_skip(case, metric)
            if reason is not None:
                self._news.put(planned.finish(Status.SKIPPED, reason=reason))
                continue
            cases[case.id] = case
            wanted.setdefault(case.id, []).append(metric)
        try:
            coming = prepare_cases(
                cases.values(), models, units_at_once=counters, stage=self._stage
            )
            while (each := self._next_of(coming)) is not None and not self._stopping.is_set():
                for metric in wanted[each.case.id]:
                    self._hand_out(each, metric)
        finally:
            for jobs in (self._to_time, self._to_count, self._wide):
                jobs.put(None)

    @contextmanager
    def _stage(self, text: str) -> Iterator[None]:
        """Report that a stage begins and ends: each text once, an empty text never."""
        is_new = bool(text) and text not in self._told
        self._told.add(text)
        if is_new:
            self._news.put(Stage(text=text))
        try:
            yield
        finally:
            if is_new:
                self._news.put(Stage(text=text, is_over=True))

    def _next_of(self, coming: Iterator[PreparedCase]) -> PreparedCase | None:
        with self._only_core or nullcontext():
            return next(coming, None)

    def _hand_out(self, prepared: PreparedCase, metric: Metric) -> None:
        case, ready = prepared
        if isinstance(ready, TorchmarkError):
            self._news.put(failed_result(case, metric, ready))
        elif metric is Metric.INSTRUCTIONS:
            self._to_count.put((case, ready, metric))
        elif self._is_wide(case):
            self._wide.put((case, ready, metric))
        else:
            self._to_time.put((case, ready, metric))

    def _is_wide(self, case: Case) -> bool:
        return case.num_threads > self.division.lane_width

    def _work_off(self, jobs: _Jobs, cores: Sequence[int]) -> None:
        """Do one job after another. A case gets as many cores of the lane as it has threads."""
        while (job := jobs.get()) is not None and not self._stopping.is_set():
            case, ready, metric = job
            own_cores = cores if self._is_wide(case) else cores[: case.num_threads]
            self._measure(case, ready, metric, own_cores)
        jobs.put(None)  # for other threads that read from this queue

    def _measure(self, case: Case, ready: Ready, metric: Metric, cores: Sequence[int]) -> None:
        with self._only_core or nullcontext():
            self._news.put(Began(case=case, metric=metric))
            is_count = metric is Metric.INSTRUCTIONS
            try:
                with self._stage(_STARTING if is_count else ""):
                    zygote = self.workers.start(case.num_threads, under_callgrind=is_count)
            except TorchmarkError as error:
                self._news.put(failed_result(case, metric, error))
                return
            if is_count:
                result = count_case(case, ready, zygote, self.effort)
            else:
                repeats = self.repeats.get(case.id, self.effort.repeats)
                effort = msgspec.structs.replace(self.effort, repeats=repeats)
                result = time_case(case, ready, zygote, effort, cores)
        if not self._stopping.is_set():  # otherwise it failed because the run ends
            self._news.put(result)


def reason_to_skip(case: Case, metric: Metric) -> str | None:
    """Say why this metric is not measured for the case; None if it is."""
    if case.skip is None and case.runtime is Runtime.COMPILED and metric is Metric.INSTRUCTIONS:
        return "compiled code is only timed: torch.compile takes minutes under callgrind"
    return case.skip

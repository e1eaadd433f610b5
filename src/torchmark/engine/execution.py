"""A plan is carried out: lanes take times, the other cores count, and one thread prepares.

Whoever iterates over `results` gets every result the moment it exists, and what begins; nothing
is kept back, so what has been stored survives whatever happens next. A case that fails is a
result. Leaving the loop early ends every process of the run.
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

_STARTING = "starting the counter: torch is imported under valgrind, which takes 25 to 60 s"

_MOST_COUNTERS = 32
"""Counts at once: each has its own copy of what it writes to, some 100 MB."""


_Jobs: TypeAlias = "queue.SimpleQueue[tuple[Case, Ready, Metric] | None]"
"""Cases that are ready, and what is wanted of each; None is the last."""


@dataclass
class Execution:
    """One plan, carried out once."""

    plan: Sequence[PlannedResult]
    effort: Effort
    division: Division
    workers: Workers
    repeats: Mapping[str, int] = field(default_factory=dict)
    """Fresh processes that time a case, by its id, where that is not the effort's number."""

    kept_models: Path | None = None
    """The directory beside the run that gets a copy of the models, if there is one."""

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._news: queue.SimpleQueue[Progress | Future[None]] = queue.SimpleQueue()
        """What happens, and each thread that has come to its end."""

        self._to_time: _Jobs = queue.SimpleQueue()
        self._to_count: _Jobs = queue.SimpleQueue()
        self._wide: _Jobs = queue.SimpleQueue()
        # One core cannot do two things at once without the one disturbing the other.
        self._only_core = threading.Lock() if not self.division.others else None
        self._told: set[str] = set()

    def results(self) -> Generator[Progress, None, None]:
        """What begins and what comes out, until the plan is done."""
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
        # What needs more cores than a lane has gets all of them, while nothing else runs.
        everything = self.division.everything
        yield from self._while_running([partial(self._work_off, self._wide, everything)])

    def _while_running(self, work: Sequence[Callable[[], None]]) -> Iterator[Progress]:
        for function in work:  # on the cores of this thread
            begin(function, "run").add_done_callback(self._news.put)
        running = len(work)
        while running:
            news = self._news.get()
            if isinstance(news, Future):
                news.result()  # raises the mistake of ours that ended the thread, if any
                running -= 1
            else:
                yield news

    def _prepare(self, models: Models, counters: int) -> None:
        """Hand out what is ready; at the end tell everybody that nothing more will come."""
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
        """Tell that something begins and ends; each text is told once, and an empty one never."""
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
        """Do one job after the other; a case gets as many cores of a lane as it has threads."""
        while (job := jobs.get()) is not None and not self._stopping.is_set():
            case, ready, metric = job
            own_cores = cores if self._is_wide(case) else cores[: case.num_threads]
            self._measure(case, ready, metric, own_cores)
        jobs.put(None)  # for whoever works on these too

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
        if not self._stopping.is_set():  # what fails now fails because the run ends
            self._news.put(result)


def reason_to_skip(case: Case, metric: Metric) -> str | None:
    """Why this metric is not measured of the case; None if it is."""
    if case.skip is None and case.runtime is Runtime.COMPILED and metric is Metric.INSTRUCTIONS:
        return "what torch.compile makes is timed only: to compile under callgrind takes minutes"
    return case.skip

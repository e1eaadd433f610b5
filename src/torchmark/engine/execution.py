"""A plan is carried out: lanes take times, the other cores count, and one thread prepares.

Whoever iterates over `results` gets every result the moment it exists, and what begins; nothing
is kept back, so what has been stored survives whatever happens next. A case that fails is a
result. Leaving the loop early ends every process of the run.
"""

from __future__ import annotations

import queue
import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchmark.engine.cores import on_cores
from torchmark.engine.cpp.compiler import stop_compilers
from torchmark.engine.measuring import count_case, failed_result, skipped_result, time_case
from torchmark.engine.models import Models
from torchmark.engine.preparing import PreparedCase, prepare_cases
from torchmark.errors import TorchmarkError
from torchmark.model.case import Runtime
from torchmark.model.result import Metric
from torchmark.model.run import Began, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from torchmark.engine.cores import Division
    from torchmark.engine.workers import Workers
    from torchmark.model.case import Case
    from torchmark.model.result import PlannedResult, Result
    from torchmark.model.run import Effort, Progress


_STARTING = "starting the counter: torch is imported under valgrind, which takes 25 to 60 s"

_MOST_COUNTERS = 32
"""Counts at once: each has its own copy of what it writes to, some 100 MB."""


class _Job(NamedTuple):
    """A case that is ready, and what is wanted of it."""

    prepared: PreparedCase
    metric: Metric


class _Done(NamedTuple):
    """A thread has come to its end, with the mistake of ours that ended it, if any."""

    mistake: BaseException | None


class Execution:
    """One plan, carried out once."""

    def __init__(
        self,
        plan: Sequence[PlannedResult],
        *,
        effort: Effort,
        division: Division,
        workers: Workers,
        kept_models: Path | None = None,
    ) -> None:
        self._plan = plan
        self._effort = effort
        self._division = division
        self._workers = workers
        self._stopping = threading.Event()
        self._news: queue.SimpleQueue[Began | Stage | Result | _Done] = queue.SimpleQueue()
        self._to_time: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._to_count: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._wide: list[_Job] = []
        # One core cannot do two things at once without the one disturbing the other.
        self._only_core = threading.Lock() if not division.others else None
        self._kept_models = kept_models
        self._told: set[str] = set()

    def results(self) -> Generator[Progress, None, None]:
        """What begins and what comes out, until the plan is done."""
        models = Models(
            self._workers,
            cores=self._division.others,
            kept=self._kept_models,
            time_limit=self._effort.timeout,
        )
        try:
            with on_cores(self._division.others):
                yield from self._carried_out(models)
        finally:
            self._stopping.set()
            stop_compilers()
            self._workers.close()
            models.close()

    def _carried_out(self, models: Models) -> Iterator[Progress]:
        counters = max(1, min(len(self._division.others), _MOST_COUNTERS))
        lanes = self._division.lanes
        yield from self._while_running(
            [
                partial(self._prepare, models, len(lanes), counters),
                *[self._count] * counters,
                *[partial(self._take_times, lane) for lane in lanes],
            ]
        )
        # What needs more cores than a lane has gets all of them, while nothing else runs.
        yield from self._while_running([self._take_wide_times])

    def _while_running(self, work: Sequence[Callable[[], None]]) -> Iterator[Progress]:
        for function in work:
            threading.Thread(
                target=self._live, args=(function,), name="torchmark run", daemon=True
            ).start()
        running = len(work)
        while running:
            news = self._news.get()
            if not isinstance(news, _Done):
                yield news
                continue
            if news.mistake is not None:
                raise news.mistake
            running -= 1

    def _live(self, function: Callable[[], None]) -> None:
        mistake: BaseException | None = None
        try:
            function()  # on the cores of the thread that started this one
        except BaseException as error:  # it is raised where the results are read
            mistake = error
        self._news.put(_Done(mistake))

    def _prepare(self, models: Models, lanes: int, counters: int) -> None:
        """Hand out what is ready; at the end tell everybody that nothing more will come."""
        wanted: dict[str, list[Metric]] = {}
        cases: dict[str, Case] = {}
        for planned in self._plan:
            case, metric = planned.case, planned.metric
            reason = reason_to_skip(case, metric)
            if reason is not None:
                self._news.put(skipped_result(case, metric, reason))
                continue
            cases[case.id] = case
            wanted.setdefault(case.id, []).append(metric)
        try:
            coming = prepare_cases(
                cases.values(), models, units_at_once=counters, stage=self._stage
            )
            while (each := self._next_of(coming)) is not None and not self._stopping.is_set():
                for metric in wanted[each.case.id]:
                    self._hand_out(_Job(each, metric))
        finally:
            for _ in range(lanes):
                self._to_time.put(None)
            for _ in range(counters):
                self._to_count.put(None)

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

    def _hand_out(self, job: _Job) -> None:
        case, ready = job.prepared
        if isinstance(ready, TorchmarkError):
            self._news.put(failed_result(case, job.metric, ready))
        elif job.metric is Metric.INSTRUCTIONS:
            self._to_count.put(job)
        elif case.num_threads > self._division.lane_width:
            self._wide.append(job)
        else:
            self._to_time.put(job)

    def _take_times(self, lane: Sequence[int]) -> None:
        while (job := self._to_time.get()) is not None and not self._stopping.is_set():
            self._do(job, lane[: job.prepared.case.num_threads])

    def _take_wide_times(self) -> None:
        for job in self._wide:
            if not self._stopping.is_set():
                self._do(job, self._division.everything)

    def _count(self) -> None:
        while (job := self._to_count.get()) is not None and not self._stopping.is_set():
            self._do(job, ())

    def _do(self, job: _Job, cores: Sequence[int]) -> None:
        case, ready = job.prepared
        assert not isinstance(ready, TorchmarkError)
        with self._only_core or nullcontext():
            self._news.put(Began(case=case, metric=job.metric))
            is_count = job.metric is Metric.INSTRUCTIONS
            try:
                with self._stage(_STARTING if is_count else ""):
                    zygote = self._workers.start(case.num_threads, under_callgrind=is_count)
            except TorchmarkError as error:
                self._news.put(failed_result(case, job.metric, error))
                return
            if is_count:
                result = count_case(case, ready, zygote, self._effort)
            else:
                result = time_case(case, ready, zygote, self._effort, cores)
        if not self._stopping.is_set():  # what fails now fails because the run ends
            self._news.put(result)


def reason_to_skip(case: Case, metric: Metric) -> str | None:
    """Why this metric is not measured of the case; None if it is."""
    if case.skip is None and case.runtime is Runtime.COMPILED and metric is Metric.INSTRUCTIONS:
        return "what torch.compile makes is timed only: to compile under callgrind takes minutes"
    return case.skip

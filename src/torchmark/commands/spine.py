"""What every command that measures shares: the way from a plan to a stored run.

A run is begun or resumed, carried out, and finished. Every result is in the store before anyone
hears of it. If something ends a run early (Ctrl-C, a full disk, a broken environment), the store
keeps it as interrupted, and `resume` measures what is missing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from torchmark.engine.cores import Division, on_cores, reserve_lanes, usable_cores
from torchmark.engine.files import check_free, own_run
from torchmark.engine.machine import measure_speeds
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import InvalidArgumentError, RunInterruptedError, TorchmarkError
from torchmark.files import write_whole
from torchmark.model.result import PlannedResult, Result, ResultKey, utc_now
from torchmark.model.run import Effort, Environment, Progress, Run, RunKind, RunState, Stage
from torchmark.report import render
from torchmark.settings import settings_for
from torchmark.store import Store, new_run_id, open_store
from torchmark.store.database import option_for

Place: TypeAlias = Store | str | os.PathLike[str] | None
"""A store, or its path or URL. None is the store in the settings, or the user's own."""

Listener: TypeAlias = Callable[["Run | Progress"], None]
"""Hears of the run when it begins, then of everything that happens in it."""


_SECONDS = 2.0
"""The least time between two writes of a live file."""

_SHARE = 0.1
"""The most that writing a live file may take, as a share of the time: files grow with the run."""


@contextlib.contextmanager
def use_store(place: Place) -> Iterator[Store]:
    """Open the store and close it at the end. A store that was passed in stays open."""
    if isinstance(place, Store):
        yield place
        return
    with open_store(place if place is not None else settings_for(Path.cwd()).store) as store:
        yield store


def begin_run(
    store: Store,
    kind: RunKind,
    plan: Iterable[PlannedResult],
    *,
    environments: Iterable[Environment],
    settings: Mapping[str, Any],
    effort: Effort,
    notes: Iterable[str] = (),
    tags: Iterable[str] = (),
    results: Iterable[Result] = (),
) -> Run:
    """Create a run in the store, with everything that resuming it needs.

    Settings may contain msgspec records. They are stored as plain JSON.
    """
    run = Run(
        id=new_run_id(),
        kind=kind,
        started=utc_now(),
        plan=tuple(plan),
        environments=tuple(environments),
        settings=msgspec.json.decode(msgspec.json.encode({**settings, "effort": effort})),
        notes=tuple(notes),
        tags=tuple(tags),
        results=tuple(results),
    )
    store.create(run)
    return run


def find_run(store: Store, name: str, kind: RunKind) -> Run:
    """Return the run to resume; raise an error if it has another kind or is being measured."""
    run = store.run(name)
    if run.kind is not kind:
        remedy = (
            ", which cannot be resumed; run the command again"
            if run.kind in (RunKind.TIME, RunKind.COUNT)
            else "; resume it with "
            f"torchmark {run.kind.value} --resume {run.id}{option_for(store.where)}"
        )
        raise InvalidArgumentError(f"{run.id} is a run of `torchmark {run.kind.value}`{remedy}")
    check_free(run.id)
    return run


def effort_of(run: Run) -> Effort:
    """Return the effort that the run was started with."""
    try:
        return msgspec.convert(run.settings["effort"], Effort)
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidArgumentError(
            f"run {run.id} has no record of how its cases are measured, so it cannot be resumed; "
            "start a new run"
        ) from error


@contextlib.contextmanager
def reserve_cores(threads: int) -> Iterator[Division]:
    """Reserve cores for cases of up to `threads` threads. This process moves to the other cores."""
    with reserve_lanes(usable_cores(), threads) as division, on_cores(division.others):
        yield division


def carry_out(
    run: Run,
    store: Store,
    measure: Callable[[Run], Generator[Progress | Run, None, object]],
    progress: Listener | None = None,
) -> Run:
    """Measure the missing results of the run, and return the run with all results.

    `measure` yields what happens. A `Run` that it yields is the same run with more facts (notes,
    speeds), and replaces the record in the store. Call this function while cores are reserved, so
    that a display which `progress` starts does not run on a core where times are taken.
    """
    tell = progress or (lambda _news: None)
    state = RunState.INTERRUPTED

    def keep(each: Progress | Run) -> None:
        if isinstance(each, Result):
            store.add(run.id, each)
        elif isinstance(each, Run):
            store.update(each)
        tell(each)

    try:
        with own_run(run.id):
            store.finish(run.id, RunState.RUNNING)
            try:
                tell(run)
                with contextlib.closing(measure(run)) as news:
                    _keep_all(news, keep)
                state = RunState.FINISHED
            finally:
                store.finish(run.id, state)
    except KeyboardInterrupt as interrupt:
        raise RunInterruptedError(run.id) from interrupt
    except TorchmarkError as error:
        error.run_id = run.id
        raise
    return store.run(run.id)


def _keep_all(
    news: Generator[Progress | Run, None, object], keep: Callable[[Progress | Run], None]
) -> None:
    """Store each result as it arrives. After Ctrl-C, also store results that were held back."""
    try:
        for each in news:
            keep(each)
    except KeyboardInterrupt as interrupt:
        # Ctrl-C may have come inside `keep`, so the generator is told. If it came inside the
        # generator, that has ended, and `throw` raises the interrupt again.
        with contextlib.suppress(StopIteration):
            keep(news.throw(interrupt))
        for each in news:
            keep(each)
        raise


def carry_out_on_cores(
    run: Run,
    store: Store,
    measure: Callable[[Run, Division], Generator[Progress | Run, None, object]],
    progress: Listener | None,
    *,
    threads: int | None = None,
) -> Run:
    """Carry out the run on reserved cores: for `threads` threads, or as many as its cases need."""
    widest = max((each.case.num_threads for each in run.plan), default=1)
    with reserve_cores(widest if threads is None else threads) as division:
        return carry_out(run, store, lambda started: measure(started, division), progress)


def add_speeds(
    run: Run, zygote: Zygote, dtypes: Iterable[str], cores: Collection[int]
) -> Generator[Stage | Run, None, Run]:
    """Measure the peak speeds of this machine, with which the times of the run are compared."""
    text = "measuring the peak speeds of this machine"
    yield Stage(text=text)
    run = msgspec.structs.replace(run, speeds=measure_speeds(zygote, dtypes, cores))
    yield run
    yield Stage(text=text, is_over=True)
    return run


class LiveFile:
    """A file with the results of a run so far, written at most every two seconds and at the end.

    If the process is killed, the file keeps the last version. It is a rendering of the run in the
    store, and is never read. Everything that is heard is passed on to `listener`. Without a file,
    nothing else is done.
    """

    def __init__(
        self,
        file: Path | None,
        form: str,
        listener: Listener,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file, self._form, self._listener, self._clock = file, form, listener, clock
        self._run: Run | None = None
        self._results: dict[ResultKey, Result] = {}
        self._next = 0.0

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()

    def hear(self, news: Run | Progress) -> None:
        if isinstance(news, Run):
            self._results = {result.key: result for result in news.results} | self._results
            self._run = news
        elif isinstance(news, Result):
            self._results[news.key] = news
            if self._clock() >= self._next:
                self._write()
        self._listener(news)

    def _write(self) -> None:
        if self._run is None or self._file is None:
            return
        start = self._clock()
        run = msgspec.structs.replace(self._run, results=tuple(self._results.values()))
        with contextlib.suppress(OSError):  # the command reports errors when it writes the file
            write_whole(self._file, render(run, self._form).encode())
        took = self._clock() - start
        self._next = start + took + max(_SECONDS, took / _SHARE)

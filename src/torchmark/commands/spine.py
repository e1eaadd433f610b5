"""What every command that measures shares: the way from a plan to a run in the store.

A run is begun or taken up again, carried out, and ended. Every result is in the store before
anybody hears of it. Whatever cuts a run short (Ctrl-C, a full disk, an environment that is gone)
leaves it in the store as interrupted, and `resume` goes on with what is missing.
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
"""A store, its path or URL; None for that of the settings here, or the user's own."""

Listener: TypeAlias = Callable[["Run | Progress"], None]
"""Hears of the run when it begins, then of all that happens in it."""


_SECONDS = 2.0
"""Between two times that the file is written."""

_SHARE = 0.1
"""Of the time at most that writing takes: a rendering grows with the run."""


@contextlib.contextmanager
def use_store(place: Place) -> Iterator[Store]:
    """The store that is meant; one that was handed in stays open."""
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
    """A new run in the store, with all that is needed to take it up again.

    Settings may hold records of msgspec; they are kept as the plain JSON that these encode to.
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
    """The run to be taken up again; an error if it is of another kind, or somebody measures it."""
    run = store.run(name)
    if run.kind is not kind:
        remedy = (
            ", which is stored whole and never resumed; call it again"
            if run.kind in (RunKind.TIME, RunKind.COUNT)
            else "; resume it with "
            f"torchmark {run.kind.value} --resume {run.id}{option_for(store.where)}"
        )
        raise InvalidArgumentError(f"{run.id} is a run of `torchmark {run.kind.value}`{remedy}")
    check_free(run.id)
    return run


def effort_of(run: Run) -> Effort:
    """How much the run does for each case, as it was said when it began."""
    try:
        return msgspec.convert(run.settings["effort"], Effort)
    except (KeyError, msgspec.ValidationError) as error:
        raise InvalidArgumentError(
            f"run {run.id} does not say how its cases were measured, so it cannot be resumed; "
            "start a new run"
        ) from error


@contextlib.contextmanager
def reserve_cores(threads: int) -> Iterator[Division]:
    """Cores for cases of up to so many threads; this process keeps off those that take times."""
    with reserve_lanes(usable_cores(), threads) as division, on_cores(division.others):
        yield division


def carry_out(
    run: Run,
    store: Store,
    measure: Callable[[Run], Generator[Progress | Run, None, object]],
    progress: Listener | None = None,
) -> Run:
    """Measure what the run lacks and return the run with all its results.

    `measure` yields what happens; a `Run` among it is the same run with more known of it (notes,
    speeds), and replaces the record in the store. It is called where cores are reserved, so that
    a display which `progress` starts does not run where times are taken.
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
    """Store each result as it arrives; after Ctrl-C, also those that were still held back."""
    try:
        for each in news:
            keep(each)
    except KeyboardInterrupt as interrupt:
        # It may have come while something was kept. Where it came in there, this raises it again.
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
    """Carry out the run on reserved cores: for so many threads, or for all cases of its plan."""
    widest = max((each.case.num_threads for each in run.plan), default=1)
    with reserve_cores(widest if threads is None else threads) as division:
        return carry_out(run, store, lambda started: measure(started, division), progress)


def add_speeds(
    run: Run, zygote: Zygote, dtypes: Iterable[str], cores: Collection[int]
) -> Generator[Stage | Run, None, Run]:
    """The run with what this machine can do at best, which its times are held against."""
    text = "measuring what this machine can do at best"
    yield Stage(text=text)
    run = msgspec.structs.replace(run, speeds=measure_speeds(zygote, dtypes, cores))
    yield run
    yield Stage(text=text, is_over=True)
    return run


class LiveFile:
    """A file that has what a run knows so far, written at most every two seconds and at the end.

    What kills the process leaves the rows that were there. The store has them too: the file is a
    rendering of the run, and is never read back. All that is heard is told to `listener`; without a
    file nothing else is done.
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
        with contextlib.suppress(OSError):  # whoever writes it in the end says what is wrong
            write_whole(self._file, render(run, self._form).encode())
        took = self._clock() - start
        self._next = start + took + max(_SECONDS, took / _SHARE)

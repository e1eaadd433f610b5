"""Suites carried out by a command: begun or gone on with, shown as they go, kept in the store."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.run_display import display_for
from torchmark.cli.suite_names import let_cases_import_what_lies_beside
from torchmark.commands.suite_run import (
    Wanted,
    carried_out,
    checked_to_go_on,
    cores_for,
    effort_of,
    failures_of,
    has_failures,
    missing_of,
    new_run,
)
from torchmark.define.suites.loading import load_suite
from torchmark.engine.cores import on_cores
from torchmark.engine.environment_facts import environment_of
from torchmark.engine.ownership import check_free, owned
from torchmark.engine.workers import Workers
from torchmark.errors import StoreError
from torchmark.store import artifact_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.cli.run_display import Display
    from torchmark.define.suites.loading import LoadedSuite
    from torchmark.engine.cores import Division
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What was asked, with the settings of the project where nothing was."""

    suites: tuple[str, ...]
    wanted: Wanted
    repeats: int
    timeout: float
    place: str | None
    tags: tuple[str, ...]


def heed_signals() -> None:
    """Whoever cancels a job or closes a terminal gets what Ctrl-C gives."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def say_what_is_kept(run: Run, results: Sequence[Result], place: str | None) -> None:
    """After Ctrl-C: how far it came, and how it goes on."""
    click.echo(
        f"torchmark: interrupted; {len(results)} of {len(run.plan)} results are kept", err=True
    )
    _say_how_to_go_on(run, place)


def exit_as_it_went(results: Sequence[Result], *, was_interrupted: bool, wrote_all: bool) -> None:
    """End the command with the code that says what went wrong first; return if nothing did."""
    if was_interrupted:
        sys.exit(ExitCode.INTERRUPTED)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    if has_failures(results):
        sys.exit(ExitCode.CASE_FAILED)


def _say_how_to_go_on(run: Run, place: str | None) -> None:
    store = f" --store {shlex.quote(place)}" if place is not None else ""
    click.echo(f"Go on with: torchmark run --resume {run.id}{store}", err=True)


def run_suites(
    options: RunOptions, store: Store, resume: str | None, *, quiet: bool
) -> tuple[Run, bool]:
    """Begin a run or go on with one; it, and whether Ctrl-C cut it short."""
    # Before a worker imports torch: a suite that cannot be read is told at once.
    names = () if resume is not None else options.suites
    loaded = [load_suite(name) for name in dict.fromkeys(names)]
    workers = Workers()
    with contextlib.closing(workers):
        environment = environment_of(workers.facts(), Path.cwd())
        if resume is None:
            run = _begun(options, loaded, store, workers, environment)
        else:
            run = store.run(resume)
            check_free(run.id)
            checked_to_go_on(run, environment)
        let_cases_import_what_lies_beside(run.settings.get("suites", ()))
        left = len(missing_of(run, store.results(run.id)))
        if not quiet:
            what = "1 measurement" if left == 1 else f"{left or 'no'} measurements"
            more = " left to make" if resume is not None else ""
            click.echo(f"run {run.id}: {what}{more}, into {store.where}", err=True)
        try:
            with owned(run.id), cores_for(run) as division:
                _follow(run, store, division, workers, display_for(left, quiet=quiet))
        except KeyboardInterrupt:
            return store.run(run.id), True
        except StoreError:
            _say_how_to_go_on(run, options.place)
            raise
    return store.run(run.id), False


def _follow(run: Run, store: Store, division: Division, workers: Workers, display: Display) -> None:
    news = carried_out(
        run,
        store,
        division=division,
        workers=workers,
        kept_models=artifact_folder(store.where, run.id),
    )
    # The display has a thread of its own, which must not run where times are taken.
    with on_cores(division.others), display, contextlib.closing(news):
        for each in news:
            display.show(each)


def _begun(
    options: RunOptions,
    loaded: Sequence[LoadedSuite],
    store: Store,
    workers: Workers,
    environment: dict[str, object],
) -> Run:
    effort = effort_of(quick=options.wanted.quick, repeats=options.repeats, timeout=options.timeout)
    run = new_run(loaded, options.wanted, effort, workers, environment, options.tags)
    store.create(run)
    for failure in failures_of(loaded, options.wanted.kinds[0]):
        store.add(run.id, failure)
    return run

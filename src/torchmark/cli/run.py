"""`torchmark run`: suites, timed and counted, into the store and onto paper."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from torchmark.arguments import checked_count, checked_positive
from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import check_writable, written
from torchmark.cli.run_display import display_for, line_of
from torchmark.cli.stores import columns, store_option
from torchmark.cli.suite_names import default_suites, let_cases_import_what_lies_beside
from torchmark.errors import InvalidArgumentError, StoreError
from torchmark.model.run_record import Kind, Outcome
from torchmark.report import run_text
from torchmark.report.run_formats import RENDERERS
from torchmark.run.environment_facts import environment_of
from torchmark.run.zygote import TIME_LIMIT
from torchmark.runner.cores import on_cores
from torchmark.runner.ownership import check_free, owned
from torchmark.runner.suite_run import (
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
from torchmark.runner.workers import Workers
from torchmark.settings import Settings, settings_for
from torchmark.store import artifact_folder, open_store
from torchmark.suites.loading import load_suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.cli.run_display import Display
    from torchmark.model.run_record import CaseResult, Run
    from torchmark.runner.cores import Division
    from torchmark.store import Store

T = TypeVar("T")

_file = click.Path(dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What was asked, with the settings of the project where nothing was."""

    suites: tuple[str, ...]
    wanted: Wanted
    repeats: int
    timeout: float
    place: str | None
    tags: tuple[str, ...]


@click.command("run")
@click.argument("suites", metavar="[SUITE…]", nargs=-1)
@click.option("-k", "pattern", metavar="PATTERN", default="", help="Only cases with these words.")
@click.option("--time", "time", is_flag=True, help="Take times, and do not count unless asked.")
@click.option("--count", "count", is_flag=True, help="Count, and take no times unless asked.")
@click.option("--no-cpp", is_flag=True, help="Leave C++ cases out.")
@click.option("--quick", is_flag=True, help="The standard suite's quick part, in less time.")
@click.option("--threads", type=int, metavar="N", help="For every case; otherwise as defined.")
@click.option("--repeats", type=int, metavar="N", help="Fresh processes for a case.  [default: 1]")
@click.option("--timeout", type=float, metavar="S", help="Seconds for a case.  [default: 300]")
@store_option
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A name for the run.")
@click.option("--json", "json_file", type=_file, help="Every sample and count.")
@click.option("--csv", "csv_file", type=_file, help="A line for each result.")
@click.option("--markdown", "markdown_file", type=_file, help="Tables for a pull request.")
@click.option("--html", "html_file", type=_file, help="One page, with everything in it.")
@click.option("--resume", metavar="RUN", help="Go on with a run that was cut short.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
def command(
    suites: tuple[str, ...],
    pattern: str,
    time: bool,
    count: bool,
    no_cpp: bool,
    quick: bool,
    threads: int | None,
    repeats: int | None,
    timeout: float | None,
    place: str | None,
    tags: tuple[str, ...],
    json_file: Path | None,
    csv_file: Path | None,
    markdown_file: Path | None,
    html_file: Path | None,
    resume: str | None,
    quiet: bool,
) -> None:
    """Time and count the cases of suites, in Python and C++.

    A suite is the name of one that ships (standard, the default), a Python file, a folder of
    bench_*.py files, or a module; `torchmark list` shows its cases. Every result is in the store
    the moment it exists: what Ctrl-C or a crash cuts short goes on with --resume.

    \b
    torchmark run --quick --html run.html
    torchmark run my_benchmarks/ -k "add and not C++" --time
    torchmark run --resume latest
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    if resume is not None:
        _refuse_beside_resume(
            suites or pattern or time or count or no_cpp or quick or tags,
            threads is not None or repeats is not None or timeout is not None,
        )
    settings = settings_for(Path.cwd())
    options = _Options(
        suites=suites or default_suites(settings),
        wanted=_wanted(settings, pattern, time, count, no_cpp, quick, threads),
        repeats=checked_count("--repeats", _first_given(repeats, settings.run.repeats, 1)),
        timeout=checked_positive(
            "--timeout", _first_given(timeout, settings.run.timeout, TIME_LIMIT)
        ),
        place=place if place is not None else settings.store,
        tags=tags,
    )
    files = {
        "json": json_file, "csv": csv_file, "markdown": markdown_file, "html": html_file,
    }  # fmt: skip
    check_writable(files.values())
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Whoever cancels a job or closes a terminal gets what Ctrl-C gives.
        signal.signal(number, signal.default_int_handler)
    with open_store(options.place) as store:
        run, was_interrupted = _run(options, store, resume, quiet=quiet)
        results = store.results(run.id)
    _show(run, results, quiet=quiet)
    if was_interrupted:
        click.echo(
            f"torchmark: interrupted; {len(results)} of {len(run.plan)} results are kept",
            err=True,
        )
        _say_how_to_go_on(run, options.place)
    wrote_all = written(
        files,
        lambda form: RENDERERS[form](run, results),
        remedy=lambda form: f"torchmark export {run.id} --format {form} makes it again",
    )
    if was_interrupted:
        sys.exit(ExitCode.INTERRUPTED)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    if has_failures(results):
        sys.exit(ExitCode.CASE_FAILED)


def _show(run: Run, results: Sequence[CaseResult], *, quiet: bool) -> None:
    """The table on stdout; who wants it quiet sees the failures alone."""
    if not quiet:
        click.echo(run_text.render(run, results, width=columns()), nl=False)
        return
    for result in results:
        if result.outcome is Outcome.FAILED:
            click.echo(f"torchmark: {line_of(result)}", err=True)


def _say_how_to_go_on(run: Run, place: str | None) -> None:
    store = f" --store {shlex.quote(place)}" if place is not None else ""
    click.echo(f"Go on with: torchmark run --resume {run.id}{store}", err=True)


def _run(options: _Options, store: Store, resume: str | None, *, quiet: bool) -> tuple[Run, bool]:
    """Begin a run or go on with one; it, and whether Ctrl-C cut it short."""
    workers = Workers()
    with contextlib.closing(workers):
        environment = environment_of(workers.facts(), Path.cwd())
        if resume is None:
            run = _begun(options, store, workers, environment)
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
    options: _Options, store: Store, workers: Workers, environment: dict[str, object]
) -> Run:
    loaded = [load_suite(name) for name in dict.fromkeys(options.suites)]
    effort = effort_of(quick=options.wanted.quick, repeats=options.repeats, timeout=options.timeout)
    run = new_run(loaded, options.wanted, effort, workers, environment, options.tags)
    store.create(run)
    for failure in failures_of(loaded, options.wanted.kinds[0]):
        store.add(run.id, failure)
    return run


def _wanted(
    settings: Settings,
    pattern: str,
    time: bool,
    count: bool,
    no_cpp: bool,
    quick: bool,
    threads: int | None,
) -> Wanted:
    """What was asked on the command line comes before what the settings say."""
    chosen = settings.run
    if not (time or count):
        time = chosen.time if chosen.time is not None else True
        count = counting_works() if chosen.count is None else chosen.count
    if count:
        check_that_counting_works()
    if not (time or count):
        raise InvalidArgumentError("neither times nor counts are wanted; see run.time, run.count")
    kinds = [kind for kind, wanted in ((Kind.TIME, time), (Kind.COUNT, count)) if wanted]
    number = threads if threads is not None else chosen.threads
    return Wanted(
        pattern=pattern,
        kinds=tuple(kinds),
        cpp=not no_cpp and chosen.cpp is not False,
        quick=quick or bool(chosen.quick),
        threads=None if number is None else checked_count("--threads", number),
    )


def _refuse_beside_resume(*given: object) -> None:
    if any(given):
        raise InvalidArgumentError(
            "--resume goes on with the suites and options that the run began with; give it alone, "
            "or with --store, --quiet and the files to write"
        )


def _first_given(*values: T | None) -> T:
    """The first that is not None: the command line, then the settings, then our own."""
    return next(value for value in values if value is not None)

"""`torchmark run`: suites, timed and counted, into the store and onto paper."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from torchmark.arguments import checked_count, checked_positive
from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.files import check_writable, written
from torchmark.cli.run_display import line_of
from torchmark.cli.running import (
    RunOptions,
    exit_as_it_went,
    heed_signals,
    run_suites,
    say_what_is_kept,
)
from torchmark.cli.stores import columns, store_option
from torchmark.cli.suite_names import default_suites
from torchmark.commands.suite_run import Wanted
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric, Status
from torchmark.report import run_text
from torchmark.report.run_formats import RENDERERS
from torchmark.settings import Settings, settings_for
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Result
    from torchmark.model.run import Run

T = TypeVar("T")

_file = click.Path(dir_okay=False, path_type=Path)


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

    A suite is the name of one that ships (standard, the default; overrides), a Python file, a
    folder of bench_*.py files, or a module; `torchmark list` shows its cases. Every result is in
    the store the moment it exists: what Ctrl-C or a crash cuts short goes on with --resume.

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
    options = RunOptions(
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
    heed_signals()
    with open_store(options.place) as store:
        run, was_interrupted = run_suites(options, store, resume, quiet=quiet)
        results = store.results(run.id)
    _show(run, results, quiet=quiet)
    if was_interrupted:
        say_what_is_kept(run, results, options.place)
    wrote_all = written(
        files,
        lambda form: RENDERERS[form](run, results),
        remedy=lambda form: f"torchmark export {run.id} --format {form} makes it again",
    )
    exit_as_it_went(results, was_interrupted=was_interrupted, wrote_all=wrote_all)


def _show(run: Run, results: Sequence[Result], *, quiet: bool) -> None:
    """The table on stdout; who wants it quiet sees the failures alone."""
    if not quiet:
        click.echo(run_text.render(run, results, width=columns()), nl=False)
        return
    for result in results:
        if result.status is Status.FAILED:
            click.echo(f"torchmark: {line_of(result)}", err=True)


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
    kinds = [kind for kind, wanted in ((Metric.TIME, time), (Metric.INSTRUCTIONS, count)) if wanted]
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

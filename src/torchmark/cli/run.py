"""`torchmark run`: suites of benchmarks, timed and counted, with every result in the store."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, TypeVar

import click

from torchmark.arguments import check_count, check_positive
from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.following import files_in, refuse_beside_resume, report_run, run_options
from torchmark.commands.run import run as run_suites
from torchmark.commands.suites import default_suites
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import TIME_LIMIT
from torchmark.settings import RunSettings, settings_for

T = TypeVar("T")


@click.command("run")
@click.argument("suites", metavar="[SUITE…]", nargs=-1)
@click.option(
    "-k", "pattern", metavar="PATTERN", default="", help="Run only cases with these words."
)
@click.option("--time", is_flag=True, help="Take times, and do not count unless asked.")
@click.option("--count", is_flag=True, help="Count instructions, and take no times unless asked.")
@click.option("--no-cpp", is_flag=True, help="Leave out C++ cases.")
@click.option("--quick", is_flag=True, help="Run the standard suite's quick part, in less time.")
@click.option("--threads", type=int, metavar="N", help="Run every case with N threads.")
@click.option(
    "--repeats", type=int, metavar="N", help="Repeat each case in N fresh processes.  [default: 1]"
)
@click.option(
    "--timeout", type=float, metavar="S", help="Stop a case after S seconds.  [default: 300]"
)
@run_options
def command(
    suites: tuple[str, ...], place: str | None, tags: tuple[str, ...], resume: str | None,
    quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Time and count the cases of suites, in Python and C++.

    A suite is the name of one that ships (standard, the default; overrides), a Python file, a
    folder of bench_*.py files, or a module; `torchmark list` shows its cases. Every result is
    stored at once: after Ctrl-C or a crash, --resume measures what is missing.

    \b
    torchmark run --quick --html run.html
    torchmark run my_benchmarks/ -k "add and not C++" --time
    torchmark run --resume latest
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    files = files_in(options)
    settings = settings_for(Path.cwd())
    wanted: dict[str, Any] = {}
    if resume is not None:
        refuse_beside_resume({"suite": suites, "tag": tags, **options})
    else:
        wanted = _wanted(settings.run, **options)
    report_run(
        lambda progress: run_suites(
            suites or default_suites(settings),
            store=place,
            tags=tags,
            resume=resume,
            progress=progress,
            **wanted,
        ),
        place=place,
        files=files,
        quiet=quiet,
        show_text=not quiet,
    )


def _wanted(
    settings: RunSettings,
    *,
    pattern: str,
    time: bool,
    count: bool,
    no_cpp: bool,
    quick: bool,
    threads: int | None,
    repeats: int | None,
    timeout: float | None,
) -> dict[str, Any]:
    """What was asked on the command line comes before what the settings say."""
    number = threads if threads is not None else settings.threads
    return {
        "pattern": pattern,
        "metrics": choose_metrics(settings, time=time, count=count),
        "cpp": not no_cpp and settings.cpp is not False,
        "quick": quick or bool(settings.quick),
        "threads": None if number is None else check_count("--threads", number),
        "repeats": check_count("--repeats", _first_given(repeats, settings.repeats, 1)),
        "timeout": check_positive("--timeout", _first_given(timeout, settings.timeout, TIME_LIMIT)),
    }


def choose_metrics(settings: RunSettings, *, time: bool, count: bool) -> tuple[Metric, ...]:
    if not (time or count):
        time = settings.time if settings.time is not None else True
        count = counting_works() if settings.count is None else settings.count
    if count:
        check_that_counting_works()
    if not (time or count):
        raise InvalidArgumentError("neither times nor counts are wanted; see run.time, run.count")
    return tuple(
        metric
        for metric, is_wanted in ((Metric.TIME, time), (Metric.INSTRUCTIONS, count))
        if is_wanted
    )


def _first_given(*values: T | None) -> T:
    """The first that is not None: the command line, then the settings, then our own."""
    return next(value for value in values if value is not None)

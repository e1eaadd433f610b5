"""`torchmark run`: time and count the cases of suites, and store every result."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from torchmark.arguments import check_count, check_positive
from torchmark.cli.following import (
    RunOptions,
    counting_works,
    import_option,
    metric_options,
    metrics_of,
    report_run,
    run_options,
    timeout_option,
)
from torchmark.cli.shell import Percent, import_from_here
from torchmark.commands.planning import default_suites
from torchmark.commands.run import run
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import USUAL_LIMITS
from torchmark.settings import RunSettings, settings_for

_NUMBERS = {
    "threads": check_count,
    "repeats": check_count,
    "budget": check_positive,
    "timeout": check_positive,
}
"""Options that are numbers. The settings and `torchmark.run` use the same names."""


@click.command("run")
@click.argument("suites", metavar="[SUITE…]", nargs=-1)
@click.option(
    "-k",
    "pattern",
    metavar="PATTERN",
    default="",
    help="Run only cases with these words, e.g. 'add and not C++'.",
)
@metric_options
@click.option("--no-cpp", is_flag=True, help="Leave out C++ cases.")
@click.option(
    "--quick",
    is_flag=True,
    help="Run a part of the standard suite; take fewer samples of each case.",
)
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help="Run every case with N threads.  [default: as the case defines]",
)
@click.option(
    "--repeats", type=int, metavar="N", help="Repeat each case in N fresh processes.  [default: 1]"
)
@click.option(
    "--budget",
    type=float,
    metavar="SECONDS",
    help="Time each case for at most SECONDS, in all its processes together.  "
    f"[default: {USUAL_LIMITS.max_run_time:g} per process]",
)
@click.option(
    "--detect",
    type=Percent(),
    metavar="X%",
    help="Repeat each case until a change of X % between two runs is detectable.",
)
@timeout_option
@import_option
@run_options()
def run_command(asked: RunOptions, suites: tuple[str, ...], **options: Any) -> None:
    """Time the cases of suites and count their instructions, in Python and C++.

    You get the time and the instructions of each case, with a warning where a result is doubtful.
    Every result is stored as soon as it exists: after Ctrl-C or a crash, --resume measures what is
    missing.

    SUITE is `standard`, `overrides`, a Python file, a folder of bench_*.py files, a trace or a
    module. The default is the suites in the settings, or `standard`. `torchmark list` shows the
    cases of a suite.

    \b
    torchmark run --quick --html run.html
    torchmark run my_benchmarks/ -k "add and not C++" --time
    torchmark run --resume latest
    """
    import_from_here()
    settings = settings_for(Path.cwd())
    wanted = _wanted(settings.run, **options) if asked.resume is None else {}
    measure = partial(run, suites or default_suites(settings), **wanted)
    report_run(asked, measure)


def _wanted(
    settings: RunSettings,
    *,
    pattern: str,
    time: bool,
    count: bool,
    no_cpp: bool,
    quick: bool,
    detect: float | None,
    imports: tuple[str, ...],
    **numbers: float | None,
) -> dict[str, Any]:
    """The arguments of `torchmark.run`: from the command line, otherwise from the settings."""
    wanted: dict[str, Any] = {
        "pattern": pattern,
        "metrics": _choose_metrics(settings, time=time, count=count),
        "cpp": not no_cpp and settings.cpp is not False,
        "quick": quick or bool(settings.quick),
        "detect": detect,
        "imports": imports,
    }
    for name, check in _NUMBERS.items():
        number = numbers[name] if numbers[name] is not None else getattr(settings, name)
        if number is not None:
            wanted[name] = check(f"--{name}", number)
    return wanted


def _choose_metrics(settings: RunSettings, *, time: bool, count: bool) -> list[Metric]:
    if not (time or count):
        time = settings.time if settings.time is not None else True
        count = counting_works() if settings.count is None else settings.count
    metrics = metrics_of(time=time, count=count)
    if not metrics:
        raise InvalidArgumentError(
            "neither times nor counts would be measured; check run.time and run.count in the "
            "settings, or give --time or --count"
        )
    return metrics

"""`torchmark time` and `torchmark count`: measure statements and print a report."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from torchmark.arguments import check_count, check_positive
from torchmark.cli.display import StatusLine
from torchmark.cli.shell import (
    ExitCode,
    checked,
    columns,
    combine,
    echo,
    import_from_here,
    store_option,
    warn,
)
from torchmark.commands.spine import use_store
from torchmark.commands.statements import Statements, count_statements, time_statements
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import find_language
from torchmark.model.result import Result, Status
from torchmark.model.run import Run
from torchmark.report import render, view_of
from torchmark.report.formats import text

_USUAL_START = "25 to 60 s"

_SHOWN_OUTPUT = 2000
"""Characters shown of the output of a failed statement: its end."""

_ON_STANDARD_ERROR = ("failures", "skipped")
"""Sections left out of the report, because standard error has them."""

_statement_options = combine(
    click.argument("texts", metavar="STMT [STMT…]", nargs=-1, required=True),
    click.option(
        "-s",
        "--setup",
        multiple=True,
        metavar="CODE",
        help="Run CODE once before each statement; its names are local. May be repeated, one line "
        "each.",
    ),
    click.option(
        "--threads",
        default=1,
        show_default=True,
        metavar="N",
        help="Number of threads of torch.",
        callback=checked(check_count),
    ),
    click.option("--save", is_flag=True, help="Store the run, e.g. for `torchmark show`."),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="TAG",
        help="Name the stored run; may be repeated. Needs --save.",
    ),
    store_option,
)


@click.command("time")
@_statement_options
@click.option(
    "--global-setup",
    default="",
    metavar="CODE",
    help="Run CODE once before all statements; its names are global. In C++: includes and "
    "functions.",
)
@click.option(
    "--language",
    type=click.Choice(["py", "cpp"]),
    default="py",
    show_default=True,
    help="Language of the statements and the setup. C++ statements are compiled first, all "
    "together, and the setup runs once per process.",
)
@click.option(
    "--min-run-time",
    default=0.2,
    show_default=True,
    metavar="SECONDS",
    help="Sample each statement for SECONDS; up to ten times as long on a noisy machine.",
    callback=checked(check_positive),
)
@click.option("--description", metavar="TEXT", help="Title of the time column.")
@click.option(
    "--timeout",
    default=300.0,
    metavar="SECONDS",
    help="Stop a statement whose setup or run takes longer than SECONDS.  [default: 300]",
    callback=checked(check_positive),
)
@click.option("--json", "as_json", is_flag=True, help="Print the run with every sample as JSON.")
def time_command(
    min_run_time: float, description: str | None, timeout: float, as_json: bool, **options: Any
) -> None:
    """Time one statement, or compare several.

    You get the median time of one run with its 95 % interval. Further statements are compared with
    the first: each gets a ratio and a verdict.

    Several statements are measured in rounds: one short block of each, in random order, so that a
    busy machine slows all of them equally. torch is imported for you. The statements run in a
    separate process: if one raises, crashes or hangs, the others are still measured. What they
    print is kept with the results (--json, --save).

    \b
    torchmark time "x + x" --setup "x = torch.ones(64)"
    torchmark time "x.sum(0)" "torch.sum(x, 0)" -s "x = torch.ones(64, 64)"
    """

    def measure(statements: Statements, **keeping: Any) -> Run:
        return time_statements(
            statements, min_run_time=min_run_time, description=description, timeout=timeout,
            **keeping,
        )  # fmt: skip

    _report_statements(measure, as_json=as_json, **options)


@click.command("count")
@_statement_options
@click.option(
    "--global-setup",
    default="",
    metavar="CODE",
    help="C++ only: includes and functions at the top of the file.",
)
@click.option(
    "--language",
    type=click.Choice(["py", "cpp"]),
    default="py",
    show_default=True,
    help="Language of the statements and the setup.",
)
@click.option(
    "--number",
    default=100,
    show_default=True,
    metavar="N",
    help="Count N runs.",
    callback=checked(check_count),
)
@click.option(
    "--functions",
    default=10,
    show_default=True,
    metavar="N",
    help="Show N functions of each statement.",
)
@click.option(
    "--timeout",
    default=300.0,
    metavar="SECONDS",
    help="Stop a statement after SECONDS.  [default: 300]",
    callback=checked(check_positive),
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts of all functions as JSON.")
def count_command(
    number: int, functions: int, timeout: float, as_json: bool, **options: Any
) -> None:
    """Count the instructions of one statement, or compare several.

    You get the number of instructions of one run, in total and by function. Further statements are
    compared with the first. Counting a statement again gives the same number, however busy the
    machine is. Needs valgrind, which takes 25 to 60 s to start.

    \b
    torchmark count "x + x" --setup "x = torch.ones(64)"
    torchmark count "x.sum(0)" "torch.sum(x, 0)" -s "x = torch.ones(64, 64)"
    """

    def measure(statements: Statements, **keeping: Any) -> Run:
        start = time.monotonic()
        with StatusLine(shows_lines=True) as line:

            def tell(stage: str) -> None:
                seconds = time.monotonic() - start
                line.tell(f"starting the counter, {_USUAL_START}: {stage} ({seconds:.0f} s)")

            return count_statements(
                statements, number=number, functions=functions, timeout=timeout,
                progress=tell, **keeping,
            )  # fmt: skip

    _report_statements(measure, as_json=as_json, **options)


def _report_statements(
    measure: Callable[..., Run],
    *,
    as_json: bool,
    texts: tuple[str, ...],
    setup: tuple[str, ...],
    global_setup: str,
    language: str,
    threads: int,
    save: bool,
    tags: tuple[str, ...],
    place: str | None,
) -> None:
    """Measure the statements. Print the errors of those that failed, then the report."""
    if not save and (tags or place is not None):
        raise InvalidArgumentError("--tag and --store need a run that is stored; add --save")
    import_from_here()
    statements = Statements(
        texts=texts,
        setup="\n".join(setup) or "pass",
        global_setup=global_setup,
        language=find_language(language),
        threads=threads,
    )
    with use_store(place) if save else contextlib.nullcontext() as store:
        run = measure(statements, store=store, tags=tags)
    failed = [result for result in run.results if result.status is not Status.DONE]
    for result in failed:
        warn(_describe_failure(result))
    if as_json:
        echo(render(run, "json"), nl=False)
    elif len(failed) < len(run.results):
        view = view_of(run)
        sections = tuple(each for each in view.sections if each.id not in _ON_STANDARD_ERROR)
        echo(text.render(replace(view, sections=sections), columns()), nl=False)
    if failed:
        sys.exit(ExitCode.CASE_FAILED)


def _describe_failure(result: Result) -> str:
    """Say which statement failed and why, with the end of its output."""
    texts = [f"{result.case.name} {result.status.value}: {result.reason}"]
    for name, printed in (("output", result.stdout), ("standard error", result.stderr)):
        end = printed[-_SHOWN_OUTPUT:].strip()
        if end and not result.reason.rstrip().endswith(end):  # the reason of a crash quotes it
            texts.append(f"the end of its {name}:\n{end}")
    return "\n".join(texts)

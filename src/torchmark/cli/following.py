"""What the commands that measure share: their options, and the way from measuring to an exit code.

Progress is shown while a run goes on; then come the report, the files and the exit code.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from torchmark.cli.display import make_display
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    Decorator,
    ExitCode,
    code_of,
    columns,
    combine,
    echo,
    end_of,
    fail,
    file_options,
    files_in,
    opened,
    store_hint,
    store_option,
    warn,
    write_documents,
)
from torchmark.engine.under_test import check_counting
from torchmark.errors import (
    InvalidArgumentError,
    MissingToolError,
    RunInterruptedError,
    TorchmarkError,
)
from torchmark.model.result import Metric, Status
from torchmark.model.run import TIME_LIMIT, Run
from torchmark.report import render

metric_options = combine(
    click.option("--time", is_flag=True, help="Take times, and do not count unless asked."),
    click.option(
        "--count", is_flag=True, help="Count instructions, and take no times unless asked."
    ),
)

timeout_option = click.option(
    "--timeout",
    type=float,
    metavar="S",
    help=f"Stop a case after S seconds.  [default: {TIME_LIMIT:g}]",
)

import_option = click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="Import MODULE first, e.g. one that defines operators; may be repeated.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every command that measures."""

    place: str | None
    """The store that is named."""

    tags: tuple[str, ...]
    resume: str | None
    """The run to resume; options that it began with may not be repeated."""

    quiet: bool
    files: dict[str, Path | None]
    """What is to be written, by format."""


def run_options(*fine_beside_resume: str) -> Decorator:
    """Add the options of every command that measures; they arrive as the first argument.

    A run goes on with the options it began with, so with --resume none may be given again except
    those that only say what is shown, and `fine_beside_resume`.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(
            *, place: str | None, tags: tuple[str, ...], resume: str | None, quiet: bool, **own: Any
        ) -> None:
            files = files_in(own)
            if resume is not None:
                shown = [f"{form}_file" for form in files]
                _check_alone(["place", "resume", "quiet", *shown, *fine_beside_resume])
            asked = RunOptions(place=place, tags=tags, resume=resume, quiet=quiet, files=files)
            function(asked, **own)

        options = combine(
            store_option,
            click.option("--tag", "tags", multiple=True, metavar="TAG", help="Name the run."),
            file_options,
            click.option("--resume", metavar="RUN", help="Go on with a run that was cut short."),
            click.option("--quiet", is_flag=True, help="Show only the result and errors."),
        )
        return options(call)

    return decorate


def _check_alone(fine: list[str]) -> None:
    context = click.get_current_context()
    for each in context.command.params:
        source = context.get_parameter_source(str(each.name))
        if each.name not in fine and source is ParameterSource.COMMANDLINE:
            is_option = isinstance(each, click.Option)
            refuse_beside_resume(each.opts[-1] if is_option else str(each.metavar).strip("[]…"))


def refuse_beside_resume(given: str) -> NoReturn:
    raise InvalidArgumentError(
        f"--resume goes on with the suites and options that the run began with; leave {given} out"
    )


def report_run(
    asked: RunOptions,
    measure: Callable[..., Run],
    *,
    judge: Callable[[Run], ExitCode | None] = lambda _run: None,
    text_of: Callable[[Run], str] = lambda run: render(run, "text", width=columns()),
    write_more: Callable[[Run], bool] = lambda _run: True,
) -> None:
    """Measure, show, write and exit with the code that says how it went; return if all is fine.

    `measure` is called with the store, the tags, the run to resume and a listener. `judge` may name
    a code for a run that came to its end, such as a regression. `text_of` replaces the usual text.
    `write_more` writes further files of a command, and returns whether it could.
    """
    cut_short_by: TorchmarkError | RunInterruptedError | None = None
    try:
        with make_display(quiet=asked.quiet) as display:
            run = measure(
                store=asked.place, tags=asked.tags, resume=asked.resume, progress=display.hear
            )
    except (RunInterruptedError, TorchmarkError) as error:
        if not error.run_id:
            raise
        cut_short_by = error
        with opened(asked.place, read_only=True) as store:
            run = store.run(error.run_id)
    if STANDARD_OUTPUT in asked.files.values():
        pass  # what is written there stands alone
    else:
        echo(text_of(run), nl=False)
    wrote_all = write_documents(
        asked.files,
        lambda form: render(run, form),
        remedy=lambda form: (
            f"torchmark show {run.id} --{form} FILE{store_hint(asked.place)} writes it again"
        ),
        quiet=asked.quiet,
    )
    wrote_all = write_more(run) and wrote_all
    if cut_short_by is not None:
        _say_how_to_go_on(run, cut_short_by, asked.place)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    code = judge(run)
    if code is not None:
        sys.exit(code)
    if run.has_failures:
        sys.exit(ExitCode.CASE_FAILED)


def _say_how_to_go_on(
    run: Run, cause: TorchmarkError | RunInterruptedError, place: str | None
) -> NoReturn:
    done = len(run.plan) - len(run.missing())
    partial = sum(each.status is Status.PARTIAL for each in run.results)
    what, code = (
        end_of(cause) if isinstance(cause, RunInterruptedError) else (str(cause), code_of(cause))
    )
    fail(
        f"{what}; {done} of {len(run.plan)} results are stored"
        f"{f', and {partial} in part' if partial else ''}\n"
        f"Resume with: torchmark {run.kind.value} --resume {run.id}{store_hint(place)}",
        code,
    )


def metrics_of(*, time: bool, count: bool) -> list[Metric]:
    """The metrics that are asked for; an error if counts are and there can be none."""
    if count:
        check_counting()
    asked = {Metric.TIME: time, Metric.INSTRUCTIONS: count}
    return [metric for metric, is_asked in asked.items() if is_asked]


def counting_works() -> bool:
    """A machine without valgrind still times, and says so."""
    try:
        check_counting()
    except MissingToolError as error:
        warn(f"times only: {error}")
        return False
    return True

"""What the commands that measure share: their options, and the steps from measuring to exit.

These steps are: show progress, print the report, write the files, exit with the right code.
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

from torchmark.arguments import check_positive
from torchmark.cli.display import make_display
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    Decorator,
    ExitCode,
    checked,
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
    click.option("--time", is_flag=True, help="Measure only times, unless --count is given too."),
    click.option(
        "--count", is_flag=True, help="Count only instructions, unless --time is given too."
    ),
)

timeout_option = click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help=f"Stop a case after SECONDS.  [default: {TIME_LIMIT:g}]",
    callback=checked(check_positive),
)

import_option = click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="Import MODULE before each case, e.g. one that defines operators; may be repeated.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of every command that measures."""

    place: str | None
    """The store given by `--store`."""

    tags: tuple[str, ...]
    resume: str | None
    """The run to resume. It keeps the options it was started with."""

    quiet: bool
    files: dict[str, Path | None]
    """The files to write, by format."""


def run_options(*allowed_with_resume: str) -> Decorator:
    """Add the options of every command that measures. The function gets them as `RunOptions`.

    A resumed run keeps the options it was started with. So only options that change what is shown,
    and those in `allowed_with_resume`, are accepted together with --resume.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(
            *, place: str | None, tags: tuple[str, ...], resume: str | None, quiet: bool, **own: Any
        ) -> None:
            files = files_in(own)
            if resume is not None:
                shown = [f"{form}_file" for form in files]
                _check_alone(["place", "resume", "quiet", *shown, *allowed_with_resume])
            asked = RunOptions(place=place, tags=tags, resume=resume, quiet=quiet, files=files)
            function(asked, **own)

        options = combine(
            store_option,
            click.option(
                "--tag", "tags", multiple=True, metavar="TAG", help="Name the run; may be repeated."
            ),
            file_options,
            click.option(
                "--resume",
                metavar="RUN",
                help="Finish an interrupted run; failed cases run again.",
            ),
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
            refuse_with_resume(each.opts[-1] if is_option else str(each.metavar).strip("[]…"))


def refuse_with_resume(given: str) -> NoReturn:
    raise InvalidArgumentError(
        f"a resumed run keeps the suites and options it was started with; leave {given} out"
    )


def report_run(
    asked: RunOptions,
    measure: Callable[..., Run],
    *,
    judge: Callable[[Run], ExitCode | None] = lambda _run: None,
    text_of: Callable[[Run], str] = lambda run: render(run, "text", width=columns()),
    write_more: Callable[[Run], bool] = lambda _run: True,
) -> None:
    """Measure, print the report and write the files. Exit if anything failed, otherwise return.

    `measure` is called with the store, the tags, the run to resume and a listener. `judge` may
    return an exit code for a finished run, such as that for a regression. `text_of` replaces the
    usual text. `write_more` writes further files of a command, and returns whether it could.
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
        pass  # standard output then has only that document
    else:
        echo(text_of(run), nl=False)
    wrote_all = write_documents(
        asked.files,
        lambda form: render(run, form),
        remedy=lambda form: (
            f"write it again with: torchmark show {run.id} --{form} FILE{store_hint(asked.place)}"
        ),
        quiet=asked.quiet,
    )
    wrote_all = write_more(run) and wrote_all
    if cut_short_by is not None:
        fail_with_resume_hint(run, cut_short_by, asked.place)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    code = judge(run)
    if code is not None:
        sys.exit(code)
    if run.has_failures:
        sys.exit(ExitCode.CASE_FAILED)


def fail_with_resume_hint(
    run: Run, cause: TorchmarkError | RunInterruptedError, place: str | None
) -> NoReturn:
    """End a command whose run was cut short: say what is stored, and how to continue."""
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
    """Return the chosen metrics; raise an error if instructions cannot be counted here."""
    if count:
        check_counting()
    asked = {Metric.TIME: time, Metric.INSTRUCTIONS: count}
    return [metric for metric, is_asked in asked.items() if is_asked]


def counting_works() -> bool:
    """Whether instructions can be counted here. If not, warn that only times are measured."""
    try:
        check_counting()
    except MissingToolError as error:
        warn(f"only times are measured: {error}")
        return False
    return True

"""A command that measures: progress while it goes on, then the report, the files, the exit code."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.display import make_display
from torchmark.cli.exit_codes import ExitCode, code_of
from torchmark.cli.files import STANDARD_OUTPUT, check_writable, written
from torchmark.cli.stores import columns, opened, store_option
from torchmark.errors import InvalidArgumentError, RunInterruptedError, TorchmarkError
from torchmark.model.result import Status
from torchmark.report import render
from torchmark.report.names import headline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchmark.commands.spine import Listener
    from torchmark.model.run import Run

_file = click.Path(dir_okay=False, path_type=Path, allow_dash=True)

_FORMATS = {
    "json": "Write every sample and count as JSON; without FILE, print it.",
    "csv": "Write a line for each result as CSV.",
    "markdown": "Write tables for a pull request as Markdown.",
    "html": "Write one page with everything in it.",
}


def run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that measures; they arrive as place, tags, resume, quiet and
    one `<format>_file` for each format.
    """
    options: list[Callable[..., Any]] = [
        store_option,
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Name the run."),
        with_outputs,
        click.option("--resume", metavar="RUN", help="Go on with a run that was cut short."),
        click.option("--quiet", is_flag=True, help="Show only the result and errors."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def with_outputs(function: Callable[..., Any]) -> Callable[..., Any]:
    """A file for each format; `files_in` collects them."""
    for form, text in reversed(_FORMATS.items()):
        # As in torchmark 0.1, --json without a file prints.
        alone: dict[str, Any] = (
            {"is_flag": False, "flag_value": str(STANDARD_OUTPUT)} if form == "json" else {}
        )
        option = click.option(
            f"--{form}", f"{form}_file", type=_file, metavar="FILE", help=text, **alone
        )
        function = option(function)
    return function


def files_in(arguments: dict[str, Any]) -> dict[str, Path | None]:
    """The files that were asked for, by format, taken out of the arguments of a command."""
    files = {form: arguments.pop(f"{form}_file") for form in _FORMATS}
    check_writable(files.values())
    return files


def refuse_beside_resume(given: Mapping[str, Any]) -> None:
    """A run goes on with the options it began with, so none of these may be given again."""
    named = [name for name, value in given.items() if value not in (None, False, (), "")]
    if named:
        option = "-k" if named[0] == "pattern" else f"--{named[0].replace('_', '-')}"
        raise InvalidArgumentError(
            "--resume goes on with the suites and options that the run began with; "
            f"leave {option} out"
        )


def report_run(
    measure: Callable[[Listener], Run],
    *,
    place: str | None,
    files: Mapping[str, Path | None],
    quiet: bool,
    judge: Callable[[Run], ExitCode | None] = lambda _run: None,
    show_text: bool = True,
    text_of: Callable[[Run], str] | None = None,
    write_more: Callable[[Run], bool] = lambda _run: True,
) -> Run:
    """Measure, show, write and exit with the code that says how it went; return if all is fine.

    `judge` may name a code for a run that came to its end, such as a regression. `show_text` is
    off where `--quiet` means that only failures are shown. `text_of` replaces the usual text.
    `write_more` writes what a command makes beside the usual files, and says whether it could.
    """
    heed_signals()
    cut_short_by: TorchmarkError | RunInterruptedError | None = None
    try:
        with make_display(quiet=quiet) as display:
            run = measure(display.hear)
    except (RunInterruptedError, TorchmarkError) as error:
        if not error.run_id:
            raise
        cut_short_by = error
        with opened(place) as store:
            run = store.run(error.run_id)
    if STANDARD_OUTPUT in files.values():
        pass  # what is written there stands alone
    elif show_text:
        text = render(run, "text", width=columns()) if text_of is None else text_of(run)
        click.echo(text, nl=False)
    else:
        _show_failures(run)
    wrote_all = written(
        files,
        lambda form: render(run, form),
        remedy=lambda form: f"torchmark show {run.id} --{form} FILE writes it again",
    )
    wrote_all = write_more(run) and wrote_all
    if cut_short_by is not None:
        _say_how_to_go_on(run, cut_short_by, place)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    code = judge(run)
    if code is not None:
        sys.exit(code)
    if run.has_failures:
        sys.exit(ExitCode.CASE_FAILED)
    return run


def heed_signals() -> None:
    """A cancelled job or a closed terminal ends a run like Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _show_failures(run: Run) -> None:
    for result in run.results:
        if result.status is Status.FAILED:
            click.echo(f"torchmark: {headline_of(result)}", err=True)


def _say_how_to_go_on(
    run: Run, cause: TorchmarkError | RunInterruptedError, place: str | None
) -> None:
    store = f" --store {shlex.quote(place)}" if place is not None else ""
    is_interrupt = isinstance(cause, RunInterruptedError)
    done = len(run.plan) - len(run.missing())
    click.echo(
        f"torchmark: {'interrupted' if is_interrupt else cause}; "
        f"{done} of {len(run.plan)} results are stored\n"
        f"Resume with: torchmark {run.kind.value} --resume {run.id}{store}",
        err=True,
    )
    sys.exit(ExitCode.INTERRUPTED if isinstance(cause, RunInterruptedError) else code_of(cause))

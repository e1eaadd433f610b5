"""What the commands share: exit codes, messages, options, output files, the terminal.

`torchmark --help` and `torchmark capture` import this module, so it imports nothing heavy.
"""

from __future__ import annotations

import enum
import math
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import click

from torchmark import errors
from torchmark.errors import (
    InvalidArgumentError,
    StatementSyntaxError,
    TerminatedError,
    TorchmarkError,
)
from torchmark.files import can_be_written, write_whole
from torchmark.printable import printable

if TYPE_CHECKING:
    from torchmark.analyse.estimates import Compared
    from torchmark.store import Store

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

STANDARD_OUTPUT = Path("-")
"""The name of a file that means standard output."""

_FORMATS = {
    "json": "Write all samples and counts as JSON; without FILE, print them.",
    "csv": "Write one line per result as CSV.",
    "markdown": "Write the tables as Markdown, e.g. for a pull request.",
    "html": "Write the report as one HTML page.",
}

_NARROWEST, _WIDEST = 60, 140
"""The least and the most columns that text is laid out for."""


class Percent(click.ParamType[float]):
    """A percentage such as "0.5%" or "0.5 %". A number without the sign is refused."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number, sign, rest = str(value).partition("%")
            if sign and not rest.strip() and 0 < float(number) < math.inf:
                return float(number) / 100
        except ValueError:
            pass
        return self.fail(f"{value!r} is not a percentage above zero, such as 0.5%", param, ctx)


def checked(check: Callable[[str, object], Any]) -> Callable[..., Any]:
    """Make a callback that checks a number, so that the error has the name of the option."""

    def check_option(_ctx: click.Context, param: click.Parameter, value: object) -> Any:
        return None if value is None else check(param.opts[-1], value)

    return check_option


class ExitCode(enum.IntEnum):
    """The documented exit codes, by which scripts and CI can tell the causes apart."""

    FINE = 0
    REGRESSION = 1
    """`--fail-on` was given, and such a change was found. Nothing else has this code."""

    USAGE = 2
    """An argument, a number or a file in it, or the settings are wrong."""

    CASE_FAILED = 3
    """A statement or a case failed."""

    ENVIRONMENT = 4
    """torch, a tool, the store or the output cannot be used."""

    DEFECT = 70
    """A bug in torchmark; EX_SOFTWARE in sysexits.h."""

    HUNG_UP = 129
    """SIGHUP, as in shells: the terminal was closed."""

    INTERRUPTED = 130
    """Ctrl-C, as in shells."""

    PIPE_CLOSED = 141
    """The reader of the output closed the pipe, as in shells."""

    TERMINATED = 143
    """SIGTERM, as in shells: the job was cancelled."""


_STATEMENT_AT_FAULT = (
    errors.StatementSyntaxError,
    errors.CaseFailedError,
    errors.CompileError,
    errors.CallgrindFileError,
)
_ENVIRONMENT_AT_FAULT = (
    errors.MissingTorchError,
    errors.ImportFailedError,
    errors.MissingToolError,
    errors.CompilerMissingError,
    errors.ProfilerError,
    errors.ZygoteError,
    errors.BackportError,
    errors.RepositoryError,
    errors.BuildFailedError,
    errors.NoBaselineError,
    errors.StoreError,
    errors.OutputFileError,
)


def code_of(error: TorchmarkError) -> ExitCode:
    """Return the exit code for an error that ends a command."""
    if isinstance(error, _STATEMENT_AT_FAULT):
        return ExitCode.CASE_FAILED
    if isinstance(error, _ENVIRONMENT_AT_FAULT):
        return ExitCode.ENVIRONMENT
    return ExitCode.USAGE


def heed_signals() -> None:
    """Let SIGTERM and SIGHUP end a command like Ctrl-C, unless they are ignored (nohup)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _raise_terminated)


def _raise_terminated(number: int, _frame: object) -> NoReturn:
    raise TerminatedError(number)


def end_of(interrupt: BaseException) -> tuple[str, ExitCode]:
    """Return the message and the exit code for an interrupted command."""
    cause: BaseException | None = interrupt
    while cause is not None and not isinstance(cause, TerminatedError):
        cause = cause.__cause__
    if cause is None:
        return "interrupted", ExitCode.INTERRUPTED
    return "terminated", ExitCode(128 + cause.number)


def message_of(error: TorchmarkError) -> str:
    """Return the message; for a statement that does not compile, with its line and a caret."""
    if not isinstance(error, StatementSyntaxError):
        return str(error)
    lines = [f"{error.msg} (line {error.lineno or 1})"]
    if error.text is not None:
        text = error.text.rstrip("\n")
        lines.append(f"    {text}")
        start = max(0, (error.offset or 1) - 1)
        # If the error spans several lines, only its start is shown.
        end = error.end_offset or 0
        width = max(1, end - 1 - start) if error.end_lineno in (None, error.lineno) else 1
        lines.append("    " + " " * start + "^" * min(width, max(1, len(text) - start)))
    return "\n".join(lines)


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text without the control characters in it, which could change the terminal."""
    click.echo(printable(text), err=err, nl=nl)


def warn(message: str) -> None:
    """Print a message on standard error, so that standard output has only the result."""
    echo(f"torchmark: {message}", err=True)


def tell_written(file: Path, note: str = "", *, quiet: bool = False) -> None:
    """Say that a file was written, and where."""
    if not quiet:
        warn(f"written to {file}{f': {note}' if note else ''}")


def fail(message: str, code: ExitCode) -> NoReturn:
    warn(message)
    sys.exit(code)


store_option = click.option(
    "--store",
    "place",
    metavar="URL",
    help="Store of results: a file or a URL.  [default: from the settings, or a file in your home "
    "directory]",
)

fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["slower", "any"]),
    help="Exit with code 1 if a case is slower or takes more instructions; with `any`, also if it "
    "is faster or takes fewer.",
)


def find_regression(fail_on: str | None, compared: Iterable[Compared]) -> ExitCode | None:
    """Return the exit code if there is a change that `fail_on_option` names, otherwise None."""
    is_found = fail_on is not None and any(
        each.has_regression or (fail_on == "any" and each.has_change) for each in compared
    )
    return ExitCode.REGRESSION if is_found else None


def combine(*options: Decorator) -> Decorator:
    """Combine options into one decorator. The help shows them in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _file_option(form: str, text: str) -> Decorator:
    # As in torchmark 0.1, --json without a file prints.
    alone: dict[str, Any] = (
        {"is_flag": False, "flag_value": str(STANDARD_OUTPUT)} if form == "json" else {}
    )
    kind = click.Path(dir_okay=False, path_type=Path, allow_dash=True)
    return click.option(f"--{form}", f"{form}_file", type=kind, metavar="FILE", help=text, **alone)


file_options = combine(*(_file_option(form, text) for form, text in _FORMATS.items()))
"""An output file for each format; `files_in` collects them."""


def files_in(arguments: dict[str, Any]) -> dict[str, Path | None]:
    """Take the output files out of the arguments of a command, and return them by format."""
    files = {form: arguments.pop(f"{form}_file") for form in _FORMATS}
    check_writable(files.values())
    return files


def check_writable(files: Iterable[Path | None]) -> None:
    """Raise an error if a file cannot be written. It is called before minutes of measuring."""
    for file in filter(None, files):
        if file == STANDARD_OUTPUT:
            continue
        if not file.name or file.is_dir() or not can_be_written(file):
            raise InvalidArgumentError(
                f"{file} cannot be written; name a file in an existing folder that you can write to"
            )


def write_documents(
    files: Mapping[str, Path | None],
    render: Callable[[str], str],
    *,
    remedy: Callable[[str], str] = lambda _form: "free some space, or name another file",
    quiet: bool = False,
) -> bool:
    """Write a document to each file, by format; return whether all could be written.

    A file that cannot be written is reported with its `remedy`, and the others are written.
    """
    wrote_all = True
    for form, file in files.items():
        if file is None:
            continue
        if file == STANDARD_OUTPUT:
            echo(render(form), nl=False)
            continue
        try:
            write_whole(file, render(form).encode())
        except OSError as error:
            wrote_all = False
            warn(f"{file} cannot be written: {error.strerror}; {remedy(form)}")
        else:
            tell_written(file, quiet=quiet)
    return wrote_all


def opened(place: str | None, *, read_only: bool = False) -> Store:
    """Open the store named by the option, else by the settings here, else the user's own store.

    The user's own store is created if it is missing, so that reading it is not an error.
    """
    from torchmark.settings import settings_for  # noqa: PLC0415 - slow to import
    from torchmark.store import default_path, open_store  # noqa: PLC0415

    named = place if place is not None else settings_for(Path.cwd()).store
    is_new = named is None and not default_path().exists()
    return open_store(named, create=named is None, read_only=read_only and not is_new)


def store_hint(place: str | None) -> str:
    """Return the `--store` option that the command in a hint needs to find the same store."""
    from torchmark.settings import settings_for  # noqa: PLC0415 - slow to import
    from torchmark.store.database import name_of, option_for, url_of  # noqa: PLC0415

    return option_for(name_of(url_of(place or settings_for(Path.cwd()).store)))


def tell_damage(store: Store) -> bool:
    """Report what could not be read from the store; return whether there was anything."""
    for each in store.damage:
        warn(f"damaged: {each}")
    return bool(store.damage)


def columns() -> int:
    """Return the width of the terminal, or 80 if the output goes elsewhere."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return 80
    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)


def import_from_here() -> None:
    """Make modules in the current directory importable, as timeit does."""
    sys.path.insert(0, os.curdir)

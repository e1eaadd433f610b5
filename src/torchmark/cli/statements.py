"""What `torchmark time` and `torchmark count` share: statements in, a report out."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.messages import failure_message
from torchmark.cli.stores import columns, store_option
from torchmark.commands.spine import use_store
from torchmark.commands.statements import Statements
from torchmark.errors import CaseFailedError, InvalidArgumentError, TorchmarkError
from torchmark.model.case import find_language
from torchmark.report import render

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.model.run import Run


def statement_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The statements with their setup, and whether the run is stored."""
    options: list[Callable[..., Any]] = [
        click.argument("texts", metavar="STMT [STMT…]", nargs=-1, required=True),
        click.option(
            "-s",
            "--setup",
            multiple=True,
            help="Run before each statement; its names are local. Several are joined as lines.",
        ),
        click.option("--threads", default=1, show_default=True, help="Threads that torch may use."),
        click.option("--save", is_flag=True, help="Store the run, so that it can be shown again."),
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Name the stored run."),
        store_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def report_statements(
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
    """Measure the statements and print what came of it; a statement that fails ends the command."""
    if not save and (tags or place is not None):
        raise InvalidArgumentError("--tag and --store are for a run that is stored; add --save")
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    statements = Statements(
        texts=texts,
        setup="\n".join(setup) or "pass",
        global_setup=global_setup,
        language=find_language(language),
        threads=threads,
    )
    with use_store(place) if save else contextlib.nullcontext() as store:
        try:
            run = measure(statements, store=store, tags=tags)
        except CaseFailedError as error:
            click.echo(f"torchmark: {error}\n{error.traceback}".rstrip(), err=True)
            sys.exit(ExitCode.CASE_FAILED)
        except TorchmarkError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's statement raises
            click.echo(f"torchmark: {failure_message(error)}", err=True)
            sys.exit(ExitCode.CASE_FAILED)
    click.echo(render(run, "json" if as_json else "text", columns()), nl=False)

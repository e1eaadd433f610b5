"""`torchmark time`: statements measured together, like `python -m timeit`, for torch."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from torchmark.cli.statements import report_statements, statement_options
from torchmark.commands.statements import Statements, time_statements


@click.command("time")
@statement_options
@click.option(
    "--global-setup",
    default="",
    help="Run once before all; its names are global. C++: includes and functions.",
)
@click.option(
    "--language",
    type=click.Choice(["py", "cpp"]),
    default="py",
    show_default=True,
    help="C++ is compiled first, all statements together; the setup runs for every sample.",
)
@click.option(
    "--min-run-time",
    default=0.2,
    show_default=True,
    help="Seconds of samples per statement; a noisy machine takes up to ten times as long.",
)
@click.option("--description", help="Title of the column.")
@click.option("--json", "as_json", is_flag=True, help="Print every sample as JSON.")
def command(min_run_time: float, description: str | None, as_json: bool, **options: Any) -> None:
    """Time one statement, or compare several.

    Several statements are measured in rounds, one short block of each in random order, so that
    a busy machine slows all of them alike. torch is imported for you. They run in this process:
    a crash or a hang ends it; `torchmark run` gives every case its own.

    \b
    torchmark time "x + x" --setup "x = torch.ones(64)"
    torchmark time "x.sum(0)" "torch.sum(x, 0)" "x.T.sum(1)" -s "x = torch.ones(64, 64)"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are

    def measure(statements: Statements, **keeping: Any) -> Any:
        # What the statements print must not mix with the result.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            return time_statements(
                statements, min_run_time=min_run_time, description=description, **keeping
            )

    report_statements(measure, as_json=as_json, **options)

"""`torchmark count`: instructions per run, where they go, and how statements differ."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.progress import Progress
from torchmark.cli.statements import report_statements, statement_options
from torchmark.commands.statements import Statements, count_statements

if TYPE_CHECKING:
    from torchmark.model.run import Run

_USUAL_START = "25 to 60 s"


@click.command("count")
@statement_options
@click.option("--global-setup", default="", help="C++ only: includes and functions.")
@click.option("--language", type=click.Choice(["py", "cpp"]), default="py", show_default=True)
@click.option("--number", default=100, show_default=True, help="Count this many runs.")
@click.option("--functions", default=10, show_default=True, help="Show this many functions.")
@click.option(
    "--timeout", default=300.0, show_default=True, help="Stop a statement after so many seconds."
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts of all functions as JSON.")
def command(number: int, functions: int, timeout: float, as_json: bool, **options: Any) -> None:
    """Count the instructions of one statement, or compare several.

    The count is exact: the same statement gives the same number again. Needs valgrind.

    \b
    torchmark count "x + x" --setup "x = torch.ones(64)"
    torchmark count "x.sum(0)" "torch.sum(x, 0)" -s "x = torch.ones(64, 64)"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are

    def measure(statements: Statements, **keeping: Any) -> Run:
        start = time.monotonic()
        with Progress(shows_lines=True) as progress:

            def tell(stage: str) -> None:
                seconds = time.monotonic() - start
                progress.tell(f"starting the counter, {_USUAL_START}: {stage} ({seconds:.0f} s)")

            return count_statements(
                statements, number=number, functions=functions, timeout=timeout,
                progress=tell, **keeping,
            )  # fmt: skip

    report_statements(measure, as_json=as_json, **options)

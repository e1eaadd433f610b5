"""`torchmark run`: for now, four ways to write a batched dot product, over several shapes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.results import colours_wanted, doubt_lines
from torchmark.compare import Compare
from torchmark.suites import batched_dot
from torchmark.together import measure_together

if TYPE_CHECKING:
    from torchmark.model.measurement import Measurement


@click.command("run")
def command() -> None:
    """Compare real implementations of a batched dot product over several shapes.

    The four implementations of each shape are measured in rounds, in random order. What was
    measured before Ctrl-C is shown.
    """
    results: list[Measurement] = []
    shapes = len(batched_dot.SHAPES)
    click.echo(f"Four ways to write a batched dot product, {shapes} shapes, 1 thread:", err=True)
    try:
        for number, timers in enumerate(batched_dot.groups(), start=1):
            click.echo(f"  {number} of {shapes}: {timers[0].task_spec.description}", err=True)
            results += measure_together(timers)
    except KeyboardInterrupt:
        if results:
            click.echo(_table(results))
        click.echo(f"interrupted after {len(results)} results", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    click.echo(_table(results))


def _table(results: list[Measurement]) -> str:
    compare = Compare(results)
    if colours_wanted():
        compare.colorize()
    return "\n".join([f"\n{compare}", *doubt_lines(results)])

"""Whether instructions can be counted here: asked before anything is begun."""

from __future__ import annotations

import platform

import click

from torchmark.engine.zygote.process import valgrind
from torchmark.errors import MissingToolError
from torchmark_probe.zygote.valgrind import COUNTABLE_MACHINES


def check_that_counting_works() -> None:
    """Who asks for counts is told at once that there can be none."""
    valgrind()
    if platform.machine() not in COUNTABLE_MACHINES:
        raise MissingToolError(
            f"counting instructions works on {' and '.join(COUNTABLE_MACHINES)}, and this is "
            f"{platform.machine()}; use --time"
        )


def counting_works() -> bool:
    """A machine without valgrind still times, and says so."""
    try:
        check_that_counting_works()
    except MissingToolError as error:
        click.echo(f"torchmark: times only: {error}", err=True)
        return False
    return True

"""`torchmark overrides`: what it costs that torch's functions can be overridden."""

from __future__ import annotations

import click

from torchmark.cli.lazy_group import LazyGroup

_COMMANDS = {
    "ladder": "Run the suite here, and show what each kind of input costs.",
}


@click.group(
    "overrides",
    cls=LazyGroup,
    helps=_COMMANDS,
    modules="torchmark.cli.overrides_{}",
    epilog="torchmark overrides COMMAND --help tells more.",
)
def command() -> None:
    """Measure what __torch_function__, __torch_dispatch__ and modes cost a call."""

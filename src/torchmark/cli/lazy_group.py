"""A group of commands that are imported when they are called, so that its help is quick."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """Finds a command, by the name `command`, in the module of its name."""

    def __init__(self, *, helps: Mapping[str, str], modules: str, **attributes: Any) -> None:
        """`helps` has a line for each command; `modules` a {} where a module has its name."""
        super().__init__(**attributes)
        self._helps = helps
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*self._helps]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self._helps:
            return None
        module = importlib.import_module(self._modules.format(cmd_name))
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([*self._helps.items()])

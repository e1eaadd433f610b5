"""A directive that shows every command's own help, so the page cannot disagree with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.testing import CliRunner
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from torchmark.cli import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx


class CommandHelp(SphinxDirective):
    """A section for each command, with what its `--help` prints."""

    def run(self) -> list[nodes.Node]:
        return [section_of(words) for words in command_names(cli)]


def command_names(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command and of those below it, in the order of its help."""
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            if not below.hidden:
                yield from command_names(below, (*words, name))


def section_of(words: tuple[str, ...]) -> nodes.section:
    title = " ".join(["torchmark", *words])
    done = CliRunner().invoke(cli, [*words, "--help"], terminal_width=80, prog_name="torchmark")
    assert done.exit_code == 0, done.output
    help_text = nodes.literal_block(done.output, done.output, language="text")
    return nodes.section("", nodes.title(title, title), help_text, ids=[nodes.make_id(title)])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}

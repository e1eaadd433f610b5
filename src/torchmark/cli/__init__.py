"""The command line: it parses arguments, calls the library and prints.

Only this package prints or exits. The module of a subcommand is imported when the subcommand is
called, so that `torchmark --help` is quick. For the same reason the one-line helps are here.
"""

from __future__ import annotations

import difflib
import errno
import importlib
import io
import os
import sys
import traceback

import click

from torchmark import __version__
from torchmark.cli.shell import ExitCode, code_of, echo, end_of, fail, heed_signals, message_of
from torchmark.errors import TorchmarkError

_COMMANDS = {
    "run": "Time the cases of suites and count their instructions, in Python and C++.",
    "list": "List the cases of suites.",
    "time": "Time one statement, or compare several, like python -m timeit.",
    "ab": "Compare two environments, or two statements, in alternating processes.",
    "count": "Count the instructions of one statement, or of several.",
    "flame": "Draw a flame graph of a case or a statement.",
    "capture": "Run a script and record every operator call in a trace.",
    "replay": "Measure the operators of a trace, and show which take the time.",
    "overrides": "Measure what __torch_function__, __torch_dispatch__ and modes cost.",
    "summary": "Show the operators of a trace by module, without running them.",
    "sweep": "Measure a model over input sizes: eager, torch.compile, ONNX Runtime.",
    "runs": "List stored runs.",
    "show": "Show a stored run: times, instructions, warnings, failures.",
    "compare": "Compare two stored runs case by case.",
    "history": "Show how cases developed over commits, and where they changed.",
    "check": "Judge a run against its history; fail if a case got worse.",
    "ci": "Say whether a pull request made a case slower; for CI.",
    "publish": "Write a static site of all stored runs.",
    "report": "Write one page for one or several stored runs.",
    "export": "Write a stored run as JSON, CSV, Markdown, text or HTML.",
    "tag": "Name a stored run.",
    "untag": "Remove a name from its run.",
    "rm": "Remove stored runs.",
    "schema": "Print the JSON Schema of the files that torchmark writes.",
    "doctor": "Check what torchmark finds on this machine, and what is missing.",
}

_MODULES = {
    **dict.fromkeys(["time", "count"], "statements"),
    **dict.fromkeys(["list", "summary", "doctor"], "inventory"),
    **dict.fromkeys(["runs", "show", "compare", "export", "schema"], "stored"),
    "report": "publish",
    **dict.fromkeys(["tag", "untag", "rm"], "tidying"),
}
"""The module of each command whose module has another name."""


def _turn_colors_off(_context: click.Context, _option: click.Parameter, value: bool) -> None:
    if value:
        os.environ["NO_COLOR"] = "1"


_NO_COLOR = click.Option(
    ["--no-color"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_turn_colors_off,
    help="Turn colors off, as the variable NO_COLOR does.",
)
"""An option of every command."""


class _LazyGroup(click.Group):
    """Imports the module of a command when it is called, and gets `<name>_command` from it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"torchmark.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        for each in (command, *getattr(command, "commands", {}).values()):
            if _NO_COLOR not in each.params:
                each.params.append(_NO_COLOR)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest similar names. click cannot: it knows only commands that were imported."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, _COMMANDS)
            remedy = "`torchmark --help` lists them."
            hint = f"Did you mean {' or '.join(near)}?" if near else remedy
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([*_COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`torchmark COMMAND --help` shows the options of a command. Without a command, "
    "torchmark runs `torchmark run`.",
    params=[_NO_COLOR],
)
@click.version_option(__version__, prog_name="torchmark")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Benchmark PyTorch code, compare two versions of it, and see how certain each answer is."""
    if ctx.invoked_subcommand is None:
        command = cli.get_command(ctx, "run")
        assert command is not None
        ctx.invoke(command)


def main() -> None:
    """Run the `torchmark` script. A mistake of the user gives one message and no traceback."""
    try:
        heed_signals()
        sys.exit(cli.main(prog_name="torchmark", standalone_mode=False) or 0)
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)  # it quotes what the user typed, so it is printed through `echo`
        echo(message.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as interrupt:
        fail(*end_of(interrupt))
    except TorchmarkError as error:
        fail(message_of(error), code_of(error))
    except OSError as error:
        if error.errno != errno.EPIPE:
            fail(f"cannot write the output: {error.strerror or error}", ExitCode.ENVIRONMENT)
        # The reader closed the pipe; flushing the rest at exit would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.PIPE_CLOSED)
    except Exception:  # 1, the exit code of Python, would mean that a regression was found
        echo(traceback.format_exc(), err=True)
        sys.exit(ExitCode.DEFECT)

"""The command line: a thin skin over the library, and the only place that prints or exits.

Subcommands are imported when they are called, so that `torchmark --help` is quick; their one-line
help stands here for the same reason.
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
    "run": "Time and count suites of benchmarks, in Python and C++.",
    "list": "Show what suites of benchmarks expand to.",
    "time": "Time statements, like python -m timeit, for torch.",
    "ab": "Compare two environments, or two statements, pair by pair.",
    "count": "Count the instructions of statements, exactly.",
    "flame": "Draw where the time of a case goes: a flame graph of the measured loop.",
    "capture": "Run a training script and write down every operator call that it makes.",
    "replay": "Run the operators of a captured model again, and say where the time goes.",
    "overrides": "Measure what __torch_function__ and its kin cost.",
    "summary": "Show the operators of a trace, by module, without running them.",
    "sweep": "Measure a model over input scales: eager, torch.compile, ONNX Runtime.",
    "runs": "List the runs of the store.",
    "show": "Show the results of a run: times, instructions, warnings, failures.",
    "compare": "Compare two runs case by case.",
    "export": "Write a run as JSON, CSV, Markdown or an HTML page.",
    "tag": "Give a run a name.",
    "untag": "Take a name from its run.",
    "rm": "Remove runs from the store.",
    "schema": "Print the JSON Schema of what torchmark writes.",
    "doctor": "Say what is on this machine and what each missing part would give.",
}

_MODULES = {
    **dict.fromkeys(["time", "count"], "statements"),
    **dict.fromkeys(["list", "summary", "doctor"], "inventory"),
    **dict.fromkeys(["runs", "show", "compare", "export", "schema"], "stored"),
    **dict.fromkeys(["tag", "untag", "rm"], "tidying"),
}
"""The module of a command, where it is not called like the command."""


class _LazyGroup(click.Group):
    """Finds `<name>_command` in the module of the command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"torchmark.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """click has no names to suggest, as commands are not imported before they are called."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, _COMMANDS)
            hint = f"Did you mean {' or '.join(near)}?" if near else "torchmark --help lists them."
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
    epilog="torchmark COMMAND --help tells more. Without a command it does what `run` does.",
)
@click.version_option(__version__, prog_name="torchmark")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Micro-benchmarks for PyTorch whose numbers can be believed on a noisy machine."""
    if ctx.invoked_subcommand is None:
        command = cli.get_command(ctx, "run")
        assert command is not None
        ctx.invoke(command)


def main() -> None:
    """What the `torchmark` script calls: a mistake of the user ends in one message, not a trace."""
    try:
        heed_signals()
        sys.exit(cli.main(prog_name="torchmark", standalone_mode=False) or 0)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)  # it repeats what was typed
        echo(said.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as interrupt:
        fail(*end_of(interrupt))
    except TorchmarkError as error:
        fail(message_of(error), code_of(error))
    except OSError as error:
        if error.errno != errno.EPIPE:
            fail(f"cannot write the output: {error}", ExitCode.ENVIRONMENT)
        # The reader of a pipe has seen enough; what is left unwritten must not be flushed at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.PIPE_CLOSED)
    except Exception:  # Python's own code for a traceback would say that a regression was found
        echo(traceback.format_exc(), err=True)
        sys.exit(ExitCode.DEFECT)

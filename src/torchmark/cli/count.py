"""`torchmark count`: instructions per run, where they go, and how statements differ."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.messages import failure_message
from torchmark.cli.statements import statement_names
from torchmark.errors import CaseFailedError, TorchmarkError
from torchmark.timers import Timer
from torchmark.together import count_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.function_counts import FunctionCounts

_USUAL_START = "25 to 60 s"


@click.command("count")
@click.argument("statements", metavar="STMT [STMT…]", nargs=-1, required=True)
@click.option("-s", "--setup", multiple=True, help="Run before each statement; may be repeated.")
@click.option("--global-setup", default="", help="C++ only: includes and functions.")
@click.option("--language", type=click.Choice(["py", "cpp"]), default="py", show_default=True)
@click.option("--number", default=100, show_default=True, help="Runs that are counted.")
@click.option("--threads", default=1, show_default=True, help="Threads that torch may use.")
@click.option("--functions", default=10, show_default=True, help="Functions that are shown.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds for one statement.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts of all functions as JSON.")
def command(
    statements: tuple[str, ...],
    setup: tuple[str, ...],
    global_setup: str,
    language: str,
    number: int,
    threads: int,
    functions: int,
    timeout: float,
    as_json: bool,
) -> None:
    """Count the instructions of one statement, or compare several.

    The count is exact: the same statement gives the same number again. Needs valgrind.

    \b
    torchmark count "x + x" --setup "x = torch.ones(64)"
    torchmark count "x.sum(0)" "torch.sum(x, 0)" -s "x = torch.ones(64, 64)"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    names = statement_names(statements)
    try:
        timers = [
            Timer(
                statement,
                setup="\n".join(setup) or "pass",
                global_setup=global_setup,
                language=language,
                sub_label=name,
                num_threads=threads,
            )
            for statement, name in zip(statements, names, strict=True)
        ]
        with _Progress() as progress:
            stats = count_together(timers, number, progress=progress.tell, time_limit=timeout)
    except CaseFailedError as error:
        click.echo(f"torchmark: {error}\n{error.traceback}".rstrip(), err=True)
        sys.exit(ExitCode.CASE_FAILED)
    except TorchmarkError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's statement raises
        click.echo(f"torchmark: {failure_message(error)}", err=True)
        sys.exit(ExitCode.CASE_FAILED)
    click.echo(_json(stats) if as_json else _text(names, stats, functions))


class _Progress:
    """One line on a terminal that says what the start is doing and for how long already."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and sys.stderr.isatty():
            click.echo("\r\033[K", nl=False, err=True)

    def tell(self, stage: str) -> None:
        seconds = time.monotonic() - self._start
        line = f"starting the counter, {_USUAL_START}: {stage} ({seconds:.0f} s)"
        self._shown = True
        if sys.stderr.isatty():
            click.echo(f"\r\033[K{line}", nl=False, err=True)
        else:
            click.echo(line, err=True)


def per_run(stats: CallgrindStats) -> float:
    """Instructions of one run, the loop's own cost taken off."""
    return stats.without_loop().sum() / stats.number_per_run


def _text(names: Sequence[str], stats: Sequence[CallgrindStats], functions: int) -> str:
    width = max(len(name) for name in names)
    lines = ["Instructions per run, without the loop:"]
    first = per_run(stats[0])
    for name, stat in zip(names, stats, strict=True):
        count = per_run(stat)
        line = f"  {name.ljust(width)}  {count:>14,.1f}"
        if stat is not stats[0]:
            line += f"  {count - first:>+14,.1f}  {count / first - 1:+8.2%}" if first else ""
        lines.append(line)
    lines += ["", *_functions(names[0], stats[0].without_loop(), stats[0], functions)]
    for name, stat in zip(names[1:], stats[1:], strict=True):
        difference = stat.delta(stats[0])
        lines += ["", *_functions(f"{name} minus {names[0]}", difference, stat, functions)]
    return "\n".join(lines)


def _functions(
    title: str, counts: FunctionCounts, stat: CallgrindStats, functions: int
) -> list[str]:
    """The functions that cost most, or that differ most, per run."""
    largest = sorted(counts, key=lambda item: -abs(item.count))[:functions]
    lines = [f"{title}, by function:"]
    lines += [
        _fitting(f"  {item.count / stat.number_per_run:>12,.1f}  {_short(item.function)}")
        for item in largest
    ]
    rest = len(counts) - len(largest)
    return [*lines, f"  … and {rest} more"] if rest > 0 else lines


def _short(function: str) -> str:
    """Without directories: file, function and library are enough for a person."""
    file, colon, rest = function.partition(":")
    name, bracket, library = rest.rpartition(" [")
    if not bracket:
        name, library = rest, ""
    file = file.rpartition("/")[2]
    named = name if file == "???" else f"{file}{colon}{name}"
    return f"{named} [{library.rpartition('/')[2]}" if bracket else named


def _fitting(line: str) -> str:
    """Cut to the width of a terminal; a pipe gets the whole line."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(line)
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _json(stats: Sequence[CallgrindStats]) -> str:
    record: dict[str, Any] = {
        "torchmark": "counts",
        "version": 1,
        "counts": [
            {"instructions_per_run": per_run(stat), "stats": json.loads(stat.to_json())}
            for stat in stats
        ],
    }
    return json.dumps(record, indent=2, allow_nan=False)

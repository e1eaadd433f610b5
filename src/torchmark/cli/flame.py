"""`torchmark flame`: where the time, or the instructions, of one statement go."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from torchmark.arguments import check_count
from torchmark.cli.abilities import check_that_counting_works
from torchmark.cli.files import check_writable
from torchmark.cli.following import heed_signals
from torchmark.cli.one_case import find_case
from torchmark.cli.progress import Progress
from torchmark.commands.flame import (
    ENDINGS,
    Profiling,
    check_ending,
    check_possible,
    collect_stacks,
    read_stacks,
    render_difference,
    render_flame,
)
from torchmark.commands.statements import name_statements
from torchmark.commands.suites import default_suites, installed_facts, load_suites
from torchmark.define.suites import SHIPPED
from torchmark.define.suites.loading import cases_of
from torchmark.engine.files import write_whole
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchmark.commands.flame import StatementStacks

_Base: TypeAlias = Case | Path | None
"""What the case is compared with: another one, a file of stacks, or nothing."""

_LONGEST_NAME = 60
"""Characters of a file name that we make up."""


@click.command("flame")
@click.argument("words", metavar="[CASE]", nargs=-1)
@click.option("--stmt", metavar="S", help="A statement in Python, in place of a case.")
@click.option("-s", "--setup", multiple=True, metavar="S", help="Run before it; may be repeated.")
@click.option("--native", is_flag=True, help="Show the frames of C and C++ too.")
@click.option("--instructions", is_flag=True, help="Count with callgrind: exact, needs valgrind.")
@click.option(
    "--against",
    metavar="X",
    help="Draw the difference from X: another case, another statement, or a .folded file.",
)
@click.option("--suite", "suites", multiple=True, metavar="SUITE", help="Where cases are found.")
@click.option("--seconds", default=3, show_default=True, help="How long the loop is looked at.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"The ending decides the format: {', '.join(ENDINGS)}.  [default: CASE.svg]",
)
def command(
    words: tuple[str, ...],
    stmt: str | None,
    setup: tuple[str, ...],
    native: bool,
    instructions: bool,
    against: str | None,
    suites: tuple[str, ...],
    seconds: int,
    output: Path | None,
) -> None:
    """Draw a flame graph of the measured loop alone, without the import of torch.

    CASE are words that one case alone has, as `torchmark list` shows them. Times are those of one
    run: frames that are twice as wide take twice as long. With --against what grew is red and
    what shrank is blue.

    \b
    torchmark flame torch.add SubTensor --native
    torchmark flame --stmt "x + x" --setup "x = torch.ones(9)" --instructions -o add.svg
    torchmark flame torch.add SubTensor --against "torch.add Tensor" -o cost.svg
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    how = Profiling(
        native=native, instructions=instructions, seconds=check_count("--seconds", seconds)
    )
    if output is not None:
        check_ending(output, is_difference=against is not None)
    _check_that_one_is_given(words, stmt, setup, suites)
    if stmt is None:
        case, base = _cases_meant(words, against, suites)
    else:
        case, base = _statements_meant(stmt, "\n".join(setup) or "pass", against)
    file = output or Path(f"{_file_name(case)}.svg")
    cases = [each for each in (case, base) if isinstance(each, Case)]
    check_possible(cases, how)
    check_writable([file])
    if instructions:
        check_that_counting_works()
    heed_signals()
    with Progress() as progress:
        read = [read_stacks(base)] if isinstance(base, Path) else []
        seen = [*collect_stacks(cases, how, lambda stage: progress.tell(stage.text)), *read]
        progress.tell(f"drawing {file.name}")
        write_whole(file, _content(file, seen, how.unit))
    click.echo(f"{file}: {'; against '.join(each.figures for each in seen)}")


def _content(file: Path, seen: list[StatementStacks], unit: str) -> bytes:
    if len(seen) == 1:
        return render_flame(file, seen[0], unit)
    branch, base = seen
    return render_difference(file, base, branch, unit)


def _check_that_one_is_given(
    words: tuple[str, ...], stmt: str | None, setup: tuple[str, ...], suites: tuple[str, ...]
) -> None:
    if not words and stmt is None:
        raise InvalidArgumentError(
            "say what is to be drawn: words of a case, as `torchmark list` shows it, or --stmt"
        )
    if stmt is not None and (words or suites):
        raise InvalidArgumentError("give either a case or --stmt, not both")
    if stmt is None and setup:
        raise InvalidArgumentError("--setup goes with --stmt; a case has its own")


def _cases_meant(
    words: tuple[str, ...], against: str | None, names: tuple[str, ...]
) -> tuple[Case, _Base]:
    names = names or (*default_suites(settings_for(Path.cwd())), *SHIPPED)
    loaded = load_suites(names)
    for suite in loaded:
        for failure in suite.failures:
            click.echo(f"torchmark: {failure}", err=True)
    cases = cases_of(loaded, facts=installed_facts())
    case = find_case(cases, " ".join(words))
    return case, _base(against, lambda other: find_case(cases, other))


def _statements_meant(stmt: str, setup: str, against: str | None) -> tuple[Case, _Base]:
    return _statement(stmt, setup), _base(against, lambda other: _statement(other, setup))


def _statement(stmt: str, setup: str) -> Case:
    return Case(label=tuple(name_statements([stmt])), stmt=stmt, setup=setup)


def _base(against: str | None, meant: Callable[[str], Case]) -> _Base:
    """What --against names: a file, if there is one of that name."""
    if against is None:
        return None
    return Path(against) if Path(against).is_file() else meant(against)


def _file_name(case: Case) -> str:
    """Of letters and digits, so that no shell minds it."""
    words = re.findall(r"\w+", case.name)
    return "-".join(words)[:_LONGEST_NAME] or "flame"

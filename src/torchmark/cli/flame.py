"""`torchmark flame`: show where the time, or the instructions, of one statement go.

A case can be given by words of its title. The words must match exactly one case.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from torchmark.arguments import check_count, check_positive
from torchmark.cli.display import StatusLine
from torchmark.cli.following import timeout_option
from torchmark.cli.shell import check_writable, echo, import_from_here, tell_written, warn
from torchmark.commands.flame import (
    ENDINGS,
    Profiling,
    check_ending,
    check_possible,
    collect_stacks,
    read_stacks,
    render_flame,
)
from torchmark.commands.planning import default_suites, installed_facts, load_suites
from torchmark.commands.statements import name_statements
from torchmark.define.selection import selected
from torchmark.define.suites import SHIPPED
from torchmark.define.suites.loading import cases_of
from torchmark.errors import AmbiguousCaseError, InvalidArgumentError, UnknownCaseError
from torchmark.files import write_whole
from torchmark.model.case import Case
from torchmark.model.run import TIME_LIMIT
from torchmark.settings import settings_for

_LONGEST_NAME = 60
"""Characters of a generated file name."""

_SEPARATORS = re.compile(r"[\s,/·]+")
"""Between the words of a case's title."""

_LISTING = f"torchmark list {' '.join(SHIPPED)}"
"""Lists the cases that are found without --suite, except those of the settings."""

_SHOWN = 10
"""Cases that a message lists; it gives the number of the others."""


@click.command("flame")
@click.argument("words", metavar="[CASE]", nargs=-1)
@click.option("--stmt", metavar="STMT", help="Python statement to draw, instead of a case.")
@click.option(
    "-s",
    "--setup",
    multiple=True,
    metavar="CODE",
    help="Run CODE before the statement of --stmt; may be repeated.",
)
@click.option("--native", is_flag=True, help="Also show C and C++ frames.")
@click.option(
    "--instructions",
    is_flag=True,
    help="Count instructions with callgrind instead of sampling; exact, needs valgrind.",
)
@click.option(
    "--against",
    metavar="X",
    help="Draw the difference from X: another case, another statement or a .folded file.",
)
@click.option(
    "--suite", "suites", multiple=True, metavar="SUITE", help="Suite of the case; may be repeated."
)
@click.option(
    "--seconds",
    default=3,
    show_default=True,
    metavar="SECONDS",
    help="Sample the running loop for this long.",
)
@timeout_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"File to write; its ending decides the format: {', '.join(ENDINGS)}.  "
    "[default: CASE.svg]",
)
def flame_command(
    words: tuple[str, ...],
    stmt: str | None,
    setup: tuple[str, ...],
    native: bool,
    instructions: bool,
    against: str | None,
    suites: tuple[str, ...],
    seconds: int,
    timeout: float | None,
    output: Path | None,
) -> None:
    """Draw a flame graph of a case or a statement.

    It shows the measured loop only, without the import of torch, the setup and the warm-up. CASE
    is one or more words that match exactly one case. Cases come from the suites of torchmark
    (listed by `torchmark list standard overrides`), those of your settings, or --suite. Each frame
    is as wide as its share of the time of one run. With --against, red frames take more time than
    in X, and blue frames take less.

    \b
    torchmark flame torch.add SubTensor --native
    torchmark flame --stmt "x + x" -s "x = torch.ones(9)" --instructions
    torchmark flame torch.add SubTensor --against "torch.add Tensor" -o cost.svg
    """
    import_from_here()
    how = Profiling(
        native=native,
        instructions=instructions,
        seconds=check_count("--seconds", seconds),
        timeout=TIME_LIMIT if timeout is None else check_positive("--timeout", timeout),
    )
    if output is not None:
        check_ending(output, is_difference=against is not None)
    _check_that_one_is_given(words, stmt, setup, suites)
    if stmt is None:
        wanted, find = " ".join(words), _look_into(suites)
    else:
        wanted, find = stmt, partial(_make_case, setup="\n".join(setup) or "pass")
    case = find(wanted)
    base: Case | Path | None = None
    if against is not None:
        base = Path(against) if _is_file(against) else find(against)
    file = output or Path(f"{_file_name(case)}.svg")
    cases = [each for each in (case, base) if isinstance(each, Case)]
    check_possible(cases, how)
    check_writable([file])
    with StatusLine() as line:
        read = [read_stacks(base)] if isinstance(base, Path) else []
        seen = [*collect_stacks(cases, how, line.tell), *read]
        line.tell(f"drawing {file.name}")
        write_whole(file, render_flame(file, seen, how.unit))
    tell_written(file)
    echo(f"{file}: {'; against '.join(each.figures for each in seen)}")
    if seen[0].has_one_frame and not (native or instructions):
        warn("the graph has only one frame: the time is spent in C or C++; add --native to show it")


def _check_that_one_is_given(
    words: tuple[str, ...], stmt: str | None, setup: tuple[str, ...], suites: tuple[str, ...]
) -> None:
    if not words and stmt is None:
        raise InvalidArgumentError(
            f"say what to draw: give the words of a case (`{_LISTING}` shows all) or --stmt"
        )
    if stmt is not None and (words or suites):
        raise InvalidArgumentError("give either a case or --stmt, not both")
    if stmt is None and setup:
        raise InvalidArgumentError("--setup needs --stmt; a case has its own setup")


def _look_into(names: tuple[str, ...]) -> Callable[[str], Case]:
    """Return a function that finds a case of these suites by its words."""
    loaded = load_suites(names or (*default_suites(settings_for(Path.cwd())), *SHIPPED))
    for suite in loaded:
        for failure in suite.failures:
            warn(str(failure))
    listing = shlex.join(["torchmark", "list", *names]) if names else _LISTING
    return partial(find_case, cases_of(loaded, facts=installed_facts()), listing=listing)


def _is_file(against: str) -> bool:
    """Whether `--against` names a file with stacks. If its name says so, it must exist."""
    file = Path(against)
    if file.suffix == ".folded" and not file.exists():
        raise InvalidArgumentError(f"--against: there is no file {file}")
    return file.is_file()


def _make_case(stmt: str, setup: str) -> Case:
    return Case(label=tuple(name_statements([stmt])), stmt=stmt, setup=setup)


def _file_name(case: Case) -> str:
    """Only letters, digits and hyphens, so that no shell needs quotes."""
    words = re.findall(r"\w+", case.name)
    return "-".join(words)[:_LONGEST_NAME] or "flame"


def find_case(cases: Sequence[Case], words: str, *, listing: str = _LISTING) -> Case:
    """The case with this id, title or name, or the only case that matches the words.

    Whole words of the title are tried first, then `words` as a pattern, as in `-k`.

    >>> from torchmark.model.case import Case
    >>> cases = [Case(label=("add", kind), stmt="x") for kind in ("Tensor", "SubTensor")]
    >>> find_case(cases, "add tensor").name, find_case(cases, "sub").name
    ('add / Tensor', 'add / SubTensor')
    """
    wanted = words.strip().lower()
    found = (
        [case for case in cases if wanted in (case.id, case.title.lower(), case.name.lower())]
        or [case for case in cases if set(wanted.split()) <= _words_of(case)]
        or list(selected(cases, words))
    )
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousCaseError(
            f"{len(found)} cases match {words!r}; give more words, or an id:\n" + _listed(found)
        )
    near = _near(cases, wanted)
    hint = f"; did you mean:\n{_listed(near)}" if near else ""
    raise UnknownCaseError(
        f"no case matches {words!r}; `{listing}` lists the cases of the suites{hint}"
    )


def _words_of(case: Case) -> set[str]:
    return set(_SEPARATORS.split(case.title.lower()))


def _near(cases: Sequence[Case], wanted: str) -> list[Case]:
    """The cases with a word that is similar to an unknown word of `wanted`."""
    words_of = {case.id: _words_of(case) for case in cases}
    known = set[str]().union(*words_of.values())
    strange = [word for word in wanted.split() if not any(word in each for each in known)]
    meant = {
        near for word in strange for near in difflib.get_close_matches(word, known, cutoff=0.7)
    }
    return [case for case in cases if meant & words_of[case.id]]


def _listed(cases: Sequence[Case]) -> str:
    lines = [f"    {case.id}  {case.title}" for case in cases[:_SHOWN]]
    more = len(cases) - _SHOWN
    return "\n".join([*lines, *([f"    … and {more} more"] if more > 0 else [])])

"""`torchmark flame`: where the time, or the instructions, of one statement go."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from torchmark.arguments import checked_count
from torchmark.cli.abilities import check_that_counting_works
from torchmark.cli.files import check_writable
from torchmark.cli.flame_files import ENDINGS, check_ending, difference_file, flame_file
from torchmark.cli.list import installed
from torchmark.cli.one_case import case_meant
from torchmark.cli.progress import Progress
from torchmark.cli.running import heed_signals
from torchmark.cli.statements import statement_names
from torchmark.cli.suite_names import default_suites, let_cases_import_what_lies_beside
from torchmark.define.suites import SHIPPED
from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.engine.counted_stacks import UNIT as COUNTED_UNIT
from torchmark.engine.counted_stacks import counted_stacks
from torchmark.engine.models import Models
from torchmark.engine.preparing import prepared
from torchmark.engine.sampling_profiler import UNIT as SAMPLED_UNIT
from torchmark.engine.sampling_profiler import py_spy, record
from torchmark.engine.whole_files import write_whole
from torchmark.engine.workers import Workers
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.flame.stacks import Stack, parsed
from torchmark.model.case import Case
from torchmark.model.language import Language
from torchmark.report.figures import seconds_text
from torchmark.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.engine.zygote.cases import NativeCase, PythonCase

_Base: TypeAlias = Case | Path | None
"""What the case is compared with: another one, a file of stacks, or nothing."""

_LONGEST_NAME = 60
"""Characters of a file name that we make up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is drawn of one statement."""

    name: str
    """The title of the case, or the name of the file."""

    stacks: Sequence[Stack]
    amount: str
    """What all of it comes to."""

    note: str = ""
    """How it was seen."""

    @property
    def figures(self) -> str:
        return f"{self.amount}, {self.note}" if self.note else self.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How statements are looked at."""

    native: bool
    instructions: bool
    seconds: int

    @property
    def unit(self) -> str:
        return COUNTED_UNIT if self.instructions else SAMPLED_UNIT


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
    way = _Way(
        native=native, instructions=instructions, seconds=checked_count("--seconds", seconds)
    )
    if output is not None:
        check_ending(output, is_difference=against is not None)
    _check_that_one_is_given(words, stmt, setup, suites)
    if stmt is None:
        case, base = _cases_meant(words, against, suites)
    else:
        case, base = _statements_meant(stmt, "\n".join(setup) or "pass", against)
    file = output or Path(f"{_file_name(case)}.svg")
    _check(way, case, base, file)
    heed_signals()
    with Progress() as progress:
        seen = _seen(case, base, way, progress)
        progress.tell(f"drawing {file.name}")
        write_whole(file, _content(file, seen, way.unit))
    click.echo(f"{file}: {'; against '.join(each.figures for each in seen)}")


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
    loaded = [load_suite(name) for name in dict.fromkeys(names)]
    for suite in loaded:
        for failure in suite.failures:
            click.echo(f"torchmark: {failure}", err=True)
    let_cases_import_what_lies_beside(names)
    cases = cases_of(loaded, facts=installed())
    case = case_meant(cases, " ".join(words))
    return case, _base(against, lambda other: case_meant(cases, other))


def _statements_meant(stmt: str, setup: str, against: str | None) -> tuple[Case, _Base]:
    return _statement(stmt, setup), _base(against, lambda other: _statement(other, setup))


def _statement(stmt: str, setup: str) -> Case:
    return Case(label=tuple(statement_names([stmt])), stmt=stmt, setup=setup)


def _base(against: str | None, meant: Callable[[str], Case]) -> _Base:
    """What --against names: a file, if there is one of that name."""
    if against is None:
        return None
    return Path(against) if Path(against).is_file() else meant(against)


def _check(way: _Way, case: Case, base: _Base, file: Path) -> None:
    """What can be known to fail before anything is started."""
    cases = [each for each in (case, base) if isinstance(each, Case)]
    for each in cases:
        if each.skip is not None:
            raise InvalidArgumentError(f"{each.title} is left out here: {each.skip}")
        if each.language is Language.CPP and not (way.native or way.instructions):
            raise InvalidArgumentError(
                f"{each.title}: nothing of C++ is seen without --native or --instructions"
            )
    check_writable([file])
    if way.instructions:
        check_that_counting_works()
    else:
        py_spy()


def _seen(case: Case, base: _Base, way: _Way, progress: Progress) -> list[_Seen]:
    """What there is to draw: of the case, and of what it is compared with."""
    cases = [case, *([base] if isinstance(base, Case) else [])]
    read = [_read(base)] if isinstance(base, Path) else []
    with contextlib.closing(Workers()) as workers:
        models = Models(workers, cores=(), kept=None, time_limit=TIME_LIMIT)
        with contextlib.closing(models):
            ready = {
                each.id: what
                for each, what in prepared(cases, models, units_at_once=1, stage=progress.stage)
            }
            seen = [_seen_in(workers, each, ready[each.id], way, progress) for each in cases]
    return [*seen, *read]


def _seen_in(
    workers: Workers,
    case: Case,
    ready: PythonCase | NativeCase | TorchmarkError,
    way: _Way,
    progress: Progress,
) -> _Seen:
    if isinstance(ready, TorchmarkError):
        raise ready
    progress.tell("importing torch")
    zygote = workers.started(case.num_threads, under_callgrind=False)
    if way.instructions:
        zygote.run(ready)  # what fails does so in seconds here
        progress.tell("starting the counter, 25 to 60 s")
        zygote = workers.started(case.num_threads, under_callgrind=True)
        progress.tell(f"counting {case.name}")
        counted = counted_stacks(zygote, ready)
        amount = f"{counted.instructions:,.0f} instructions a run"
        return _Seen(name=case.title, stacks=counted.stacks, amount=amount)
    progress.tell(f"looking at {case.name} for {way.seconds} s")
    recording = record(zygote, ready, seconds=way.seconds, native=way.native)
    return _Seen(
        name=case.title,
        stacks=recording.per_run(),
        amount=f"{seconds_text(recording.seconds_per_run)} a run",
        note=f"{recording.samples} samples, {100 * recording.share_inside:.1f} % inside the loop",
    )


def _read(file: Path) -> _Seen:
    try:
        stacks = parsed(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{file} cannot be read as folded stacks: {error}") from error
    return _Seen(name=file.name, stacks=stacks, amount=str(file))


def _content(file: Path, seen: list[_Seen], unit: str) -> bytes:
    drawn = seen[0]
    if len(seen) == 1:
        return flame_file(file, drawn.stacks, title=drawn.name, unit=unit, note=drawn.note)
    base = seen[1]
    return difference_file(
        file,
        base.stacks,
        drawn.stacks,
        title=f"{drawn.name} against {base.name}",
        unit=unit,
        note="; against ".join(filter(None, (drawn.note, base.note))),
    )


def _file_name(case: Case) -> str:
    """Of letters and digits, so that no shell minds it."""
    words = re.findall(r"\w+", case.name)
    return "-".join(words)[:_LONGEST_NAME] or "flame"

"""`torchmark flame`: collect the stacks of one statement or two, and draw them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchmark.engine.counting import STACKS_UNIT as COUNTED_UNIT
from torchmark.engine.counting import counted_stacks
from torchmark.engine.preparing import Models, prepare_cases
from torchmark.engine.sampling_profiler import UNIT as SAMPLED_UNIT
from torchmark.engine.sampling_profiler import py_spy, record
from torchmark.engine.under_test import Workers, check_counting
from torchmark.engine.zygote.cases import NativeCase, PythonCase
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.flame.stacks import Stack, fold_stacks, parse_stacks, render_speedscope
from torchmark.flame.svg import difference_svg, flame_svg, png_of
from torchmark.model.case import Case, Language
from torchmark.model.run import TIME_LIMIT
from torchmark.report.figures import seconds_text

_PICTURES = (".svg", ".png")
_TEXTS = (".folded", ".txt", ".json")
ENDINGS = (*_PICTURES, *_TEXTS)
"""The endings of files that a flame graph can be written to. The ending decides the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiling:
    """How statements are profiled."""

    native: bool = False
    """Whether frames of C and C++ are shown too."""

    instructions: bool = False
    """Whether callgrind counts instructions, instead of py-spy taking samples."""

    seconds: int = 3
    """How long the loop is sampled."""

    timeout: float = TIME_LIMIT
    """Seconds after which a case must be warm, or counted."""

    @property
    def unit(self) -> str:
        return COUNTED_UNIT if self.instructions else SAMPLED_UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementStacks:
    """The stacks of one statement, for one run of it."""

    name: str
    """The title of the case, or the name of the file."""

    stacks: Sequence[Stack]
    amount: str
    """The time or the instructions of one run, as text."""

    note: str = ""
    """How many samples there are, as text; empty for counts."""

    @property
    def figures(self) -> str:
        return f"{self.amount}, {self.note}" if self.note else self.amount

    @property
    def has_one_frame(self) -> bool:
        """Whether the graph shows nothing below the statement itself."""
        return len({frame for stack in self.stacks for frame in stack.frames}) == 1


def check_possible(cases: Sequence[Case], how: Profiling) -> None:
    """Raise for mistakes that can be found before anything is started."""
    for each in cases:
        if each.skip is not None:
            raise InvalidArgumentError(f"{each.title} is skipped here: {each.skip}")
        if each.language is Language.CPP and not (how.native or how.instructions):
            raise InvalidArgumentError(
                f"{each.title} is a C++ case; add --native or --instructions to draw it"
            )
    if how.instructions:
        check_counting()
    else:
        py_spy()


def collect_stacks(
    cases: Sequence[Case], how: Profiling, progress: Callable[[str], None]
) -> list[StatementStacks]:
    """The stacks of every case, one case after the other."""

    @contextlib.contextmanager
    def tell(text: str) -> Iterator[None]:
        progress(text)
        yield

    with contextlib.closing(Workers()) as workers:
        models = Models(workers, cores=(), kept=None, time_limit=how.timeout)
        with contextlib.closing(models):
            ready = {
                each.id: what
                for each, what in prepare_cases(cases, models, units_at_once=1, stage=tell)
            }
            return [_stacks_of(workers, each, ready[each.id], how, progress) for each in cases]


def _stacks_of(
    workers: Workers,
    case: Case,
    ready: PythonCase | NativeCase | TorchmarkError,
    how: Profiling,
    progress: Callable[[str], None],
) -> StatementStacks:
    if isinstance(ready, TorchmarkError):
        raise ready
    progress("importing torch")
    zygote = workers.start(case.num_threads, under_callgrind=False)
    if how.instructions:
        zygote.run(ready, time_limit=how.timeout)  # a failing case fails here, in seconds
        progress("starting callgrind, which takes 25 to 60 s")
        zygote = workers.start(case.num_threads, under_callgrind=True)
        progress(f"counting {case.name}")
        stacks, instructions = counted_stacks(zygote, ready, time_limit=how.timeout)
        amount = f"{instructions:,.0f} instructions a run"
        return StatementStacks(name=case.title, stacks=stacks, amount=amount)
    progress(f"sampling {case.name} for {how.seconds} s")
    recording = record(
        zygote, ready, seconds=how.seconds, native=how.native, time_limit=how.timeout
    )
    return StatementStacks(
        name=case.title,
        stacks=recording.per_run(),
        amount=f"{seconds_text(recording.seconds_per_run)} a run",
        note=f"{recording.samples} samples, {100 * recording.share_inside:.1f} % inside the loop",
    )


def read_stacks(file: Path) -> StatementStacks:
    """The stacks in a file of folded stacks."""
    try:
        stacks = parse_stacks(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{file} cannot be read as folded stacks: {error}") from error
    return StatementStacks(name=file.name, stacks=stacks, amount=str(file))


def check_ending(file: Path, *, is_difference: bool) -> None:
    """Raise unless the file has an ending that can be written."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise InvalidArgumentError(
            f"{file}: the ending decides the format; use .svg or .png for a picture, .folded or "
            ".txt for folded stacks, or .json for speedscope"
        )
    if is_difference and ending not in _PICTURES:
        raise InvalidArgumentError(
            f"{file}: a difference is a picture, .svg or .png; to save stacks, run the command for "
            "each statement without --against"
        )


def render_flame(file: Path, seen: Sequence[StatementStacks], unit: str) -> bytes:
    """The content of the file: the stacks of one statement, or the difference between two.

    In a difference, red frames are those where the first statement takes more than the second.
    """
    branch, *bases = seen
    ending = file.suffix.lower()
    if bases:
        svg = difference_svg(
            bases[0].stacks,
            branch.stacks,
            title=f"{branch.name} against {bases[0].name}",
            unit=unit,
            note="; against ".join(filter(None, (branch.note, bases[0].note))),
            normalise=False,
        )
    elif ending == ".json":
        return render_speedscope(branch.stacks, name=f"{branch.name} ({unit})").encode()
    elif ending in _TEXTS:
        return fold_stacks(branch.stacks).encode()
    else:
        svg = flame_svg(branch.stacks, title=branch.name, unit=unit, note=branch.note)
    return png_of(svg) if ending == ".png" else svg.encode()

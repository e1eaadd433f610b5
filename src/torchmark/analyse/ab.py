"""A comparison of two environments, understood: ratios, verdicts, differences, and the control.

*Times* are judged by pairs (see `torchmark.analyse.pairs`), all cases of a comparison together.

*Counts* are exact where both environments lay out their memory alike. Where they do not, the same
work takes a few instructions more or fewer, so a case is counted in several layouts; it has
changed if the counts of B lie further from those of A than those of either lie apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from torchmark.analyse.instructions import counted_its_loop
from torchmark.analyse.pairs import FEWEST_PAIRS, Verdict, effect_in, effect_of, verdicts_of
from torchmark.analyse.run_differences import CountVerdict
from torchmark.model.result import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.pairs import PairEffect
    from torchmark.model.ab_record import Compared, Comparison, PairedCounts, PythonCalls
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRow:
    """The time of one case in both environments."""

    case: Case
    other: Case | None
    a_seconds: float
    """One run in A."""

    effect: PairEffect
    """The ratio of B to A with its interval, and the smallest change that could have been seen."""

    verdict: Verdict
    python: tuple[PythonCalls, ...]
    """Python functions behind a change, what grew most first."""

    @property
    def b_seconds(self) -> float:
        """One run in B: what the pairs say of it, since the two were not timed apart."""
        return self.a_seconds * self.effect.ratio


class FunctionDifference(NamedTuple):
    """What one function takes more in B, for one run of the case."""

    function: str
    instructions: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRow:
    """The instructions of one case in both environments, without what only layouts move."""

    case: Case
    other: Case | None
    a: Fraction
    """Of one run in A, in the middle of its layouts."""

    b: Fraction
    """Of one run in B."""

    spread: Fraction
    """How far the layouts of one environment lie apart, of the one where it is more."""

    verdict: CountVerdict
    functions: tuple[FunctionDifference, ...]
    """What differs by function, biggest first."""

    python: tuple[PythonCalls, ...]
    """Python functions behind a change, what grew most first."""

    @property
    def difference(self) -> Fraction:
        """Instructions that B takes more."""
        return self.b - self.a

    @property
    def share(self) -> float:
        """The difference as a share of A; infinite where A takes none."""
        if not self.difference:
            return 0.0
        return float(self.difference / self.a) if self.a else math.copysign(math.inf, self.b)


class Control(NamedTuple):
    """A against A, in the same run: how often would this set-up have cried wolf today?"""

    comparisons: int
    """Groups of pairs of A and A, as many in each as a verdict needs at least."""

    alarms: int
    """Of them, called a change."""

    pairs: int
    """Pairs of A and A in all."""

    deviation: float
    """The standard deviation of their log ratios around 0: how far one pair is off, as a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """All that a report says of a comparison; rows with the greatest changes come first."""

    comparison: Comparison
    times: tuple[TimeRow, ...]
    counts: tuple[CountRow, ...]
    gaps: tuple[Compared, ...]
    """What failed or was skipped."""

    control: Control | None
    """None where no times were taken."""

    @property
    def got_slower(self) -> bool:
        """Whether a case takes longer, or more instructions."""
        return any(row.verdict is Verdict.SLOWER for row in self.times) or any(
            row.verdict is CountVerdict.MORE for row in self.counts
        )

    @property
    def changed(self) -> bool:
        """Whether a case takes another time or another number of instructions."""
        return (
            self.got_slower
            or any(row.verdict is Verdict.FASTER for row in self.times)
            or any(row.verdict is CountVerdict.FEWER for row in self.counts)
        )

    @property
    def failures(self) -> tuple[Compared, ...]:
        return tuple(gap for gap in self.gaps if gap.status is Status.FAILED)


def understood(comparison: Comparison) -> Understood:
    """Judge all cases together."""
    timed = [each for each in comparison.results if each.times is not None]
    return Understood(
        comparison=comparison,
        times=tuple(sorted(_time_rows(timed), key=_time_order)),
        counts=tuple(
            sorted(
                (count_row(each) for each in comparison.results if each.counts is not None),
                key=_count_order,
            )
        ),
        gaps=tuple(each for each in comparison.results if each.status is not Status.DONE),
        control=_control(timed) if timed else None,
    )


def _time_rows(timed: Sequence[Compared]) -> list[TimeRow]:
    found = [each for each in timed if each.times and len(each.times.pairs) >= 2]
    effects = [effect_in(each.times) for each in found if each.times is not None]
    return [
        TimeRow(
            case=each.case,
            other=each.other,
            a_seconds=each.times.a_seconds,
            effect=effect,
            verdict=verdict,
            python=each.python,
        )
        for each, effect, verdict in zip(found, effects, verdicts_of(effects), strict=True)
        if each.times is not None
    ]


def _time_order(row: TimeRow) -> tuple[int, float]:
    """Changes first, the greatest of them at the top; then what is unclear, then the same."""
    place = {Verdict.SLOWER: 0, Verdict.FASTER: 0, Verdict.UNCLEAR: 1, Verdict.SAME: 2}
    return place[row.verdict], -abs(math.log(row.effect.ratio))


def _count_order(row: CountRow) -> tuple[bool, float]:
    return row.verdict not in (CountVerdict.MORE, CountVerdict.FEWER), -abs(row.share)


def count_row(each: Compared) -> CountRow:
    """One case by itself: counts need no others to be judged."""
    counts = each.counts
    assert counts is not None
    with_loop = not all(map(counted_its_loop, (*counts.a, *counts.b)))
    a = sorted(_denoised(stats, with_loop=with_loop) for stats in counts.a)
    b = sorted(_denoised(stats, with_loop=with_loop) for stats in counts.b)
    spread = max(a[-1] - a[0], b[-1] - b[0])
    return CountRow(
        case=each.case,
        other=each.other,
        a=a[len(a) // 2],
        b=b[len(b) // 2],
        spread=spread,
        verdict=_count_verdict(a, b, spread),
        functions=functions_that_differ(counts),
        python=each.python,
    )


def _count_verdict(a: Sequence[Fraction], b: Sequence[Fraction], spread: Fraction) -> CountVerdict:
    if b[0] - a[-1] > spread:
        return CountVerdict.MORE
    if a[0] - b[-1] > spread:
        return CountVerdict.FEWER
    return CountVerdict.SAME if a == b else CountVerdict.CLOSE


def _denoised(stats: CallgrindStats, *, with_loop: bool) -> Fraction:
    counts = stats.stmt_exclusive_stats if with_loop else stats.without_loop()
    return Fraction(counts.denoise().sum(), stats.number_per_run)


def functions_that_differ(counts: PairedCounts) -> tuple[FunctionDifference, ...]:
    """By function what one run takes more in B, biggest first; names without build folders."""
    first, second = counts.a[0].as_standardized(), counts.b[0].as_standardized()
    more: dict[str, Fraction] = {}
    for stats, sign in ((second, 1), (first, -1)):
        for count in stats.without_loop().denoise():
            share = Fraction(sign * count.count, stats.number_per_run)
            more[count.function] = more.get(count.function, Fraction(0)) + share
    found = [FunctionDifference(name, value) for name, value in more.items() if value]
    return tuple(sorted(found, key=lambda each: (-abs(each.instructions), each.function)))


def _control(timed: Sequence[Compared]) -> Control:
    """Judge turns of A and A as if each were a pair of A and B; one case alone has few of them."""
    turns = [turn for each in timed if each.times for turn in each.times.control]
    groups = [
        [(turn,) for turn in turns[start : start + FEWEST_PAIRS]]
        for start in range(0, len(turns) - FEWEST_PAIRS + 1, FEWEST_PAIRS)
    ]
    alarms = sum(
        verdicts_of([effect_of(group)])[0] in (Verdict.FASTER, Verdict.SLOWER) for group in groups
    )
    squares = [(sum(turn) / 2) ** 2 for turn in turns]
    deviation = math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0
    return Control(len(groups), alarms, len(turns), deviation)

"""Figures of an A/B comparison in words, the same in every format for people."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.ab import CountRow
from torchmark.analyse.pairs import FEWEST_PAIRS, Verdict
from torchmark.analyse.run_differences import CountVerdict
from torchmark.model.result import Metric, Status
from torchmark.report.ab_names import cut, full_name, names_of
from torchmark.report.figures import first_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from torchmark.analyse.ab import TimeRow, Understood
    from torchmark.analyse.pairs import PairEffect
    from torchmark.model.ab_record import Compared
    from torchmark.model.case import Case

CHANGED_TIMES = (Verdict.SLOWER, Verdict.FASTER)
CHANGED_COUNTS = (CountVerdict.MORE, CountVerdict.FEWER)

SEES = "sees: the smallest change that four trials in five would have found."
CLOSE = "close: not equal, but no further apart than layouts of memory move the count."

_NAMED = 3
"""Cases that are named with the reason that they share; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A function that does not do the same in both environments."""

    more: str
    """What it does more in B, with a sign."""

    unit: str
    """"instructions" or "bytecodes"."""

    function: str


def ratio_text(effect: PairEffect) -> str:
    """The ratio with its interval: `1.012 [1.009, 1.015]`."""
    low, high = effect.interval
    return f"{_ratio(effect.ratio)} [{_ratio(low)}, {_ratio(high)}]"


def sees_text(effect: PairEffect) -> str:
    share = effect.smallest
    if share >= 10:
        return "large"
    return f"{share * 100:.1f} %" if share < 0.0995 else f"{share * 100:.0f} %"


def change_text(ratio: float) -> str:
    """
    >>> change_text(1.019), change_text(0.5)
    ('+1.9 %', '-50.0 %')
    """
    return f"{(ratio - 1) * 100:+,.1f} %"


def share_text(share: float) -> str:
    return f"{share * 100:+,.2f} %" if math.isfinite(share) else "from none"


def instructions_text(count: Fraction, sign: str = "") -> str:
    """
    >>> from fractions import Fraction
    >>> instructions_text(Fraction(98331)), instructions_text(Fraction(3, 2), "+")
    ('98,331', '+1.50')
    """
    if count.denominator == 1:
        return f"{int(count):{sign},}"
    return f"{float(count):{sign},.{1 if abs(count) >= 100 else 2}f}"


def count_parts(row: CountRow) -> tuple[str, str, str]:
    """What B takes more, what that makes, and the share: `+1,204`, `98,331`, `(+1.24 %)`."""
    if not row.difference:
        return "0", instructions_text(row.b), ""
    more = instructions_text(row.difference, "+")
    return more, instructions_text(row.b), f"({share_text(row.share)})"


def count_text(row: CountRow) -> str:
    more, final, share = count_parts(row)
    return f"{more} → {final} {share}".rstrip()


def _with_share(more: Fraction, of: Fraction) -> str:
    """Instructions of a function, and what share of the whole case in A they are."""
    text = instructions_text(more, "+")
    return f"{text} ({share_text(float(more / of))})" if of else text


def functions_behind(row: TimeRow | CountRow) -> list[Behind]:
    """The functions behind a change, biggest first: native ones, then those in Python."""
    native: list[Behind] = []
    if isinstance(row, CountRow):
        native = [
            Behind(
                more=_with_share(each.instructions, row.a),
                unit="instructions",
                function=each.function,
            )
            for each in row.functions
        ]
    python = sorted(row.python, key=lambda each: (-abs(each.b - each.a), each.function))
    return native + [
        Behind(more=f"{each.b - each.a:+,}", unit="bytecodes", function=each.function)
        for each in python
    ]


def changed_times(comparison: Understood) -> list[TimeRow]:
    return [row for row in comparison.times if row.verdict in CHANGED_TIMES]


def changed_counts(comparison: Understood) -> list[CountRow]:
    return [row for row in comparison.counts if row.verdict in CHANGED_COUNTS]


def judged(comparison: Understood) -> list[tuple[Compared, TimeRow | CountRow | None]]:
    """Every result in the order of the suite with its row; None where there is no figure."""
    rows: dict[tuple[Metric, Case, Case | None], TimeRow | CountRow] = {
        **{(Metric.TIME, row.case, row.other): row for row in comparison.times},
        **{(Metric.INSTRUCTIONS, row.case, row.other): row for row in comparison.counts},
    }
    return [
        (each, rows.get((each.metric, each.case, each.other)) if _is_done(each) else None)
        for each in comparison.comparison.results
    ]


def heading(comparison: Understood) -> str:
    record = comparison.comparison
    state = "" if record.is_complete else ", interrupted: some cases are missing"
    return f"{_b(comparison)} beside {_a(comparison)}, {record.id}, {record.started}{state}"


def control_sentence(comparison: Understood) -> str:
    """What A against A gave; empty where no times were taken."""
    control, name = comparison.control, _a(comparison)
    if control is None:
        return ""
    if not control.pairs:
        return f"Control: no pairs of {name} and {name} were taken."
    lead = f"Control, {name} against {name}"
    off = f"one pair is off by {control.deviation * 100:.1f} %"
    if not control.comparisons:
        pairs = f"{control.pairs} pair{'s' if control.pairs > 1 else ''}"
        return f"{lead}: {pairs}, too few to judge (it takes {FEWEST_PAIRS}); {off}."
    several = "s" if control.comparisons > 1 else ""
    cases = f"{control.alarms} of {control.comparisons} comparison{several}"
    doubt = ", so small changes are in doubt" if control.alarms else ""
    return f"{lead}: {cases} called a change{doubt}; {off}."


def gap_texts(gaps: Iterable[Compared], otherwise: str = "no reason given") -> list[str]:
    """One text for each reason: the cases it concerns, and its first line."""
    found: dict[str, list[Compared]] = {}
    for gap in gaps:
        found.setdefault(first_line(gap.reason), []).append(gap)
    return [f"{_named(same)}: {reason or otherwise}" for reason, same in found.items()]


def failure_texts(comparison: Understood) -> list[str]:
    """One for each failed case; if it failed in timing and counting alike it is told once."""
    found: dict[tuple[str, str], list[Compared]] = {}
    for each in comparison.failures:
        found.setdefault((each.case.id, each.reason), []).append(each)
    return [text for same in found.values() for text in gap_texts(same)]


def skip_texts(comparison: Understood) -> list[str]:
    """One for each reason."""
    return gap_texts(gap for gap in comparison.gaps if gap.status is Status.SKIPPED)


def unjudged(comparison: Understood) -> list[Compared]:
    """Measured, but with fewer pairs than an interval needs."""
    return [
        each
        for each in comparison.comparison.results
        if each.times is not None and len(each.times.pairs) < 2
    ]


def summary(comparison: Understood) -> str:
    """All of it in one sentence."""
    times, counts = _times_told(comparison), _counts_told(comparison)
    if not comparison.times and not comparison.counts:
        parts = [f"{_b(comparison)} beside {_a(comparison)}: nothing was measured"]
    elif changed_times(comparison):
        parts = [f"{_b(comparison)} is {times}", f"instructions: {counts}" if counts else ""]
    elif changed_counts(comparison):
        takes = f"{_b(comparison)}, in instructions, takes {counts}"
        parts = [takes, f"times: {times}" if times else ""]
    else:
        parts = [_unchanged(comparison)]
        parts += [f"times: {times}" if times else "", f"instructions: {counts}" if counts else ""]
    return "; ".join(part for part in [*parts, *_rest(comparison)] if part) + "."


def _unchanged(comparison: Understood) -> str:
    is_clear = all(row.verdict is Verdict.SAME for row in comparison.times)
    limit = "" if is_clear else " as far as can be seen"
    return f"{_b(comparison)} beside {_a(comparison)}: no case has changed{limit}"


def _times_told(comparison: Understood) -> str:
    rows = comparison.times
    order = [verdict.value for verdict in (*CHANGED_TIMES, Verdict.SAME, Verdict.UNCLEAR)]
    extreme: dict[str, str] = {}
    for row, name in zip(rows, names_of(rows).names, strict=True):
        extreme.setdefault(row.verdict.value, f"{name}, {change_text(row.effect.ratio)}")
    return _told([row.verdict.value for row in rows], order, extreme)


def _counts_told(comparison: Understood) -> str:
    rows = comparison.counts
    order = [verdict.value for verdict in (*CHANGED_COUNTS, CountVerdict.SAME, CountVerdict.CLOSE)]
    extreme: dict[str, str] = {}
    for row, name in zip(rows, names_of(rows).names, strict=True):
        extreme.setdefault(row.verdict.value, f"{name}, {share_text(row.share)}")
    return _told([row.verdict.value for row in rows], order, extreme)


_EXTREME = {"slower": "worst", "more": "worst", "faster": "best", "fewer": "best"}


def _told(verdicts: Sequence[str], order: Sequence[str], extreme: dict[str, str]) -> str:
    """Such as "slower in 2 of 14 cases (worst: add, +1.9 %), same in 12"."""
    numbers = Counter(verdicts)
    first, *others = [verdict for verdict in order if numbers[verdict]] or [""]
    if not first:
        return ""
    which = f" ({_EXTREME[first]}: {extreme[first]})" if first in _EXTREME else ""
    total = f"{len(verdicts)} case{'s' if len(verdicts) > 1 else ''}"
    lead = f"{first} in {numbers[first]} of {total}{which}"
    return ", ".join([lead, *(f"{verdict} in {numbers[verdict]}" for verdict in others)])


def _is_done(result: Compared) -> bool:
    return result.status is Status.DONE


def _rest(comparison: Understood) -> list[str]:
    outcomes = Counter(gap.status for gap in comparison.gaps)
    few = len(unjudged(comparison))
    return [
        f"{few} with too few pairs" if few else "",
        f"{outcomes[Status.SKIPPED]} skipped, {outcomes[Status.FAILED]} failed",
        "" if comparison.comparison.is_complete else "interrupted before the end",
    ]


def _named(same: Sequence[Compared]) -> str:
    kinds: dict[str, list[str]] = {}
    for each in same:
        kinds.setdefault(full_name(each), []).append(each.metric.value)
    names = [f"{name} ({' and '.join(of)})" for name, of in kinds.items()]
    more = f" and {len(names) - _NAMED} more cases" if len(names) > _NAMED else ""
    return f"{'; '.join(names[:_NAMED])}{more}"


def _ratio(ratio: float) -> str:
    if ratio < 0.001:
        return "<0.001"
    if ratio >= 9999.5:
        return ">9999"
    return f"{ratio:.3f}" if ratio < 9.9995 else f"{ratio:#.4g}".rstrip(".")


def _a(comparison: Understood) -> str:
    return cut(comparison.comparison.a.name, 30)


def _b(comparison: Understood) -> str:
    return cut(comparison.comparison.b.name, 30)

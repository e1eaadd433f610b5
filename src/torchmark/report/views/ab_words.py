"""A judged comparison in sentences: the summary, the control, and what was not measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from torchmark.analyse.estimates import Verdict
from torchmark.model.result import PairedTiming, Status
from torchmark.model.run import FEWEST_REPLICATES
from torchmark.report.figures import change_text, first_line
from torchmark.report.views.ab_names import cut_line, full_name, name_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.analyse.ab import CountRow, Judged, TimeRow
    from torchmark.model.result import Result

_TIMES = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR)
_COUNTS = (Verdict.MORE, Verdict.FEWER, Verdict.SAME, Verdict.CLOSE)
_EXTREME = {
    Verdict.SLOWER: "worst",
    Verdict.MORE: "worst",
    Verdict.FASTER: "best",
    Verdict.FEWER: "best",
}

_NAMED = 3
"""Cases that are named with the reason that they share; more are counted."""


def name_pair(judged: Judged) -> str:
    """
    >>> from torchmark.analyse.ab import Judged
    >>> from torchmark.model.run import Environment
    >>> nothing = dict(results=(), times=(), counts=(), gaps=(), control=None, missing=0)
    >>> name_pair(Judged(a=Environment(name="A"), b=Environment(name="B"), **nothing))
    'B compared with A'
    """
    return f"{cut_line(judged.b.name, 30)} compared with {cut_line(judged.a.name, 30)}"


def summarise(judged: Judged) -> str:
    """All of it in one sentence."""
    times, counts = _tell_times(judged), _tell_counts(judged)
    name = cut_line(judged.b.name, 30)
    if not judged.times and not judged.counts:
        parts = [f"{name_pair(judged)}: nothing was measured"]
    elif any(row.verdict.is_change for row in judged.times):
        parts = [f"{name} is {times}", f"instructions: {counts}" if counts else ""]
    elif judged.has_change:
        takes = f"{name}, in instructions, takes {counts}"
        parts = [takes, f"times: {times}" if times else ""]
    else:
        is_clear = all(row.verdict is Verdict.SAME for row in judged.times)
        found = "no case has changed" if is_clear else "no change was found"
        parts = [f"{name_pair(judged)}: {found}"]
        parts += [f"times: {times}" if times else "", f"instructions: {counts}" if counts else ""]
    return "; ".join(part for part in [*parts, *_tell_rest(judged)] if part) + "."


def _tell_times(judged: Judged) -> str:
    rows, extreme = judged.times, dict[Verdict, str]()
    for row, name in zip(rows, name_rows(rows).with_label, strict=True):
        extreme.setdefault(row.verdict, f"{name}, {change_text(row.effect.ratio - 1)}")
    return _tell(rows, _TIMES, extreme)


def _tell_counts(judged: Judged) -> str:
    rows, extreme = judged.counts, dict[Verdict, str]()
    for row, name in zip(rows, name_rows(rows).with_label, strict=True):
        extreme.setdefault(row.verdict, f"{name}, {count_share_text(row)}")
    return _tell(rows, _COUNTS, extreme)


def _tell(
    rows: Sequence[TimeRow | CountRow], order: Sequence[Verdict], extreme: dict[Verdict, str]
) -> str:
    """Such as "slower in 2 of 14 cases (worst: add, +1.9 %), same in 12"."""
    numbers = Counter(row.verdict for row in rows)
    present = [verdict for verdict in order if numbers[verdict]]
    if not present:
        return ""
    first, *others = present
    which = f" ({_EXTREME[first]}: {extreme[first]})" if first in _EXTREME else ""
    total = f"{len(rows)} case{'s' if len(rows) > 1 else ''}"
    lead = f"{first.value} in {numbers[first]} of {total}{which}"
    return ", ".join([lead, *(f"{verdict.value} in {numbers[verdict]}" for verdict in others)])


def count_share_text(row: CountRow) -> str:
    """The share of A with two decimals, as counts are exact; "from none" where A takes none."""
    return f"{row.share * 100:+,.2f} %" if abs(row.share) != float("inf") else "from none"


def _tell_rest(judged: Judged) -> list[str]:
    statuses = Counter(gap.status for gap in judged.gaps)
    few = len(find_too_few(judged))
    return [
        f"{few} with too few replicates" if few else "",
        f"{statuses[Status.SKIPPED]} skipped, {statuses[Status.FAILED]} failed",
        f"{judged.missing} not measured" if judged.missing else "",
    ]


def describe_control(judged: Judged) -> str:
    """What A compared with A gave; empty where no times were taken."""
    control, name = judged.control, cut_line(judged.a.name, 30)
    if control is None:
        return ""
    if not control.replicates:
        return f"No replicates of {name} and {name} were taken."
    noise = f"noise of one {name}/{name} replicate: {control.deviation * 100:.1f} %"
    if not control.comparisons:
        taken = f"{control.replicates} replicate{'s' if control.replicates > 1 else ''}"
        return f"{taken}, too few to judge ({FEWEST_REPLICATES} are needed); {noise}."
    several = "s" if control.comparisons > 1 else ""
    return f"{control.alarms} of {control.comparisons} comparison{several} found a change; {noise}."


def warn_of_control(judged: Judged) -> list[str]:
    """That small changes are in doubt, where A compared with A has one."""
    control, name = judged.control, cut_line(judged.a.name, 30)
    if control is None or not control.alarms:
        return []
    found = f"a change in {control.alarms} of {control.comparisons} comparisons"
    doubt = f"small changes of {cut_line(judged.b.name, 30)} are in doubt"
    return [f"{name} compared with {name} found {found}, so {doubt}"]


def find_too_few(judged: Judged) -> list[Result]:
    """Measured, but with fewer replicates than an interval needs."""
    return [
        each
        for each in judged.results
        if isinstance(each.payload, PairedTiming) and len(each.payload.replicates) < 2
    ]


def list_by_reason(results: Iterable[Result], otherwise: str = "no reason given") -> list[str]:
    """A line for each reason: the cases it concerns, and its first line."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(first_line(result.reason), []).append(result)
    return [f"{_name_some(same)}: {reason or otherwise}" for reason, same in found.items()]


def _name_some(same: Sequence[Result]) -> str:
    metrics: dict[str, list[str]] = {}
    for each in same:
        metrics.setdefault(full_name(each), []).append(each.metric.value)
    names = [f"{name} ({' and '.join(of)})" for name, of in metrics.items()]
    more = f" and {len(names) - _NAMED} more cases" if len(names) > _NAMED else ""
    return f"{'; '.join(names[:_NAMED])}{more}"

"""Short names of cases and results.

What all cases of a table have in common, such as the first label ("overrides") or a fact
("Python"), is in the title of the table and not in each row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchmark.analyse.ab import CountRow, TimeRow, judge_counts
from torchmark.analyse.estimates import instructions_of
from torchmark.analyse.pairs import judge_alone
from torchmark.model.case import Case
from torchmark.model.result import (
    Counts,
    KernelTimes,
    Metric,
    PairedCounts,
    PairedTiming,
    Result,
    Status,
    TimeSummary,
    Timing,
)
from torchmark.model.units import first_line
from torchmark.printable import printable
from torchmark.report.figures import cut_line, seconds_text

if TYPE_CHECKING:
    _Row = TimeRow | CountRow | Result

_LONGEST_SIDE = 50
"""Maximum characters of each statement if a name consists of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of some rows."""

    label: str
    """Their first label if all have the same one; otherwise empty."""

    shared: tuple[str, ...]
    """Facts that all of them have."""

    names: Mapping[str, str]
    """Names by the IDs of the cases, without the label and facts that all have."""

    def of(self, row: _Row) -> str:
        return self.names[row.case.id]

    def with_label(self, row: _Row) -> str:
        """The name with the label, for places where no title shows the label."""
        return f"{self.label} / {self.of(row)}" if self.label else self.of(row)

    def under(self, title: str) -> str:
        """The title of the table, with what the rows have in common."""
        return cut_line(" · ".join(filter(None, (title, self.label, ", ".join(self.shared)))))


def name_rows(rows: Sequence[_Row]) -> Names:
    facts = [_facts(row) for row in rows]
    shared = [fact for fact in facts[0] if all(fact in each for each in facts)] if facts else []
    label = _shared_label(rows)
    return Names(
        label=label,
        shared=tuple(shared),
        names={
            row.case.id: _with_facts(
                cut_line(" / ".join(row.case.label[1:])) if label else _name(row),
                [fact for fact in own if fact not in shared],
            )
            for row, own in zip(rows, facts, strict=True)
        },
    )


def _shared_label(rows: Sequence[_Row]) -> str:
    """The first label, if several cases all have the same one and more labels below it."""
    firsts = {row.case.label[:1] for row in rows}
    is_alike = len(firsts) == 1 and all(len(r.case.label) > 1 and r.other is None for r in rows)
    return rows[0].case.label[0] if len(rows) > 1 and is_alike else ""


def full_name(row: _Row) -> str:
    """The complete name of a row, for use outside a table."""
    return _with_facts(_name(row), _facts(row))


def _name(row: _Row) -> str:
    """The name of a case; if B runs another case, what differs between the two."""
    case, other = row.case, row.other
    if other is None:
        return cut_line(case.name)
    if case.label != other.label and case.label and other.label:
        first, second = case.name, other.name
    else:
        first, second = case.stmt, other.stmt
    sides = [cut_line(text, _LONGEST_SIDE) for text in (first, second)]
    if case.facts != other.facts:
        each_facts = (case.facts, other.facts)
        sides = [_with_facts(*side) for side in zip(sides, each_facts, strict=True)]
    elif sides[0] == sides[1]:
        sides[1] += " (different setup)" if first == second else " (differs at the end)"
    label = f"{cut_line(case.name)}: " if case.label and case.label == other.label else ""
    return f"{label}{'  vs  '.join(sides)}"


def _facts(row: _Row) -> tuple[str, ...]:
    if row.other is not None and row.other.facts != row.case.facts:
        return ()
    return row.case.facts


def _with_facts(name: str, facts: Sequence[str]) -> str:
    return f"{name} · {cut_line(', '.join(facts))}" if facts else name


def group_of(case: Case) -> str:
    return case.label[0] if case.label else ""


def name_in_group(case: Case) -> str:
    """The title of a case without the name of its group, if it has other labels."""
    return replace(case, label=case.label[1:]).title if len(case.label) > 1 else case.title


def short_names(cases: Sequence[Case]) -> list[str]:
    """The names of cases for a chart, with their facts if the names are not unique."""
    names = [case.name for case in cases]
    return names if len(set(names)) == len(names) else [case.title for case in cases]


def name_some(
    names: Sequence[str], most: int, *, between: str = ", ", rest: str = " and {} more"
) -> str:
    """The first `most` names; the others are counted.

    >>> name_some(["a", "b", "c"], 2), name_some(["a"], 2)
    ('a, b and 1 more', 'a')
    """
    more = rest.format(len(names) - most) if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


def headline_of(result: Result) -> str:
    """What was measured and the result, for progress and for lists of failures."""
    name = full_name(result) if result.other is not None else result.case.title
    title = f"{result.metric.value:<5}  {printable(name)}"
    if result.status is not Status.DONE:
        return f"{title}: {result.status.value}: {printable(first_line(result.reason))}"
    return f"{title}: {_figure(result) or result.status.value}"


def _figure(result: Result) -> str:
    text = ""
    match result.payload:
        case Timing() if result.measurement is not None:
            text = seconds_text(result.measurement.median)
        case TimeSummary(median=median):
            text = seconds_text(median)
        case Counts() as counts:
            text = f"{float(instructions_of(counts)):,.0f} instructions"
        case PairedTiming() as times:
            text = f"{_pair(result)} {judge_alone(times).ratio:.4f}"
        case PairedCounts():
            text = f"{_pair(result)} {judge_counts(result).share * 100:+.3f} %"
        case KernelTimes(kernels=(longest, *_)):
            text = f"{longest.kernel} {seconds_text(longest.seconds)}"
    return text


def _pair(result: Result) -> str:
    """The names of the compared environments; a control compares the first with itself."""
    is_control = result.metric is Metric.CONTROL
    names = result.environments[:1] * 2 if is_control else result.environments
    return printable("/".join(reversed(names)))


def short_function(function: str) -> str:
    """The name of a function with file and library, without directories.

    >>> short_function("/build/aten/Add.cpp:at::add [/lib/libtorch_cpu.so]")
    'Add.cpp:at::add [libtorch_cpu.so]'
    >>> short_function("???:PyObject_Call")
    'PyObject_Call'
    """
    file, colon, rest = function.partition(":")
    name, bracket, library = rest.rpartition(" [")
    if not bracket:
        name, library = rest, ""
    file = file.rpartition("/")[2]
    named = name if file == "???" else f"{file}{colon}{name}"
    return f"{named} [{library.rpartition('/')[2]}" if bracket else named

"""The table behind every report on a run: which results belong to which case, group by group.

Renderers read this and know nothing of how results are matched. Cases stand in the order of the
run's plan, under the first of their labels.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchmark.model.result import Metric, Status
from torchmark.model.units import ordered_unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.case import Case
    from torchmark.model.result import Result
    from torchmark.model.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One case."""

    case: Case
    name: str
    """Its title without the name of the group."""

    planned: frozenset[Metric]
    """What was to be measured."""

    time: Result | None
    """None where there is no result yet, or none was asked for."""

    count: Result | None
    """None where there is no result yet, or none was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The cases that share their first label."""

    title: str
    rows: tuple[RunRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTable:
    """A run with its results."""

    run: Run
    groups: tuple[RunGroup, ...]
    results: tuple[Result, ...]
    """In the order of the plan."""

    missing: int
    """Measurements that were planned and have no result."""

    @property
    def kinds(self) -> tuple[Metric, ...]:
        """What was measured or was to be."""
        rows = [row for group in self.groups for row in group.rows]
        return tuple(kind for kind in Metric if any(kind in row.planned for row in rows))

    @property
    def failures(self) -> tuple[Result, ...]:
        return self._with(Status.FAILED)

    @property
    def skips(self) -> tuple[Result, ...]:
        return self._with(Status.SKIPPED)

    def summary(self) -> str:
        """One line that counts what came of the measurements."""
        counts = Counter(result.status for result in self.results)
        parts = [f"{counts[Status.DONE]} done"]
        parts += [f"{counts[Status.FAILED]} failed"] if counts[Status.FAILED] else []
        parts += [f"{counts[Status.SKIPPED]} skipped"] if counts[Status.SKIPPED] else []
        parts += [f"{self.missing} not measured"] if self.missing else []
        return ", ".join(parts)

    def _with(self, status: Status) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.status is outcome)


def table_of(run: Run, results: Sequence[Result]) -> RunTable:
    """The results under the cases of the plan; a result that was not planned comes last."""
    found = {(result.case.id, result.metric): result for result in results}
    planned = [(case.id, kind) for case, kind in run.plan]
    order = ordered_unique([*planned, *found])
    cases = {case.id: case for case, _ in run.plan} | {r.case.id: r.case for r in results}
    kinds: dict[str, set[Metric]] = {}
    for case_id, kind in order:
        kinds.setdefault(case_id, set()).add(kind)
    groups: dict[str, list[RunRow]] = {}
    for case_id, asked in kinds.items():
        case = cases[case_id]
        row = RunRow(
            case=case,
            name=name_in_group(case),
            planned=frozenset(asked),
            time=found.get((case_id, Metric.TIME)),
            count=found.get((case_id, Metric.INSTRUCTIONS)),
        )
        groups.setdefault(group_of(case), []).append(row)
    return RunTable(
        run=run,
        groups=tuple(RunGroup(title=title, rows=tuple(rows)) for title, rows in groups.items()),
        results=tuple(found[key] for key in order if key in found),
        missing=sum(key not in found for key in ordered_unique(planned)),
    )


def group_of(case: Case) -> str:
    return case.label[0] if case.label else ""


def name_in_group(case: Case) -> str:
    """The title of a case without the name of its group, unless it has no other."""
    return replace(case, label=case.label[1:]).title if len(case.label) > 1 else case.title

"""Histories made up for tests: runs of one suite on successive days, with known changes."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests import records
from torchmark.model.case import Case
from torchmark.model.result import PlannedResult, Result
from torchmark.model.run import Environment, Run, RunState

MACHINE = {"cpu": "Fast One", "cores": 2, "system": "Linux 6.1 x86_64", "host": "ci-1"}


def commit(day: int) -> str:
    """The commit of a day: forty digits, as git has them."""
    return f"{day:03d}abc" + "0" * 34


def run_on(
    day: int, *results: Result, machine: Any = MACHINE, facts: Any = None, **git: Any
) -> Run:
    """A run that measured the commit of a day of 2026, 1 is the first of January."""
    month, of_month = divmod(day - 1, 28)
    date = f"2026-{month + 1:02d}-{of_month + 1:02d}"
    git = {"commit": commit(day), "committed": f"{date}T00:00:00+00:00", "branch": "main", **git}
    here = {"machine": machine, "git": git, "torch": {"version": "2.13.0"}, **(facts or {})}
    return records.run_of(
        *dict.fromkeys(each.case for each in results),
        id=f"{date.replace('-', '')}-120000-{day:06d}",
        started=f"{date}T12:00:00+00:00",
        environments=(Environment(facts=here),),
        results=results,
        plan=tuple(PlannedResult(case=each.case, metric=each.metric) for each in results),
        state=RunState.FINISHED,
    )


def noisy(levels: Sequence[float], *, spread: float = 0.003, seed: int = 1) -> list[float]:
    """A value near each level, with normal noise of this standard deviation."""
    draw = random.Random(seed)
    return [level * math.exp(draw.gauss(0, spread)) for level in levels]


def runs_of(
    times: Mapping[Case, Sequence[float]],
    counts: Mapping[Case, Sequence[int]] | None = None,
    **given: Any,
) -> list[Run]:
    """A run a day with the time, and perhaps the count, of each case."""
    counts = counts or {}
    days = max(map(len, (*times.values(), *counts.values())))
    return [
        run_on(
            day + 1,
            *(records.time_result(case, each[day]) for case, each in times.items()),
            *(records.count_result(case, each[day]) for case, each in counts.items()),
            **given,
        )
        for day in range(days)
    ]

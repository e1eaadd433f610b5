"""What is to be compared, and what is wanted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.model.ab_record import Compared
from torchmark.model.case import Case
from torchmark.model.language import Language
from torchmark.model.run_record import Kind, Outcome
from torchmark.run.zygote import TIME_LIMIT
from torchmark.runner.execution import reason_to_skip
from torchmark.runner.suite_run import facts_of, wanted_cases
from torchmark.versus.known_breaks import reason_to_skip as known_break
from torchmark.versus.under_test import WORKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.runner.suite_run import Wanted
    from torchmark.suites.loading import LoadedSuite
    from torchmark.versus.under_test import UnderTest

BUDGET = 10.0
"""Seconds in which a change of one per cent is found on a machine with some noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A case that is to be compared."""

    case: Case
    """As it runs in A."""

    other: Case | None = None
    """As it runs in B, if that is something else."""

    skip: str | None = None
    """Why it is left out; None for a case that runs."""

    @property
    def in_b(self) -> Case:
        return self.other or self.case

    def reason_against(self, kind: Kind) -> str | None:
        """Why this kind is not measured of it; None if it is."""
        return self.skip or reason_to_skip(self.case, kind)

    def row(self, kind: Kind, outcome: Outcome, reason: str = "") -> Compared:
        return Compared(case=self.case, other=self.other, kind=kind, outcome=outcome, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of every case."""

    kinds: tuple[Kind, ...] = (Kind.COUNT, Kind.TIME)

    budget: float = BUDGET
    """Seconds of pairs for a case after which it is left unclear."""

    time_limit: float = TIME_LIMIT
    """Seconds that a case may take in one process."""

    seed: int = 0
    """Of the order of the blocks."""


def plan_of_suites(
    a: UnderTest, b: UnderTest, suites: Sequence[LoadedSuite], wanted: Wanted, *, backtest: bool
) -> list[Planned]:
    """Every case of the suites, with the reason where it cannot run in one of the two."""
    sides = (a, b)
    cases = [wanted_cases(suites, wanted, facts_of(suites, side.workers)) for side in sides]
    able = [_Ability(side, backtest=backtest) for side in sides]
    plan = []
    for in_a, in_b in zip(*cases, strict=True):
        reasons = (able[0].reason_against(in_a), able[1].reason_against(in_b))
        plan.append(Planned(case=in_a, skip=next(filter(None, reasons), None)))
    return plan


def plan_of_statements(
    pairs: Iterable[tuple[str, str | None]], setup: str, threads: int = 1
) -> list[Planned]:
    """Statements for both environments, or one for A and another for B."""
    plan = []
    for stmt, other in pairs:
        case, case_b = (
            Case(label=(), stmt=text, setup=setup, num_threads=threads)
            for text in (stmt, other or stmt)
        )
        plan.append(Planned(case=case, other=case_b if case_b != case else None))
    return plan


class _Ability:
    """What an environment can run."""

    def __init__(self, side: UnderTest, *, backtest: bool) -> None:
        self._side = side
        self._backtest = backtest
        self._version = str(side.facts()["torch"])
        self._cpp = side.described().facts["cpp"]

    def reason_against(self, case: Case) -> str | None:
        reason = case.skip
        if reason is None and self._backtest:
            reason = known_break(case, self._version)
        if reason is None and case.language is Language.CPP and self._cpp != WORKS:
            reason = self._cpp
        return f"in {self._side.name} (torch {self._version}): {reason}" if reason else None

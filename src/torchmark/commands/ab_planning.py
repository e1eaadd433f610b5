"""From suites or statements to what is compared, with the reason where a case cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.commands.suite_run import facts_of, wanted_cases
from torchmark.define.known_breaks import reason_to_skip as known_break
from torchmark.engine.paired.plan import Planned
from torchmark.engine.under_test import WORKS
from torchmark.model.case import Case
from torchmark.model.language import Language

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.commands.suite_run import Wanted
    from torchmark.define.suites.loading import LoadedSuite
    from torchmark.engine.under_test import UnderTest


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


def plan_of_statements(pairs: Iterable[tuple[str, str | None]], setup: str) -> list[Planned]:
    """Statements for both environments, or one for A and another for B."""
    plan = []
    for stmt, other in pairs:
        case = Case(label=(), stmt=stmt, setup=setup)
        in_b = replace(case, stmt=other) if other is not None else None
        plan.append(Planned(case=case, other=in_b))
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

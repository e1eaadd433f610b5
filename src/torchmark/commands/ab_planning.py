"""From suites or statements to what is compared, with the reason where a case cannot run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.commands.suites import select_cases
from torchmark.define.skips import find_known_break
from torchmark.engine.under_test import WORKS
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case, Language
from torchmark.model.result import PlannedResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.commands.suites import Selection
    from torchmark.define.suites.loading import LoadedSuite
    from torchmark.engine.under_test import UnderTest
    from torchmark.model.result import Metric, ResultKey


def plan_suites(
    a: UnderTest,
    b: UnderTest,
    suites: Sequence[LoadedSuite],
    selection: Selection,
    metrics: Sequence[Metric],
    *,
    backtest: bool = False,
) -> list[PlannedResult]:
    """Every case of the suites, with the reason where it cannot run in one of the two."""
    sides = (a, b)
    cases = [select_cases(suites, selection, side.workers) for side in sides]
    able = [_Ability(side, backtest=backtest) for side in sides]
    plan = []
    for in_a, in_b in zip(*cases, strict=True):
        reasons = (able[0].reason_against(in_a), able[1].reason_against(in_b))
        case = replace(in_a, skip=next(filter(None, reasons), None))
        plan += [
            PlannedResult(case=case, metric=metric, environments=(a.name, b.name))
            for metric in metrics
        ]
    return plan


def plan_statements(
    pair: tuple[str, str],
    statements: Iterable[tuple[str, str | None]],
    setup: str,
    metrics: Sequence[Metric],
) -> list[PlannedResult]:
    """Statements for both environments, or one for A and another for B; each once."""
    plan: dict[ResultKey, PlannedResult] = {}
    for stmt, other in statements:
        case = Case(label=(), stmt=stmt, setup=setup)
        in_b = replace(case, stmt=other) if other is not None else None
        for metric in metrics:
            planned = PlannedResult(case=case, metric=metric, environments=pair, other=in_b)
            if plan.setdefault(planned.key, planned) != planned:
                raise InvalidArgumentError(
                    f"{stmt!r} is compared with itself and with {other!r}; make two runs of it"
                )
    return list(plan.values())


class _Ability:
    """What an environment can run."""

    def __init__(self, side: UnderTest, *, backtest: bool) -> None:
        self._side = side
        self._backtest = backtest
        self._version = str(side.facts()["torch"])
        self._cpp = side.describe().facts["cpp"]

    def reason_against(self, case: Case) -> str | None:
        reason = case.skip
        if reason is None and self._backtest:
            reason = find_known_break(case, self._version)
        if reason is None and case.language is Language.CPP and self._cpp != WORKS:
            reason = self._cpp
        return f"in {self._side.name} (torch {self._version}): {reason}" if reason else None

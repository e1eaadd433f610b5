"""The comparisons of one call of `torchmark ab`, shown and kept as they come."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from torchmark.analyse.ab import understood
from torchmark.cli.run_display import display_for
from torchmark.commands.ab_planning import plan_of_statements, plan_of_suites
from torchmark.engine.background import begun
from torchmark.engine.cores import on_cores, usable_cores
from torchmark.engine.files import write_whole
from torchmark.engine.measuring import now
from torchmark.engine.paired.comparing import Comparing
from torchmark.engine.paired.sentries import remarks_of
from torchmark.engine.reservations import reserve_lanes
from torchmark.engine.under_test import remarks_on
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.model.ab_record import Compared, Comparison
from torchmark.report.ab_formats import RENDERERS
from torchmark.store import new_run_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchmark.analyse.ab import Understood
    from torchmark.commands.suite_run import Wanted
    from torchmark.define.suites.loading import LoadedSuite
    from torchmark.engine.paired.plan import Planned, Wish
    from torchmark.engine.under_test import UnderTest

_SAVE_SECONDS = 5.0
"""Between two times that what is measured so far is put on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be compared."""

    suites: tuple[LoadedSuite, ...]
    wanted: Wanted
    statements: tuple[tuple[str, str | None], ...]
    setup: str
    wish: Wish
    backtest: bool

    def plan(self, a: UnderTest, b: UnderTest) -> list[Planned]:
        if self.statements:
            return plan_of_statements(self.statements, self.setup)
        return plan_of_suites(a, b, self.suites, self.wanted, backtest=self.backtest)


@dataclass(slots=True, kw_only=True)
class Kept:
    """All comparisons so far, on the disk as they come."""

    file: Path
    comparisons: list[Comparison] = field(default_factory=list)
    _next_save: float = 0.0

    def update(self, comparison: Comparison, *, at_once: bool = False) -> None:
        if self.comparisons and self.comparisons[-1].id == comparison.id:
            self.comparisons[-1] = comparison  # at once: Ctrl-C may come between two steps
        else:
            self.comparisons.append(comparison)
        if at_once or time.monotonic() >= self._next_save:
            self.save()

    def save(self) -> None:
        begun = time.monotonic()
        with contextlib.suppress(OSError):  # a full disk: what is shown in the end is not lost
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(self.file, RENDERERS["json"](self.understood()).encode())
        took = time.monotonic() - begun  # grows with the comparison: a tenth of the time at most
        self._next_save = time.monotonic() + max(_SAVE_SECONDS, 10 * took)

    def understood(self) -> list[Understood]:
        return [understood(each) for each in self.comparisons]


def compare_all(
    sides: Sequence[UnderTest], asked: Asked, kept: Kept, *, quiet: bool
) -> KeyboardInterrupt | TorchmarkError | None:
    """Each environment beside the first; what cut it short after the first result, if anything."""
    try:
        checks = [begun(side.described, "check") for side in sides]
        for check in checks:  # all of them before anything is measured
            check.result()
        for other in sides[1:]:
            _compare(sides[0], other, asked, kept, quiet=quiet)
    except KeyboardInterrupt as interrupt:
        return interrupt
    except TorchmarkError as error:
        if not kept.comparisons:
            raise
        return error
    return None


def _compare(a: UnderTest, b: UnderTest, asked: Asked, kept: Kept, *, quiet: bool) -> None:
    plan = asked.plan(a, b)
    if not plan:
        raise InvalidArgumentError(
            "no case is left to compare; `torchmark list` shows what the suites have"
        )
    remarks = remarks_on(a, b, statements_differ=any(each.other is not None for each in plan))
    comparison = Comparison(
        id=new_run_id(),
        started=now(),
        a=a.described(),
        b=b.described(),
        remarks=tuple(remarks),
        settings={"budget": asked.wish.budget, "backtest": asked.backtest},
        is_complete=False,
    )
    places = {each.case.id: number for number, each in enumerate(plan)}
    widest = max(each.case.num_threads for each in plan)
    total = len(plan) * len(asked.wish.kinds)
    with reserve_lanes(usable_cores(), widest) as division, on_cores(division.others):
        display = display_for(total, quiet=quiet)
        comparing = Comparing(plan, a, b, wish=asked.wish, division=division)
        news = comparing.results()
        results: list[Compared] = []

        def update(*, is_complete: bool) -> None:
            ordered = sorted(results, key=lambda each: (places[each.case.id], each.kind.value))
            said = remarks_of(comparing.sentries, comparison.a, comparison.b)
            kept.update(
                replace(
                    comparison,
                    results=tuple(ordered),
                    remarks=(*remarks, *said),
                    is_complete=is_complete,
                ),
                at_once=is_complete,
            )

        with display, contextlib.closing(news):
            for each in news:
                if isinstance(each, Compared):
                    results.append(each)
                    update(is_complete=False)
                display.show(each)  # what is told is kept, whenever Ctrl-C comes
        update(is_complete=True)

"""What is to be compared, and what is wanted of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import FEWEST_PAIRS
from torchmark.engine.execution import reason_to_skip
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.model.ab_record import Compared
from torchmark.model.result import Metric, Status

if TYPE_CHECKING:
    from torchmark.model.case import Case

BUDGET = 10.0
"""Seconds in which a change of one per cent is found on a machine with some noise."""

TURNS_SECONDS = 0.075
"""Of measured blocks of two processes; forking, setting up and warming up take nearly as long. What
they say of small ops belongs to them and not to their rounds: couples of twice the time spread as
much, and there are half as many of them."""


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

    def reason_against(self, kind: Metric) -> str | None:
        """Why this kind is not measured of it; None if it is."""
        return self.skip or reason_to_skip(self.case, kind)

    def row(self, kind: Metric, status: Status, reason: str = "") -> Compared:
        return Compared(case=self.case, other=self.other, kind=kind, status=outcome, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of every case."""

    kinds: tuple[Metric, ...] = (Metric.INSTRUCTIONS, Metric.TIME)

    budget: float = BUDGET
    """Seconds of pairs for a case after which it is left unclear."""

    turns_seconds: float = TURNS_SECONDS
    """Of measured blocks of two processes: the less, the more pairs fit into the budget."""

    pairs: int = FEWEST_PAIRS
    """That are taken of every case whatever the budget."""

    hurry: bool = False
    """Whether pairs are wanted soon rather than precise ones: no more turns while a start is waited
    for, a control beside the first alone, and one look at all pairs in the end. Looking costs, so
    one look sees more."""

    time_limit: float = TIME_LIMIT
    """Seconds that a case may take in one process."""

    seed: int = 0
    """Of the order of the blocks."""

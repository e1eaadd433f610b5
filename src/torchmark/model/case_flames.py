"""The flame graphs of one case in two environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchmark.model.case import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFlames:
    """Pictures as SVG documents."""

    case: Case
    base: str
    branch: str
    difference: str
    """What grew from base to branch, and what shrank."""

    def named(self) -> dict[str, str]:
        """The documents by what they show, in the order in which they are looked at."""
        return {"base": self.base, "branch": self.branch, "difference": self.difference}

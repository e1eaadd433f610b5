"""What became of a time or a count: the one type for every comparison."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """What became of a figure from the first to the second."""

    SLOWER = "slower"
    FASTER = "faster"
    MORE = "more"
    """Takes more instructions."""

    FEWER = "fewer"
    """Takes fewer instructions."""

    SAME = "same"
    """A time within the margin of equivalence, or a count that is equal to the instruction."""

    CLOSE = "close"
    """A count that is not equal, but no further apart than layouts or the threshold allow."""

    UNCLEAR = "unclear"
    """The interval is too wide to tell."""

    @property
    def is_change(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.FASTER, Verdict.MORE, Verdict.FEWER)

    @property
    def is_regression(self) -> bool:
        return self in (Verdict.SLOWER, Verdict.MORE)

"""A statement that can do a little more: what comparisons with a known truth are made of."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from torchmark.engine.zygote.cases import PythonCase

Way: TypeAlias = Literal["rows", "repetitions", "extra"]

SEVERAL_EXTRAS = 100
"""This many small operations are compared with none to find out how long one takes."""

TORCH = {"torch": {"kind": "import", "value": "torch"}}


class Op(NamedTuple):
    """A statement that can do a little more."""

    name: str
    stmt: str
    setup: str

    rows: int = 0
    """Rows that it works on, whose number `{rows}` in the setup stands for."""

    growing: float = 1.0
    """Share of its time that grows with the rows; the rest is the overhead of the call."""

    extra: str = ""
    """A small operation that is done beside the statement. How much it adds is what all trials say
    together, so their intervals are not counted as holding the truth or not."""

    extras: float = 0.0
    """So many of them take as long as the statement, on this machine."""

    runs: int = 0
    """The statement is run in a loop of so many when it is compared with itself; 0 for no loop."""

    source: str = ""
    """Where a drawn operator comes from."""

    seconds: float = 0.0
    """What one run of a drawn operator's A took when it was drawn: its loop, if it has one."""

    def pair(self, more: float) -> tuple[PythonCase, PythonCase]:
        """The statement, and the statement with this share of work more.

        One without rows or an extra is run in a loop, and in B once more than in A.
        """
        if self.rows:
            return self._case(self.stmt), self._case(self.stmt, more)
        if not more:
            same = self._case(loop(self.stmt, self.runs) if self.runs else self.stmt)
            return same, same
        if self.extra:
            extras = [self.extra] * max(1, round(self.extras * more))
            return self._case(self.stmt), self._case("; ".join([self.stmt, *extras]))
        runs = round(1 / more)
        return self._case(loop(self.stmt, runs)), self._case(loop(self.stmt, runs + 1))

    def _case(self, stmt: str, more: float = 0.0) -> PythonCase:
        setup = self.setup.replace("{rows}", str(round(self.rows * (1 + more))))
        return PythonCase(stmt=stmt, setup=setup, globals=TORCH)

    def truth(self, more: float) -> float | None:
        """The ratio, where it is known."""
        return None if self.extra and more else 1 + more * self.growing

    @property
    def way(self) -> Way:
        """How B gets its share of work more."""
        if self.rows:
            return "rows"
        return "extra" if self.extra else "repetitions"


def loop(stmt: str, runs: int) -> str:
    return f"for _ in range({runs}): {stmt}"

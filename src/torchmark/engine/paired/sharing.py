"""Divides the time that clear cases of a comparison leave among the unclear ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchmark.analyse.pairs import is_precise
from torchmark.model.run import Effort
from torchmark.report.figures import duration_text, number_text

if TYPE_CHECKING:
    from torchmark.engine.paired.timing import CaseTiming

_MOST_EXTRA = 5
"""How many times its budget a case may get of the time that other cases left. With few cases, most
of the time is spent waiting for launches, so one case must not get the rest of a hundred."""


def share_time(
    held: Sequence[CaseTiming], timings: Sequence[CaseTiming], effort: Effort, cases: int
) -> list[CaseTiming]:
    """Divide the seconds that these timings left; return the held cases that continue.

    Cases that need the least of it to detect a change of 1 % come first. So as many cases as
    possible get a clear answer, and none gets time that would not help it.
    """
    left = effort.budget * len(timings) - sum(each.seconds for each in timings)
    most = {each: _MOST_EXTRA * effort.budget - each.extra for each in held}
    unclear = [each for each in held if not is_precise(each.timing(), cases=cases)]
    needed = {
        each: each.seconds_to_see_same(min(left, most[each]), cases) for each in unclear if left > 0
    }
    chosen: list[CaseTiming] = []
    for each in sorted(needed, key=lambda each: needed[each]):
        if needed[each] < min(left, most[each]):
            left -= needed[each]
            chosen.append(each)
    for each in chosen:
        each.extra += min(most[each], needed[each] + left / len(chosen))
    return chosen


def tell_sharing(waiting: Sequence[CaseTiming]) -> str:
    """Say how many cases continue, and for how long."""
    longest = duration_text(sum(each.extra for each in waiting))
    return f"{number_text(len(waiting), 'unclear case')}: up to {longest} that clear cases left"

"""The stacks of a statement as callgrind counted them: exact to the instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.callgrind.parse import parse_file
from torchmark.flame.counted import from_profile
from torchmark.run.zygote import TIME_LIMIT

if TYPE_CHECKING:
    from torchmark.flame.stacks import Stack
    from torchmark.run.zygote import NativeCase, PythonCase, Zygote

UNIT = "instructions per run"

_NUMBER = 100
"""Runs that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedStacks:
    """Where the instructions of one run go."""

    stacks: tuple[Stack, ...]
    """Weights are instructions of one run."""

    instructions: float
    """Of one run."""


def counted_stacks(
    zygote: Zygote, case: PythonCase | NativeCase, *, time_limit: float = TIME_LIMIT
) -> CountedStacks:
    """Count the case in a zygote that runs under callgrind."""
    count = zygote.count(case, number=_NUMBER, time_limit=time_limit)
    try:
        profile = parse_file(count.out_file)
    finally:
        count.out_file.unlink(missing_ok=True)
    return CountedStacks(
        stacks=tuple(from_profile(profile, _NUMBER)), instructions=profile.total / _NUMBER
    )

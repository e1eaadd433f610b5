"""How much is done for each case: the one type for every command, kept with the run."""

from __future__ import annotations

import msgspec

from torchmark_probe.loops.sampling import Limits

TIME_LIMIT = 300.0
"""Seconds that a case may take in one process where nothing else is said."""

FEWEST_REPLICATES = 5
"""Fresh launches of both environments below which a comparison has no verdict."""

USUAL_LIMITS = Limits(precision=0.01, min_run_time=0.2, max_run_time=2.0)

QUICK_LIMITS = Limits(precision=0.02, min_run_time=0.1, max_run_time=0.5)
"""For a person who waits: half of the runs, and a fourth of the patience."""


class Effort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every case of a run gets."""

    limits: Limits = USUAL_LIMITS
    """When the sampling of times stops."""

    runs: int = 100
    """Runs of the statement that are counted."""

    repeats: int = 1
    """Fresh processes in which each case is measured."""

    timeout: float = TIME_LIMIT
    """Seconds that a case may take in one process."""

    memory: int | None = None
    """Bytes that a case may take beyond what its zygote has; None for all that there are."""

    budget: float = 10.0
    """Seconds of paired timing for a case, after which it is left unclear: in ten a change of one
    per cent is found on a machine with some noise."""

    pair_seconds: float = 0.075
    """Seconds of measured blocks for a process pair. Forking, setting up and warming up take nearly
    as long. What a pair says of small operators belongs to it and not to its rounds: pairs of twice
    the time spread as much, and there are half as many of them."""

    replicates: int = FEWEST_REPLICATES
    """Fresh launches of both environments that every case gets whatever the budget."""

    hurry: bool = False
    """Whether replicates are wanted soon rather than precise ones: no more crossovers while a
    launch is waited for, a control with the first replicate alone, and one look at the end. Looking
    costs, so one look finds more."""

    seed: int = 0
    """Of the order of blocks, and of inputs that are made."""

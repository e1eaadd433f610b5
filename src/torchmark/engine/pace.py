"""The reference loop of this process, and what earlier processes learned about its quiet pace.

A process that starts while a neighbour slows the core would take the slow pace for the quiet one,
and believe every sample. So the best pace is kept in the user's cache, for this machine and this
interpreter, for a week. It is a cache: without it everything works, with a little less to go by.
"""

from __future__ import annotations

import contextlib
import json
import math
import platform
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchmark.engine.machine import cpu_model
from torchmark.files import PRIVATE, cache_directory, make_folder, write_whole
from torchmark_probe.loops.intervals import quantile_of_sorted
from torchmark_probe.loops.sampling import QUIET_PACE, ReferenceLoop

_LIFETIME = 7 * 24 * 3600.0
"""Seconds after which a pace is learned anew: machines change their clocks and neighbours."""

_FIRST_SECONDS = 0.3
"""How long the loop runs where nothing is known; most disturbances seen here are shorter."""

_WORTH_KEEPING = 0.98
"""A pace that is not at least 2 % better is not worth a write."""

_NOISE_SECONDS = 1.0
"""How long the loop runs to measure noise: a few of the disturbances seen on shared machines."""


@cache
def process_reference_loop() -> ReferenceLoop:
    """The one reference loop of this process: it starts from what is known of this machine."""
    reference = ReferenceLoop()
    known = load()
    if known is not None:
        reference.quiet_pace = known
    else:
        reference.learn(_run_for(reference, _FIRST_SECONDS))
        save(reference.quiet_pace)
    return reference


def remember_pace(pace: float) -> None:
    """Keep a quiet pace for later processes, if it is news."""
    known = load()
    if known is None or pace < _WORTH_KEEPING * known:
        save(pace)


def load() -> float | None:
    """The quiet pace in seconds that is known of this machine and interpreter, if any."""
    try:
        record = json.loads(path().read_text())
        pace, when = float(record["quiet_pace"]), float(record["time"])
        fits = record["machine"] == _machine()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_fresh = 0 <= time.time() - when <= _LIFETIME
    return pace if fits and is_fresh and math.isfinite(pace) and pace > 0 else None


def save(pace: float) -> None:
    """Write the pace in one step, so that no other process reads half of it; or do without."""
    record = {"machine": _machine(), "quiet_pace": pace, "time": time.time()}
    with contextlib.suppress(OSError):
        make_folder(path().parent)
        write_whole(path(), json.dumps(record).encode(), mode=PRIVATE)


def _run_for(reference: ReferenceLoop, duration: float) -> list[float]:
    stop = time.perf_counter() + duration
    seconds = [reference.run()]
    while time.perf_counter() < stop:
        seconds.append(reference.run())
    return seconds


def path() -> Path:
    return cache_directory() / "pace.json"


def _machine() -> dict[str, Any]:
    return {"host": platform.node(), "cpu": cpu_model(), "python": sys.version, "beat": "sum"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How steadily this machine runs a fixed bit of work."""

    disturbed: float
    """The share of the time in which something slowed the core by a quarter or more."""

    spread: float
    """The width of the middle half of the undisturbed readings, as a share of their median."""


def measure_noise() -> Noise:
    """Let the reference loop run for a second and look at its times."""
    reference = process_reference_loop()
    seconds = _run_for(reference, _NOISE_SECONDS)
    reference.learn(seconds)
    return noise_of(seconds, reference.quiet_pace)


def noise_of(seconds: list[float], quiet_pace: float) -> Noise:
    """The share of disturbed time, and the spread of the undisturbed readings."""
    limit = QUIET_PACE * quiet_pace
    quiet = sorted(each for each in seconds if each <= limit)
    if not quiet:
        return Noise(disturbed=1.0, spread=0.0)
    middle = quantile_of_sorted(quiet, 0.75) - quantile_of_sorted(quiet, 0.25)
    return Noise(
        disturbed=1 - sum(quiet) / sum(seconds), spread=middle / quantile_of_sorted(quiet, 0.5)
    )

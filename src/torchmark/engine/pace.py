"""The reference loop of this process, and the quiet pace that earlier processes measured.

A process that starts while a neighbour slows the core would mistake the slow pace for the quiet
one and trust every sample. So the best pace is cached for a week, per machine and interpreter.
torchmark also works without this cache, but then detects disturbances less reliably.
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
"""Seconds after which a pace is measured again: machines change their clocks and neighbours."""

_FIRST_SECONDS = 0.3
"""How long the loop runs if no pace is known. Most disturbances seen on shared machines are
shorter."""

_WORTH_KEEPING = 0.98
"""A new pace is saved only if it is at least 2 % better."""

_NOISE_SECONDS = 1.0
"""How long the loop runs to measure noise: long enough to see a few disturbances on a shared
machine."""


@cache
def process_reference_loop() -> ReferenceLoop:
    """Return the one reference loop of this process, starting from the known quiet pace."""
    reference = ReferenceLoop()
    known = load()
    if known is not None:
        reference.quiet_pace = known
    else:
        reference.learn(_run_for(reference, _FIRST_SECONDS))
        save(reference.quiet_pace)
    return reference


def remember_pace(pace: float) -> None:
    """Save a quiet pace for later processes if it is better than the known one."""
    known = load()
    if known is None or pace < _WORTH_KEEPING * known:
        save(pace)


def load() -> float | None:
    """Return the known quiet pace of this machine and interpreter in seconds, or None."""
    try:
        record = json.loads(path().read_text())
        pace, when = float(record["quiet_pace"]), float(record["time"])
        fits = record["machine"] == _machine()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_fresh = 0 <= time.time() - when <= _LIFETIME
    return pace if fits and is_fresh and math.isfinite(pace) and pace > 0 else None


def save(pace: float) -> None:
    """Write the pace atomically, so that no process reads half a file; ignore failures."""
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
    """How steadily this machine does a fixed amount of work."""

    disturbed: float
    """The share of the time in which the core was slowed by a quarter or more."""

    spread: float
    """The interquartile range of the undisturbed readings, as a share of their median."""


def measure_noise() -> Noise:
    """Run the reference loop for a second and describe its times."""
    reference = process_reference_loop()
    seconds = _run_for(reference, _NOISE_SECONDS)
    reference.learn(seconds)
    return noise_of(seconds, reference.quiet_pace)


def noise_of(seconds: list[float], quiet_pace: float) -> Noise:
    """Compute the share of disturbed time and the spread of the undisturbed readings."""
    limit = QUIET_PACE * quiet_pace
    quiet = sorted(each for each in seconds if each <= limit)
    if not quiet:
        return Noise(disturbed=1.0, spread=0.0)
    middle = quantile_of_sorted(quiet, 0.75) - quantile_of_sorted(quiet, 0.25)
    return Noise(
        disturbed=1 - sum(quiet) / sum(seconds), spread=middle / quantile_of_sorted(quiet, 0.5)
    )

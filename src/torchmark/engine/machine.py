"""What is on this machine: tools, clock, cores, and how quiet it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

from torchmark.engine.pace import process_reference_loop
from torchmark_probe.loops.intervals import quantile_of_sorted
from torchmark_probe.loops.sampling import QUIET_PACE

_TOOL_SECONDS = 20
"""How long a tool may take to say its version."""

_NOISE_SECONDS = 1.0
"""How long the reference loop runs: a few of the disturbances seen on shared machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How steadily this machine runs a fixed bit of work."""

    disturbed: float
    """The share of the time in which something slowed the core by a quarter or more."""

    spread: float
    """The width of the middle half of the undisturbed readings, as a share of their median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """What this process may use, and what others use already."""

    usable: int
    """Cores on which this process may run."""

    load: float
    """Processes that wanted to run, on average over the last minute."""


def find_tool(name: str) -> str | None:
    """The path of a tool, from this interpreter's scripts or from PATH."""
    scripts = Path(sysconfig.get_path("scripts")) / name
    return str(scripts) if os.access(scripts, os.X_OK) else shutil.which(name)


def first_line_of(*command: str) -> str:
    """What a tool prints first, or why it could not be run."""
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return (done.stdout or done.stderr).strip().partition("\n")[0]


def why_py_spy_cannot_attach(py_spy: str) -> str | None:
    """None if py-spy can read another process of this user; tried on this very process."""
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            [py_spy, "dump", "--nonblocking", "--pid", str(os.getpid())],
            capture_output=True,
            text=True,
            timeout=_TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr or done.stdout).strip().partition("\n")[0]


def cores() -> Cores:
    return Cores(usable=len(os.sched_getaffinity(0)), load=os.getloadavg()[0])


def listen() -> Noise:
    """Let the reference loop run for a second and look at its times."""
    reference = process_reference_loop()
    seconds = []
    stop = time.perf_counter() + _NOISE_SECONDS
    while time.perf_counter() < stop:
        seconds.append(reference.run())
    reference.learn(seconds)
    return noise_of(seconds, reference.quiet_pace)


def noise_of(seconds: list[float], quiet_pace: float) -> Noise:
    """The share of disturbed time, and the spread of the undisturbed seconds."""
    limit = QUIET_PACE * quiet_pace
    quiet = sorted(each for each in seconds if each <= limit)
    if not quiet:
        return Noise(disturbed=1.0, spread=0.0)
    middle = quantile_of_sorted(quiet, 0.75) - quantile_of_sorted(quiet, 0.25)
    return Noise(
        disturbed=1 - sum(quiet) / sum(seconds), spread=middle / quantile_of_sorted(quiet, 0.5)
    )


_KEPT_FREE = 0.2
"""Of the memory that is available, which a case does not get: others need some too."""


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that a case may take; None where the kernel does not say."""
    try:
        text = meminfo.read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return None if found is None else int(int(found[1]) * 1024 * (1 - _KEPT_FREE))

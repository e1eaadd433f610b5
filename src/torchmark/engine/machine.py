"""What is on this machine: the processor, its cores, free memory, and installed tools."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

_TOOL_SECONDS = 20
"""How long a tool may take to say its version."""

_KEPT_FREE = 0.2
"""Of the memory that is available, which a case does not get: others need some too."""


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


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that a case may take; None where the kernel does not say."""
    try:
        text = meminfo.read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return None if found is None else int(int(found[1]) * 1024 * (1 - _KEPT_FREE))


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name that the processor gives itself, or its kind where it has none."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "cpu model"} and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()


def describe_machine() -> dict[str, Any]:
    """The processor, how much of it this process may use, and how much others use."""
    return {
        "host": platform.node(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
    }

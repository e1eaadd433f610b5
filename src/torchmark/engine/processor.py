"""What the processor is called."""

from __future__ import annotations

import platform
from pathlib import Path


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

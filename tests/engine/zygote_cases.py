"""What the tests of zygotes share: cases, totals, and waiting for a process to be gone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.light_cpp import compile_unit
from torchmark.engine.zygote.cases import PythonCase
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

TORCH = {"torch": {"kind": "import", "value": "torch"}}

QUICK = Limits(precision=0.5, min_run_time=0.001, max_run_time=0.01)

_PATIENCE = 600.0
"""Seconds after which a condition that does not come true is a failure."""

_C_STATEMENT = """
static volatile int64_t sink;
extern "C" double torchmark_run_0(
    int64_t number, int64_t warmup, void (*before)(void), void (*after)(void)) {
    double seconds;
    for (int64_t i = 0; i < warmup; i++) sink = sink + i;
    do {
        if (before) before();
        for (int64_t i = 0; i < number; i++) sink = sink + i;
        if (after) after();
        seconds = 1e-9 * (double)(number + 1);
    } while ((number = torchmark_next_block(seconds)) >= 0);
    return seconds;
}
extern "C" const char *torchmark_error_0(void) { return ""; }
"""


def case(stmt: str, setup: str = "pass") -> PythonCase:
    return PythonCase(stmt=stmt, setup=setup, globals=TORCH)


def instructions(out_file: Path) -> int:
    """The total that callgrind wrote at the head or at the foot of its file."""
    for line in out_file.read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise AssertionError(f"{out_file} has no total")


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll, with a deadline; the pause is the scheduler's."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has reaped it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def c_library(directory: Path) -> Path:
    """A shared object with one statement, `sink += i`, whose cost is known to be the same."""
    return compile_unit(directory, _C_STATEMENT)

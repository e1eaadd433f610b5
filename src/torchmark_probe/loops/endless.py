"""A statement that runs until somebody has seen enough: what a profiler looks at from outside.

The process does nothing else by then: torch is imported, the setup done, the statement warm.
"""

import ctypes
import select
import time
from typing import Any

LOOK_SECONDS = 0.05
"""Between two looks at the socket, which take a microsecond: nobody sees that in a picture, and
nobody waits for it."""

_SETUPS = 50
"""A block whose setup runs again is so many times as long as the setup: 2 % of what is seen."""

_LONGEST_BLOCK = 1.0
"""Seconds that a block may take to make up for its setup."""

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def let_any_process_look() -> None:
    """Let a profiler of the same user attach, which is no ancestor of this process.

    Where Linux has Yama and its usual scope, 1, it asks the process; elsewhere this does nothing.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def runs_between_looks(number: int, seconds: float, setup_seconds: float) -> int:
    """Runs of a block, where `number` of them take `seconds`."""
    wanted = max(LOOK_SECONDS, min(_SETUPS * setup_seconds, _LONGEST_BLOCK))
    return max(1, round(number * wanted / seconds)) if seconds > 0 else number


def loop_until_told(blocks: Any, number: int, talk: int, limit: float) -> int:
    """Run block after block (`blocks` has `run(number)`) until something comes by the socket, or
    for `limit` seconds. Returns the runs.

    The end of the socket comes too: with the control side gone the loop is over.
    """
    heard = select.poll()
    heard.register(talk, select.POLLIN)
    runs, over = 0, time.monotonic() + limit
    while not heard.poll(0) and time.monotonic() < over:
        blocks.run(number)
        runs += number
    return runs

"""Blocks that somebody else drives: another process that alternates, or a profiler that looks on.

*Alternation.* Two processes on one core alternate, block by block, and hand each other a baton.
Nobody else is asked in between. Whoever has finished a block wakes the other and sleeps, so the
core goes from one to the other and is never idle, and no third process has to run to say who is
next: nearly twice as many rounds fit into the same time. The baton is a byte in a named pipe; each
process reads its own and writes the other's. The end of a process closes its pipes, so the other
one does not wait in vain.

*An endless loop* runs until somebody has seen enough: what a profiler looks at from outside. The
process does nothing else by then: torch is imported, the setup done, the statement warm.
"""

import ctypes
import os
import select
import time
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from torchmark_probe.zygote.messages import TakeBlocks

BLOCK_SECONDS = 100e-6
"""A block begins with cold caches, but so does that of the other: the ratio hardly feels it. On a
noisy host one block differs from the next by 10 %, however long they are, so many short ones say
more: with 100 µs in place of 300 µs the ratio of two small ops spreads 0.5 to 0.8 times as much."""

LOOK_SECONDS = 0.05
"""Between two looks at the socket, which take a microsecond: nobody sees that in a picture, and
nobody waits for it."""

_SETUPS = 50
"""A block whose setup runs again is so many times as long as the setup: 2 % of what is seen."""

_LONGEST_BLOCK = 1.0
"""Seconds that a block may take to make up for its setup."""

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


def run_blocks(blocks: Any, wanted: "TakeBlocks") -> List[float]:
    """The seconds of every block of ours (`blocks` has `run(number)`).

    If the other process ends before its last block, what there is until then is returned.
    """
    own = os.open(wanted.own, os.O_RDONLY | os.O_NONBLOCK)
    other = os.open(wanted.other, os.O_WRONLY)  # waits until the other process has come so far
    try:
        os.write(other, b".")
        waiting = select.poll()
        waiting.register(own, select.POLLIN)
        waiting.poll()
        os.set_blocking(own, True)
        os.read(own, 1)
        return _alternate(blocks, wanted, own, other)
    finally:
        os.close(own)
        os.close(other)


def _alternate(blocks: Any, wanted: "TakeBlocks", own: int, other: int) -> List[float]:
    order = wanted.order
    role, number = wanted.role, wanted.number
    seconds: List[float] = []
    for index, whose in enumerate(order):
        if whose != role:
            continue
        if index and order[index - 1] != role and not os.read(own, 1):
            break
        block = blocks.run(number)
        if index + 1 < len(order) and order[index + 1] != role:
            try:
                os.write(other, b".")
            except BrokenPipeError:
                break
        seconds.append(block.wall)
    return seconds


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

"""Two processes on one core alternate, block by block, and hand each other a baton.

Nobody else is asked in between. Whoever has finished a block wakes the other and sleeps, so the
core goes from one to the other and is never idle, and no third process has to run to say who is
next: nearly twice as many rounds fit into the same time.

The baton is a byte in a named pipe; each process reads its own and writes the other's. The end of
a process closes its pipes, so the other one does not wait in vain.
"""

import os
import select
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from torchmark_probe.zygote.messages import TakeBlocks

BLOCK_SECONDS = 100e-6
"""A block begins with cold caches, but so does that of the other: the ratio hardly feels it. On a
noisy host one block differs from the next by 10 %, however long they are, so many short ones say
more: with 100 µs in place of 300 µs the ratio of two small ops spreads 0.5 to 0.8 times as much."""


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
    seconds = []  # type: List[float]
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

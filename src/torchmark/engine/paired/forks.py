"""Functions of this very process, each run in a fork of it: what a zygote does for a statement.

A fork has everything that the functions need, whatever they close over, and nothing has to be
described or copied. Only the thread that forks goes along, so torch runs on one thread there. What
a function prints in a fork is thrown away: it was called in this process before, and printed there.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from torchmark.engine.zygote.cases import blocks_of_role
from torchmark.engine.zygote.conversation import describe_raised
from torchmark.errors import CaseFailedError, CaseTimeoutError
from torchmark_probe import memory
from torchmark_probe.loops.clocks import clock_facts
from torchmark_probe.loops.sampling import Limits, block_size
from torchmark_probe.loops.snippets import PythonLoop, garbage_collection_off
from torchmark_probe.zygote import messages, wire
from torchmark_probe.zygote.cases import BLOCK_SECONDS, BoundedOutput, serve_blocks, settle
from torchmark_probe.zygote.handlers import describe_error
from torchmark_probe.zygote.serving import die_with_parent

Said = TypeVar("Said", bound=messages.Message)


class Forks:
    """Opens sessions as a zygote does, of functions in place of statements."""

    def session(
        self,
        case: Callable[[], object],
        *,
        limits: Limits,
        shake: int,
        cores: Collection[int],
        beside: bool,
        time_limit: float,
    ) -> ForkedSession:
        assert not beside, "this process forks in one thread alone"
        return ForkedSession(partial(_serve, case, limits, cores), shake, time_limit)

    def start(self) -> None:
        """Nothing: the process that forks is there."""

    def run_on(self, cores: Collection[int]) -> None:
        """Nothing: the process that forks stays where it is."""

    def close(self) -> None:
        """There is nothing that outlives its session."""


class ForkedSession:
    """Open while the function's process lives."""

    def __init__(self, work: Callable[[int, int], None], shake: int, time_limit: float) -> None:
        """`work` is done in the fork: it is given what to talk over, and the place of its heap."""
        self._limit = time_limit
        self._deadline = time.monotonic() + time_limit
        self._talk, theirs = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            self._talk.close()
            _be_the_child(work, shake, theirs.fileno())
        theirs.close()
        try:
            size = self._next(messages.BlockSize)
        except BaseException:
            self.close()
            raise
        self.number = size.number
        self.seconds = size.seconds

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it take the blocks of its role, with the other process at the other baton."""
        with contextlib.suppress(BrokenPipeError):  # its process is gone: what it answers says so
            wire.send(self._talk.fileno(), blocks_of_role(order, role, number, batons))

    def blocks(self) -> messages.BlockTimes:
        """What each block took; what the function raises is a CaseFailedError."""
        return self._next(messages.BlockTimes)

    def close(self) -> None:
        """End the process."""
        self._talk.close()
        with contextlib.suppress(OSError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self._pid, 0)

    def _next(self, kind: type[Said]) -> Said:
        left = self._deadline - time.monotonic()
        if left <= 0 or not select.select([self._talk], [], [], left)[0]:
            raise CaseTimeoutError(
                f"the function was stopped at its limit of {self._limit:g} s", kind="timeout"
            )
        try:
            message = wire.receive(self._talk.fileno())
        except ConnectionResetError:
            message = None
        if message is None:
            raise CaseFailedError(
                "the function ended the process that ran it; run it by itself to see how",
                kind="crashed",
            )
        if isinstance(message, messages.Raised):
            raise CaseFailedError(
                f"the function raised: {describe_raised(message)}",
                kind="raised",
                traceback=f"{message.frames}\n{message.text}",
            )
        assert isinstance(message, kind), message
        return message


def _be_the_child(work: Callable[[int, int], None], shake: int, talk: int) -> NoReturn:
    try:
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        rng = random.Random(shake)  # noqa: S311 - places in memory, not a secret
        place = memory.move_heap(rng)
        memory.with_moved_stack(rng, lambda: work(talk, place))
    except BaseException as error:  # the function may raise anything, SystemExit too
        with contextlib.suppress(OSError):
            wire.send(talk, describe_error(error))
    finally:
        os._exit(1)


def _serve(
    function: Callable[[], object], limits: Limits, cores: Collection[int], talk: int, place: int
) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # the threads of the parent did not come along
        torch.default_generator.manual_seed(0)
    random.seed(0)
    files = [os.memfd_create("torchmark-output") for _ in ("stdout", "stderr")]
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
    loop = PythonLoop("function()", globals={"function": function})
    blocks = BoundedOutput(loop.blocks(), files)
    with garbage_collection_off():
        settle(blocks, place, memory.written_memory())
        number, seconds = block_size(blocks, clock_facts(time.perf_counter), limits, BLOCK_SECONDS)
        wire.send(talk, messages.BlockSize(number, seconds))
        serve_blocks(blocks, talk, [])

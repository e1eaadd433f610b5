"""Runs functions of this process in forks of it, as a zygote does with statements.

A fork has everything that the functions need, including what they close over, so nothing has to be
described or copied. Only the forking thread exists in the fork, so torch runs on one thread there.
What a function prints in a fork is discarded: it ran in this process before and printed there.
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
from torchmark_probe import memory, pages
from torchmark_probe.loops.clocks import clock_facts
from torchmark_probe.loops.sampling import Limits, block_size
from torchmark_probe.loops.snippets import PythonLoop, garbage_collection_off
from torchmark_probe.zygote import messages, wire
from torchmark_probe.zygote.cases import BLOCK_SECONDS, BoundedOutput, serve_blocks, settle
from torchmark_probe.zygote.handlers import describe_error
from torchmark_probe.zygote.serving import die_with_parent

Said = TypeVar("Said", bound=messages.Message)


class Forks:
    """Opens sessions as a zygote does, but for functions instead of statements."""

    def session(
        self,
        case: Callable[[], object],
        *,
        limits: Limits,
        shake: int,
        cores: Collection[int],
        while_others_run: bool,
        time_limit: float,
    ) -> ForkedSession:
        assert not while_others_run, "this process forks from one thread only"
        return ForkedSession(partial(_serve, case, limits, cores), shake, time_limit)

    def start(self) -> None:
        """Do nothing: the process that forks is already running."""

    def run_on(self, cores: Collection[int]) -> None:
        """Do nothing: the process that forks stays where it is."""

    def close(self) -> None:
        """Do nothing: nothing outlives its session."""


class ForkedSession:
    """Open while the function's process lives."""

    def __init__(self, work: Callable[[int, int], None], shake: int, time_limit: float) -> None:
        """`work` runs in the fork; it gets the descriptor to talk over and the heap's place."""
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
        self.is_small = size.is_small

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it run the blocks of its role, alternating with the process at the other pipe."""
        with contextlib.suppress(BrokenPipeError):  # its process has ended, which `blocks` reports
            wire.send(self._talk.fileno(), blocks_of_role(order, role, number, batons))

    def blocks(self) -> messages.BlockTimes:
        """Return the times of the blocks; raise CaseFailedError if the function raised."""
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
                f"the function was stopped at its time limit of {self._limit:g} s; raise "
                "time_limit if it needs longer",
                kind="timeout",
            )
        try:
            message = wire.receive(self._talk.fileno())
        except ConnectionResetError:
            message = None
        if message is None:
            raise CaseFailedError(
                "the function ended the process that ran it; run it alone to see why",
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
        torch.set_num_threads(1)  # the parent's threads do not exist in the fork
        torch.default_generator.manual_seed(0)
    random.seed(0)
    files = [os.memfd_create("torchmark-output") for _ in ("stdout", "stderr")]
    for number, file in enumerate(files, start=1):
        os.dup2(file, number)
    loop = PythonLoop("function()", globals={"function": function})
    blocks = BoundedOutput(loop.blocks(), files)
    with garbage_collection_off():
        held = [getattr(function, "__closure__", None)]
        mover = pages.DataMover(held, torch, random.Random(place))  # noqa: S311 - not a secret
        run_seconds = settle(blocks, place, memory.written_memory(), mover)
        clock = clock_facts(time.perf_counter)
        size = block_size(blocks, clock, limits, BLOCK_SECONDS, run_seconds=run_seconds)
        wire.send(talk, messages.BlockSize(*size, is_small=mover.is_small))
        serve_blocks(blocks, talk, [], mover)

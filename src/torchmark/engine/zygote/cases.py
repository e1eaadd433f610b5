"""The cases that a zygote runs (in Python or compiled), and what it returns for them."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from torchmark.engine.zygote.conversation import (
    Conversation,
    Ending,
    MemoryFile,
    Output,
    Stream,
    outcome_of,
)
from torchmark_probe.loops.sampling import Sampling
from torchmark_probe.zygote.messages import (
    BlockSize,
    BlockTimes,
    Looping,
    NativeCase,
    PythonCase,
    Request,
    SampleTogether,
    Stop,
    TakeBlocks,
    Value,
)
from torchmark_probe.zygote.rounds import OUTPUTS, TURN, TURN_FILE

if TYPE_CHECKING:
    from torchmark.model.case import Case

__all__ = [
    "Count", "Loop", "NativeCase", "Output", "PythonCase", "Ready", "Sample", "Session", "Together",
]  # fmt: skip

Ready: TypeAlias = PythonCase | NativeCase
"""A case that a zygote can run."""

LOOP_FRAME = "statement"
"""The outermost frame in every graph of a loop, whatever its name is in Python or C++."""

_LOOK_SECONDS = 0.05
"""Seconds between two checks whether sampling the loop is finished."""

_ANSWER_SECONDS = 5.0
"""How long a process that waits for its turn may take to answer when the other one has ended."""

_TOO_EARLY = "the case ended too early"


def with_torch(case: Case) -> PythonCase:
    """Return a Python case that has torch among its globals."""
    torch = {"kind": "import", "value": "torch"}
    return PythonCase(
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        globals={"torch": torch},
    )


class Count(NamedTuple):
    """The result of counting a case."""

    out_file: Path
    """Callgrind's file. It is removed with the zygote, so copy it to keep it."""

    output: Output


class Sample(NamedTuple):
    """The result of timing a case."""

    sampling: Sampling
    """Every block, in the order in which they were taken."""

    first_run: float
    """Seconds of the very first run, which is in no block and includes any compilation."""

    output: Output


class Session(Conversation):
    """A case whose blocks alternate with those of another process on one core."""

    makes_output = MemoryFile

    def ask(self, request: Request, limit: float) -> None:
        super().ask(request, limit)
        size = self.next_message(BlockSize, _TOO_EARLY)
        self.number = size.number
        """The number of runs that this process chose for a block."""

        self.seconds = size.seconds
        """How long such a block takes."""

        self.is_small = size.is_small
        """Whether its data fits into the caches of a core."""

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it run the blocks of its role, alternating with the process at the other pipe."""
        self.say(blocks_of_role(order, role, number, batons))

    def blocks(self) -> BlockTimes:
        """Return the times of the blocks; raise CaseFailedError if the statement raised.

        A process that has timed out may only have waited for the other one. In that case it answers
        once the other process has ended.
        """
        if self.remaining <= 0:
            self.wait(_ANSWER_SECONDS)
        return self.next_message(BlockTimes, _TOO_EARLY)


def blocks_of_role(
    order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
) -> TakeBlocks:
    """Return the message that starts the blocks of a role; see `torchmark_probe.zygote.cases`.

    `order` has the role of every block, and `batons` has the pipe that each role reads.
    """
    return TakeBlocks(list(order), role, number, str(batons[role]), str(batons[1 - role]))


class Together(Conversation):
    """Several statements in one process, timed in rounds; see `torchmark_probe.zygote.rounds`.

    The time limit applies to one setup or one block: it starts again with every turn.
    """

    def ask(self, request: Request, limit: float) -> None:
        work = request.work
        assert isinstance(work, SampleTogether)
        self._folder = Path(work.folder)
        for number in range(len(work.cases)):
            for end in OUTPUTS:
                pipe = self._folder / f"{number}.{end}"
                os.mkfifo(pipe, 0o600)
                self._read(Stream(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)))
        super().ask(request, limit)

    def finish(self) -> Ending:
        while not self._listen(self._began + self._limit):
            _, began = self._turn()
            if began <= self._began:
                break
            self._began = began
        ending = super().finish()
        turn, _ = self._turn()
        _, _, *texts = self._texts()
        outputs = tuple(
            Output(stdout=out, stderr=err) for out, err in zip(texts[::2], texts[1::2], strict=True)
        )
        return replace(ending, turn=turn, output=outputs[turn], outputs=outputs)

    def _turn(self) -> tuple[int, float]:
        """Return which statement is running, and since when."""
        try:
            turn, began = TURN.unpack((self._folder / TURN_FILE).read_bytes())
        except (OSError, struct.error):  # no statement has started
            return 0, 0.0
        return int(turn), float(began)


class Loop(Conversation):
    """A case that runs until it is stopped, so that a profiler can sample its process."""

    def ask(self, request: Request, limit: float) -> None:
        super().ask(request, limit)
        ready = self.next_message(Looping, _TOO_EARLY)
        self.pid = ready.process
        """The id of the process that runs the statement."""

        self.seconds_per_run = ready.seconds_per_run
        """How long a run takes without sampling."""

    def listen_until(self, is_over: Callable[[], bool]) -> None:
        """Read the output until `is_over`, because a full pipe would block the loop."""
        while not (is_over() or self.has_ended):
            self.wait(_LOOK_SECONDS)

    def stop(self) -> int:
        """Stop the loop and return its runs; raise CaseFailedError if it failed before."""
        self.say(Stop())
        return int(outcome_of(self.finish(), Value).value)

"""What a zygote is given, a case in Python or a compiled one, and what it gives back for it."""

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
"""The outermost frame of every picture of a loop, whatever it is called in Python or in C++."""

_LOOK_SECONDS = 0.05
"""Between two looks at whether those who look at a loop have seen enough."""

_ANSWER_SECONDS = 5.0
"""What a process that only waits for its baton takes at most to answer when nobody holds it."""

_TOO_EARLY = "the case ended before it was told to"


def with_torch(case: Case) -> PythonCase:
    """A case in Python, which finds torch under its name."""
    torch = {"kind": "import", "value": "torch"}
    return PythonCase(
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        globals={"torch": torch},
    )


class Count(NamedTuple):
    """What a case that was counted left."""

    out_file: Path
    """Callgrind's own file. It goes with the zygote, so copy what is to stay."""

    output: Output


class Sample(NamedTuple):
    """What a case that was timed left."""

    sampling: Sampling
    """Every block, in the order taken."""

    first_run: float
    """Seconds of the very first run, which is in no block: what is compiled is compiled there."""

    output: Output


class Session(Conversation):
    """A case whose blocks alternate with those of another process, on one core."""

    makes_output = MemoryFile

    def ask(self, request: Request, limit: float) -> None:
        super().ask(request, limit)
        size = self.next_message(BlockSize, _TOO_EARLY)
        self.number = size.number
        """Runs in a block that this process found fitting."""

        self.seconds = size.seconds
        """What such a block takes."""

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it take the blocks of its role, with the other process at the other baton."""
        self.say(blocks_of_role(order, role, number, batons))

    def blocks(self) -> BlockTimes:
        """What each block took; what the statement raises is a CaseFailedError.

        One whose time is up may have waited for the other: it answers once that is gone.
        """
        if self.remaining <= 0:
            self.wait(_ANSWER_SECONDS)
        return self.next_message(BlockTimes, _TOO_EARLY)


def blocks_of_role(
    order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
) -> TakeBlocks:
    """What tells a process to take the blocks of its role; see `torchmark_probe.zygote.cases`.

    `order` has the role of every block, and `batons` the pipe that each role reads.
    """
    return TakeBlocks(list(order), role, number, str(batons[role]), str(batons[1 - role]))


class Together(Conversation):
    """Several statements in one process, timed in rounds; see `torchmark_probe.zygote.rounds`.

    The time limit is that of a setup and of a block: it begins again with every turn.
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
        """Which statement runs, and since when."""
        try:
            turn, began = TURN.unpack((self._folder / TURN_FILE).read_bytes())
        except (OSError, struct.error):  # none has begun
            return 0, 0.0
        return int(turn), float(began)


class Loop(Conversation):
    """A case that runs until it is stopped, for somebody who looks at its process from outside."""

    def ask(self, request: Request, limit: float) -> None:
        super().ask(request, limit)
        ready = self.next_message(Looping, _TOO_EARLY)
        self.pid = ready.process
        """The process that runs the statement."""

        self.seconds_per_run = ready.seconds_per_run
        """What a run takes while nobody looks."""

    def listen_until(self, is_over: Callable[[], bool]) -> None:
        """Read what it prints meanwhile: a full pipe would stop it."""
        while not (is_over() or self.has_ended):
            self.wait(_LOOK_SECONDS)

    def stop(self) -> int:
        """Let the loop end, and return its runs; one that failed by then is a CaseFailedError."""
        self.say(Stop())
        return int(outcome_of(self.finish(), Value).value)

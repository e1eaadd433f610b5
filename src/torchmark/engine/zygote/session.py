"""A case whose blocks alternate with those of another process, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark_probe.zygote.messages import BlockSize, BlockTimes, TakeBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from torchmark.engine.zygote.conversation import Conversation
    from torchmark_probe.zygote.messages import Request

_TOO_EARLY = "the case ended before it was told to"


def blocks_of_role(
    order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
) -> TakeBlocks:
    """What tells a process to take the blocks of its role; see `torchmark_probe.loops.driven`.

    `order` has the role of every block, and `batons` the pipe that each role reads.
    """
    return TakeBlocks(list(order), role, number, str(batons[role]), str(batons[1 - role]))


class Session:
    """Open while the statement is set up in its process."""

    def __init__(self, conversation: Conversation, request: Request, limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        size = conversation.next_message(BlockSize, _TOO_EARLY)
        self.number = size.number
        """Runs in a block that this process found fitting."""

        self.seconds = size.seconds
        """What such a block takes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(
        self, order: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it take the blocks of its role, with the other process at the other baton."""
        self._conversation.say(blocks_of_role(order, role, number, batons))

    def blocks(self) -> list[float]:
        """The seconds of each block; what the statement raises is a CaseFailedError."""
        return self._conversation.next_message(BlockTimes, _TOO_EARLY).seconds

    def close(self) -> None:
        """End the process."""
        self._conversation.close()

"""A case whose blocks are taken in turns with those of another process, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

    from torchmark.run.zygote_case import Conversation


class TimedBlock(NamedTuple):
    """One block, and how steadily the core ran around it."""

    wall: float
    """Seconds on the wall."""

    fastest: float
    """The quicker of the two metronome readings around the block, in seconds."""

    slowest: float
    """The other one."""


def order_of(
    turns: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
) -> dict[str, Any]:
    """What tells a process to take the turns of its role, as `torchmark_probe.turns` has it."""
    return {
        "turns": list(turns),
        "role": role,
        "number": number,
        "own": str(batons[role]),
        "other": str(batons[1 - role]),
    }


def blocks_in(told: Mapping[str, Any]) -> list[TimedBlock]:
    """What a process says of its turns."""
    return list(map(TimedBlock, told["wall"], told["fastest"], told["slowest"]))


class Session:
    """Open while the statement is set up in its process."""

    def __init__(self, conversation: Conversation, request: dict[str, Any], limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        sized = self._next()
        self.number: int = sized["number"]
        """Runs in a block that this process found fitting."""

        self.seconds: float = sized["seconds"]
        """What such a block takes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(
        self, turns: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
    ) -> None:
        """Let it take the turns of its role, with the other process at the other baton."""
        self._conversation.say(order_of(turns, role, number, batons))

    def blocks(self) -> list[TimedBlock]:
        """What its turns gave; what the statement raises is a CaseFailedError."""
        return blocks_in(self._next())

    def close(self) -> None:
        """End the process."""
        self._conversation.close()

    def _next(self) -> dict[str, Any]:
        return self._conversation.next_message("the case ended before it was told to")

"""A case whose blocks are taken in turns with those of another process, on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from torchmark.engine.zygote.conversation import Conversation


def order_of(
    turns: Sequence[int], role: int, number: int, batons: tuple[Path, Path]
) -> dict[str, Any]:
    """What tells a process to take the turns of its role; see `torchmark_probe.loops.turns`."""
    return {
        "turns": list(turns),
        "role": role,
        "number": number,
        "own": str(batons[role]),
        "other": str(batons[1 - role]),
    }


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

    def blocks(self) -> list[float]:
        """The seconds of each block; what the statement raises is a CaseFailedError."""
        return list(self._next()["seconds"])

    def close(self) -> None:
        """End the process."""
        self._conversation.close()

    def _next(self) -> dict[str, Any]:
        return self._conversation.next_message("the case ended before it was told to")

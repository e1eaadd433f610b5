"""A case that runs block by block on demand, so that two processes can take turns on one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torchmark.errors import CaseFailedError
from torchmark.run.zygote_case import answer_of

if TYPE_CHECKING:
    from typing import Self

    from torchmark.run.zygote_case import Conversation


class TimedBlock(NamedTuple):
    """One block, and how steadily the core ran around it."""

    wall: float
    """Seconds on the wall."""

    cpu: float
    """Seconds of CPU time of the thread that ran it."""

    pace: float
    """The slower of the two metronome readings around the block, in seconds."""


class Session:
    """Open while the statement is set up in its process; `run` takes one block."""

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

    def run(self, number: int) -> TimedBlock:
        """One block of that many runs; what the statement raises is a CaseFailedError."""
        self._conversation.say({"number": number})
        told = self._next()
        return TimedBlock(told["wall"], told["cpu"], told["pace"])

    def close(self) -> None:
        """End the process."""
        self._conversation.close()

    def _next(self) -> dict[str, Any]:
        message = self._conversation.next_message()
        if message is not None:
            return message
        answer_of(self._conversation.finish())
        raise CaseFailedError("the case ended before it was told to", kind="lost")

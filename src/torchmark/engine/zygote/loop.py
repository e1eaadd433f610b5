"""A case that runs until it is stopped, for somebody who looks at its process from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmark.engine.zygote.conversation import answer_of

if TYPE_CHECKING:
    from typing import Self

    from torchmark.engine.zygote.conversation import Conversation

LOOP_FRAME = "statement"
"""The outermost frame of every picture of a loop, whatever it is called in Python or in C++."""


class Loop:
    """Open while the statement runs; the process ends with the `with` block at the latest."""

    def __init__(self, conversation: Conversation, request: dict[str, Any], limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        ready = conversation.next_message("the case ended before it was told to")
        self.pid: int = ready["process"]
        """The process that runs the statement."""

        self.seconds_per_run: float = ready["seconds_per_run"]
        """What a run takes while nobody looks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conversation.close()

    def stop(self) -> int:
        """Let the loop end, and return its runs; one that failed by then is a CaseFailedError."""
        self._conversation.say({"stop": True})
        runs: int = answer_of(self._conversation.finish())["runs"]
        return runs

"""A case that runs until it is stopped, for somebody who looks at its process from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.zygote.conversation import outcome_of
from torchmark_probe.zygote.messages import Looped, Looping, Stop

if TYPE_CHECKING:
    from typing import Self

    from torchmark.engine.zygote.conversation import Conversation
    from torchmark_probe.zygote.messages import Request

LOOP_FRAME = "statement"
"""The outermost frame of every picture of a loop, whatever it is called in Python or in C++."""


class Loop:
    """Open while the statement runs; the process ends with the `with` block at the latest."""

    def __init__(self, conversation: Conversation, request: Request, limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        ready = conversation.next_message(Looping, "the case ended before it was told to")
        self.pid = ready.process
        """The process that runs the statement."""

        self.seconds_per_run = ready.seconds_per_run
        """What a run takes while nobody looks."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conversation.close()

    def stop(self) -> int:
        """Let the loop end, and return its runs; one that failed by then is a CaseFailedError."""
        self._conversation.say(Stop())
        return outcome_of(self._conversation.finish(), Looped).runs

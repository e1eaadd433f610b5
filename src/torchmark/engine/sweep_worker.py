"""A process that measures the cases of a sweep one after the other, and tells of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark_probe.sweep.messages import FileRead, Swept

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchmark.engine.zygote.conversation import Conversation
    from torchmark.engine.zygote.zygote import Zygote
    from torchmark_probe.sweep.messages import Sweep
    from torchmark_probe.zygote.messages import Request

SWEEP_MODULES = (
    "torchmark_probe.sweep.worker",
    "torchmark_probe.replay.machine_speed",
    "torch.utils.flop_counter",
)
"""What a zygote imports before it can make such a process."""


class SweepWorker:
    """Open while there are cases left; `limit` is the seconds that each of them may take."""

    def __init__(self, conversation: Conversation, request: Request, limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        conversation.next_message(FileRead, "the sweep ended before its first case")
        conversation.begin_anew()

    def next_result(self) -> Swept:
        """What came of the next case; how the process ended, if it did, is a CaseFailedError."""
        swept = self._conversation.next_message(Swept, "the process ended before this case")
        self._conversation.begin_anew()
        return swept

    def close(self) -> None:
        """End the process."""
        self._conversation.close()


def start_sweep(
    zygote: Zygote,
    sweep: Sweep,
    *,
    cores: Collection[int] = (),
    time_limit: float = TIME_LIMIT,
) -> SweepWorker:
    """A process of its own for the cases of a sweep.

    The zygote has imported `SWEEP_MODULES`. The time limit is that of each case.
    """
    return zygote.open(SweepWorker, sweep, cores=cores, time_limit=time_limit)

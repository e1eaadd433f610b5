"""A process that measures the cases of a sweep one after the other, and tells of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmark.engine.pace import process_metronome
from torchmark.engine.zygote.cases import TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torchmark.engine.zygote.conversation import Conversation
    from torchmark.engine.zygote.zygote import Zygote

SWEEP_MODULES = (
    "torchmark_probe.sweep.worker",
    "torchmark_probe.replay.machine_speed",
    "torch.utils.flop_counter",
)
"""What a zygote imports before it can make such a process."""


class SweepWorker:
    """Open while there are cases left; `limit` is the seconds that each of them may take."""

    def __init__(self, conversation: Conversation, request: dict[str, Any], limit: float) -> None:
        self._conversation = conversation
        conversation.begin(request, limit)
        conversation.next_message("the sweep ended before its first case")  # the file is read
        conversation.begin_anew()

    def next_result(self) -> dict[str, Any]:
        """The result of the next case; how the process ended, if it did, is a CaseFailedError."""
        message = self._conversation.next_message("the process ended before this case")
        self._conversation.begin_anew()
        return message

    def close(self) -> None:
        """End the process."""
        self._conversation.close()


def start_sweep(
    zygote: Zygote,
    order: Mapping[str, Any],
    *,
    cores: Collection[int] = (),
    time_limit: float = TIME_LIMIT,
) -> SweepWorker:
    """A process of its own for the cases of a sweep; see `torchmark_probe.sweep.worker`.

    The zygote has imported `SWEEP_MODULES`. The time limit is that of each case.
    """
    request = {
        "kind": "sweep", "cores": sorted(cores), "memory": None,
        "quiet_pace": process_metronome().quiet_pace, **order,
    }  # fmt: skip
    return zygote.opened(SweepWorker, request, time_limit)

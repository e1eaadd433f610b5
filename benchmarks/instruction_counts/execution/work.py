"""A statement to be measured, as the instruction-count suite's Runner takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from core.api import AutoLabels, TimerArgs
from core.types import Label


@dataclass(frozen=True, eq=False)
class WorkOrder:
    label: Label
    autolabels: AutoLabels
    timer_args: TimerArgs
    source_cmd: str | None = None
    """Another environment: `torchmark ab` compares those."""

    timeout: float | None = None
    """Seconds for each count; torchmark's own limit if None."""

    retries: int = 0
    """Accepted and not needed: a statement that is stopped at its limit would be so again."""

    def __str__(self) -> str:
        return json.dumps(
            {
                "label": self.label,
                "autolabels": self.autolabels.as_dict,
                "num_threads": self.timer_args.num_threads,
            }
        )

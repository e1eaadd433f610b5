"""The best speeds of this machine: what times are held against in a replay and in a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.errors import TorchmarkError
from torchmark.model.run import MachineSpeeds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from torchmark.engine.zygote.zygote import Zygote

SPEED_MODULES = ("torchmark_probe.replay.work",)
"""What a zygote imports before it can tell."""


def measure_speeds(
    zygote: Zygote, dtypes: Iterable[str], cores: Collection[int] = ()
) -> MachineSpeeds | None:
    """For these types of elements ("float32"), with the threads of the zygote.

    None if they cannot be had: a report is worth having without.
    """
    function = "torchmark_probe.replay.work.machine_speeds"
    try:
        speeds = zygote.call(function, sorted(set(dtypes)), cores=cores)
    except TorchmarkError:
        return None
    return MachineSpeeds(
        small_call_seconds=speeds["small_call_seconds"],
        bytes_per_second={int(size): speed for size, speed in speeds["bytes_per_second"].items()},
        flops_per_second=speeds["flops_per_second"],
    )

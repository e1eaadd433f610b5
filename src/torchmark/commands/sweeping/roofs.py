"""The best speeds of this machine, for the roofline: asked of a zygote that is there anyway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import TorchmarkError
from torchmark.report.sweep_roofline import Roofs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.engine.zygote.zygote import Zygote
    from torchmark.model.sweep_record import SweepRow

_TORCH_NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


def roofs_of(rows: Sequence[SweepRow], zygote: Zygote) -> Roofs | None:
    """For the dtypes of the rows; None if it cannot be had: a page is worth having without."""
    types = {_TORCH_NAMES[row.dtype]: row.dtype for row in rows if row.dtype in _TORCH_NAMES}
    case = PythonCase(
        stmt="pass",
        setup="from torchmark_probe.replay.machine_speed import tell\ntell(types)",
        globals={"types": {"kind": "json", "value": sorted(types)}},
    )
    try:
        told = json.loads(zygote.run(case).stdout.splitlines()[-1])
    except TorchmarkError:
        return None
    speeds = {types[name]: speed for name, speed in told["flops_per_second"].items()}
    if not speeds:
        return None
    return Roofs(
        flop_per_s=speeds,
        bytes_per_s=max(told["bytes_per_second"].values()),
        origin="products of matrices and copies in the cache, measured on this machine",
    )

"""`torch.utils.benchmark.utils.common` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.engine.machine import set_torch_threads
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark.model.units import ordered_unique, select_unit, trim_sigfig, unit_to_english
from torchmark.utils.torchs import torchs_names

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

__getattr__ = torchs_names(__name__)

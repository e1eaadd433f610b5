"""`torch.utils.benchmark.utils.common` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.engine.machine import set_torch_threads as set_torch_threads
from torchmark.model.case import TaskSpec as TaskSpec
from torchmark.model.measurement import Measurement as Measurement
from torchmark.model.units import ordered_unique as ordered_unique
from torchmark.model.units import select_unit as select_unit
from torchmark.model.units import trim_sigfig as trim_sigfig
from torchmark.model.units import unit_to_english as unit_to_english
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)

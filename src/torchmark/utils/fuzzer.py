"""`torch.utils.benchmark.utils.fuzzer` in torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.define.fuzz import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from torchmark.utils.torchs import torchs_names

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

__getattr__ = torchs_names(__name__)

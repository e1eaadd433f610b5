"""`torch.utils.benchmark.utils.fuzzer` under torchmark; see `torchmark.utils`."""

from __future__ import annotations

from torchmark.define.fuzz import FuzzedParameter as FuzzedParameter
from torchmark.define.fuzz import FuzzedTensor as FuzzedTensor
from torchmark.define.fuzz import Fuzzer as Fuzzer
from torchmark.define.fuzz import ParameterAlias as ParameterAlias
from torchmark.utils.torchs import torchs_names

__getattr__ = torchs_names(__name__)

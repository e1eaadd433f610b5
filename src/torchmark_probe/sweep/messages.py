"""What is asked of a process that sweeps, and what it tells of each case; no torch is needed."""

import dataclasses
from typing import Dict, List, Optional, Union

from torchmark_probe.loops.sampling import Sampling
from torchmark_probe.zygote.messages import Message


@dataclasses.dataclass(frozen=True)
class Input(Message):
    """An input of the model."""

    dims: List[Union[str, int]]
    """Its shape: names of dimensions, or sizes."""

    dtype: str
    """Of the elements, where they are integers."""

    below: Union[str, int, None]
    """Integers lie below this size or dimension; None for floating-point numbers."""


@dataclasses.dataclass(frozen=True)
class SweepCase(Message):
    """The model at one point, in one config."""

    id: str
    dims: Dict[str, int]
    """Sizes by the names of dimensions."""

    dtype: str
    backend: str
    phase: str
    timed: bool
    """Whether more than its kernels is asked for."""


@dataclasses.dataclass(frozen=True)
class Sweep(Message):
    """Many cases of one model, one after the other."""

    file: Optional[str]
    """The user's file, whose `model` it is."""

    init: List[str]
    """The dimensions that the model's constructor takes."""

    inputs: List[Input]
    threads: int
    folder: str
    """For what compilers write."""

    kernels: bool
    """Whether to look for the kernels of each case too."""

    cases: List[SweepCase]
    quiet_pace: float
    """The best pace of the reference loop that is known; see `loops.sampling`."""


@dataclasses.dataclass(frozen=True)
class FileRead(Message):
    """The user's file has been run; cases follow."""


@dataclasses.dataclass(frozen=True)
class Kernel(Message):
    """What one run does in one kernel."""

    kernel: str
    calls: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Swept(Message):
    """What was found out of one case."""

    status: str
    """measured, skipped or failed."""

    reason: str = ""
    """Why it was not measured, or a warning about the result; empty for neither."""

    sampling: Optional[Sampling] = None
    max_error: Optional[float] = None
    """The largest difference from eager's result."""

    prepare_seconds: Optional[float] = None
    """Compiling or exporting, the first run included."""

    flops: Optional[int] = None
    bytes: Optional[int] = None
    peak_memory_bytes: Optional[int] = None
    kernels: Optional[List[Kernel]] = None
    """None where they were not asked for."""

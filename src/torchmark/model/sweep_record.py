"""What a sweep leaves: one row for each point of the dimensions, each job config and each phase.

The fields are the columns of the CSV, in this order and by these names: docs/sweep.md has them for
people. Seconds are of one run.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

Dims = tuple[tuple[str, int], ...]
"""The name of each dimension and its size, in the order of `input_scales`."""


class Phase(enum.Enum):
    """What one run does."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward+backward"
    BACKWARD = "backward"
    """Gradients of a fixed output gradient, on a graph that is kept; nothing accumulates."""


class RowStatus(enum.Enum):
    """What came of a case."""

    MEASURED = "measured"
    SKIPPED = "skipped"
    """The backend cannot run it, and the reason says why."""

    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One case."""

    case_id: str
    """Sixteen hexadecimal digits that follow from all that defines the case."""

    model: str
    dims: Dims
    dtype: str
    """fp32, fp16, bf16, fp64 or int8."""

    backend: str
    """pt, compile or ort."""

    phase: Phase
    threads: int

    samples: int = 0
    """Blocks that were timed; the statistics are of them."""

    median_s: float | None = None
    mean_s: float | None = None
    min_s: float | None = None
    p95_s: float | None = None
    std_s: float | None = None
    low_s: float | None = None
    """The 95 % interval of the median, from here."""

    high_s: float | None = None
    """To here."""

    flops: int | None = None
    """Of one run; None where nobody knows."""

    bytes: int | None = None
    """Inputs, parameters and outputs, each once."""

    flop_per_s: float | None = None
    bytes_per_s: float | None = None
    peak_memory_bytes: int | None = None
    """What a run had allocated at most, over what was there before."""

    max_error: float | None = None
    """The largest difference from eager's result in the same dtype."""

    prepare_s: float | None = None
    """The compilation by torch.compile, or the export to ONNX."""

    status: RowStatus = RowStatus.MEASURED
    reason: str = ""
    """Why there is no measurement."""

    environment: str = ""
    """The id of the environment, as the store has it."""

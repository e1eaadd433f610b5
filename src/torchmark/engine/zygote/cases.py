"""What a zygote is given, a case in Python or a compiled one, and what it gives back for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from torchmark_probe.zygote.messages import NativeCase, PythonCase

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchmark_probe.loops.sampling import Sampling

__all__ = ["TIME_LIMIT", "Count", "NativeCase", "Output", "PythonCase", "Ready", "Sample"]

Ready: TypeAlias = PythonCase | NativeCase
"""A case that a zygote can run."""

TIME_LIMIT = 300.0
"""Seconds that a case may take where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a case said of itself, beside what was asked for."""

    stdout: str
    """What it printed; a long text has its middle left out, and says so."""

    stderr: str
    """What it wrote to standard error, in the same way."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    """What its code reported (`torchmark_probe.zygote.handlers.report`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a case that was counted left."""

    out_file: Path
    """Callgrind's own file. It goes with the zygote, so copy what is to stay."""

    output: Output
    loop_seconds: float
    """What the counted loop took, under callgrind."""

    seconds: float
    """What the whole case took, from the fork to the end."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its code reported."""
        return self.output.facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a case that was timed left."""

    sampling: Sampling
    """Every block, in the order taken."""

    first_run: float
    """Seconds of the very first run, which is in no block: what is compiled is compiled there."""

    output: Output
    seconds: float
    """What the whole case took, from the fork to the end."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What its code reported."""
        return self.output.facts

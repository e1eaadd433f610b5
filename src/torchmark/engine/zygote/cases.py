"""What a zygote is given, a case in Python or a compiled one, and what it gives back for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchmark.engine.zygote.conversation import Output
    from torchmark_probe.loops.sampling import Sampling

TIME_LIMIT = 300.0
"""Seconds that a case may take where nothing else is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCase:
    """A statement in Python, with all that it needs, as text and files."""

    stmt: str
    """What is run again and again."""

    setup: str = "pass"
    """What is run once before."""

    global_setup: str = ""
    """Run as the code of a module before the setup; its names are globals."""

    globals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How to make each global: {"kind": "json", "literal" or "import", "value": ...}, or
    {"kind": "torch", "module" or "script", "path": ...}."""

    def request(self) -> dict[str, Any]:
        return {
            "stmt": self.stmt,
            "setup": self.setup,
            "global_setup": self.global_setup,
            "globals": {name: dict(recipe) for name, recipe in self.globals.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCase:
    """A compiled statement: an entry point of a shared object; see `loops.native`."""

    library: Path
    symbol: str

    def request(self) -> dict[str, Any]:
        return {"library": str(self.library), "symbol": self.symbol}


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What a case that was counted left."""

    out_file: Path
    """Callgrind's own file. It goes with the zygote, so copy what is to stay."""

    output: Output
    """What the case printed."""

    loop_seconds: float
    """What the counted loop took, under callgrind."""

    seconds: float
    """What the whole case took, from the fork to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a case that was timed left."""

    sampling: Sampling
    """Every block, in the order taken."""

    first_run: float
    """Seconds of the very first run, which is in no block: what is compiled is compiled there."""

    output: Output
    """What the case printed."""

    seconds: float
    """What the whole case took, from the fork to the end."""

"""What definitions of the instruction-count suite import from `core.api`."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from torchmark import (
    GroupedBenchmark,
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    GroupedVariants,
    Language,
    TimerArgs,
)

__all__ = [
    "AutoLabels",
    "AutogradMode",
    "GroupedBenchmark",
    "GroupedModules",
    "GroupedSetup",
    "GroupedStmts",
    "GroupedVariants",
    "Language",
    "RuntimeMode",
    "TimerArgs",
]


class RuntimeMode(enum.Enum):
    EAGER = "Eager"
    JIT = "TorchScript"
    COMPILED = "torch.compile"
    """Not in the original."""

    EXPLICIT = ""
    """Given as TimerArgs."""


class AutogradMode(enum.Enum):
    FORWARD = "Forward"
    FORWARD_BACKWARD = "Forward + Backward"
    EXPLICIT = ""
    """Given as TimerArgs."""


@dataclass(frozen=True)
class AutoLabels:
    """The labels of a statement that follow from how a definition is expanded."""

    runtime: RuntimeMode
    autograd: AutogradMode
    language: Language

    @property
    def as_dict(self) -> dict[str, str]:
        language = "Python" if self.language is Language.PYTHON else "C++"
        return {
            "runtime": self.runtime.value,
            "autograd": self.autograd.value,
            "language": language,
        }

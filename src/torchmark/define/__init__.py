"""What people write: statements, modules and variants, in Python, C++ or both."""

from torchmark.define.grouped import (
    GroupedBenchmark,
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    GroupedVariants,
    TimerArgs,
)
from torchmark.define.signature import Signature
from torchmark.define.skips import EnvironmentFacts, SkipCondition, skip_if

__all__ = [
    "EnvironmentFacts",
    "GroupedBenchmark",
    "GroupedModules",
    "GroupedSetup",
    "GroupedStmts",
    "GroupedVariants",
    "Signature",
    "SkipCondition",
    "TimerArgs",
    "skip_if",
]

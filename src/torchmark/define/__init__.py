"""What people write: statements, modules and variants, in Python, C++ or both."""

from torchmark.define.grouped import (
    GroupedBenchmark,
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    GroupedVariants,
)
from torchmark.define.signature import Signature
from torchmark.define.skips import EnvironmentFacts, SkipCondition, skip_if
from torchmark.define.timer_args import TimerArgs

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

"""torchmark: micro-benchmarks for PyTorch whose numbers can be believed on a noisy machine.

`import torchmark as benchmark` stands in for `import torch.utils.benchmark as benchmark`.
Names are loaded when they are first used, so that importing torchmark does not import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchmark.capture.capture import Capture
    from torchmark.commands.ab import ab
    from torchmark.commands.functions import FunctionsCompared
    from torchmark.commands.replay import replay
    from torchmark.commands.run import run
    from torchmark.commands.sweep import Sweep, sweep
    from torchmark.compare import Colorize, Compare
    from torchmark.compiling import bench_all, benchmark_compile
    from torchmark.define import (
        EnvironmentFacts,
        GroupedBenchmark,
        GroupedModules,
        GroupedSetup,
        GroupedStmts,
        GroupedVariants,
        SkipCondition,
        TimerArgs,
        skip_if,
    )
    from torchmark.define.expansion import materialize, selected
    from torchmark.define.fuzz import (
        FuzzedParameter,
        FuzzedSparseTensor,
        FuzzedTensor,
        Fuzzer,
        ParameterAlias,
    )
    from torchmark.define.sweep import indices, linspace, logspace
    from torchmark.engine.local_torch import set_torch_threads
    from torchmark.engine.transfer import CopyIfCallgrind
    from torchmark.errors import TorchmarkError
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.function_counts import FunctionCount, FunctionCounts
    from torchmark.model.language import Language
    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Metric, Result, Status
    from torchmark.model.result_warnings import ResultWarning, WarningKind
    from torchmark.model.run import Run
    from torchmark.model.task_spec import TaskSpec
    from torchmark.model.units import ordered_unique, select_unit, trim_sigfig, unit_to_english
    from torchmark.op_fuzzers import (
        BinaryOpFuzzer,
        BinaryOpSparseFuzzer,
        SpectralOpFuzzer,
        UnaryOpFuzzer,
        UnaryOpSparseFuzzer,
    )
    from torchmark.store import open_store
    from torchmark.timers import Timer, measure, timer
    from torchmark.together import count_together, measure_together

__version__ = "0.2.0"

_HOMES = {
    "torchmark.capture.capture": ("Capture",),
    "torchmark.compare": ("Colorize", "Compare"),
    "torchmark.compiling": ("bench_all", "benchmark_compile"),
    "torchmark.define": (
        "EnvironmentFacts",
        "GroupedBenchmark",
        "GroupedModules",
        "GroupedSetup",
        "GroupedStmts",
        "GroupedVariants",
        "SkipCondition",
        "TimerArgs",
        "skip_if",
    ),
    "torchmark.errors": ("TorchmarkError",),
    "torchmark.define.expansion": ("materialize", "selected"),
    "torchmark.define.fuzz": (
        "FuzzedParameter",
        "FuzzedSparseTensor",
        "FuzzedTensor",
        "Fuzzer",
        "ParameterAlias",
    ),
    "torchmark.model.callgrind_stats": ("CallgrindStats",),
    "torchmark.model.function_counts": ("FunctionCount", "FunctionCounts"),
    "torchmark.model.language": ("Language",),
    "torchmark.model.measurement": ("Measurement",),
    "torchmark.model.result_warnings": ("ResultWarning", "WarningKind"),
    "torchmark.model.task_spec": ("TaskSpec",),
    "torchmark.model.units": ("ordered_unique", "select_unit", "trim_sigfig", "unit_to_english"),
    "torchmark.op_fuzzers": (
        "BinaryOpFuzzer",
        "BinaryOpSparseFuzzer",
        "SpectralOpFuzzer",
        "UnaryOpFuzzer",
        "UnaryOpSparseFuzzer",
    ),
    "torchmark.engine.local_torch": ("set_torch_threads",),
    "torchmark.engine.transfer": ("CopyIfCallgrind",),
    "torchmark.commands.sweep": ("Sweep", "sweep"),
    "torchmark.define.sweep": ("indices", "linspace", "logspace"),
    "torchmark.commands.replay": ("replay",),
    "torchmark.commands.run": ("run",),
    "torchmark.model.run": ("Run",),
    "torchmark.model.result": ("Metric", "Result", "Status"),
    "torchmark.store": ("open_store",),
    "torchmark.timers": ("Timer", "measure", "timer"),
    "torchmark.together": ("count_together", "measure_together"),
    "torchmark.commands.ab": ("ab",),
    "torchmark.commands.functions": ("FunctionsCompared",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BinaryOpFuzzer",
    "BinaryOpSparseFuzzer",
    "CallgrindStats",
    "Capture",
    "Colorize",
    "Compare",
    "CopyIfCallgrind",
    "EnvironmentFacts",
    "FunctionCount",
    "FunctionCounts",
    "FunctionsCompared",
    "FuzzedParameter",
    "FuzzedSparseTensor",
    "FuzzedTensor",
    "Fuzzer",
    "GroupedBenchmark",
    "GroupedModules",
    "GroupedSetup",
    "GroupedStmts",
    "GroupedVariants",
    "Language",
    "Measurement",
    "Metric",
    "ParameterAlias",
    "Result",
    "ResultWarning",
    "Run",
    "SkipCondition",
    "SpectralOpFuzzer",
    "Status",
    "Sweep",
    "TaskSpec",
    "Timer",
    "TimerArgs",
    "TorchmarkError",
    "UnaryOpFuzzer",
    "UnaryOpSparseFuzzer",
    "WarningKind",
    "ab",
    "bench_all",
    "benchmark_compile",
    "count_together",
    "indices",
    "linspace",
    "logspace",
    "materialize",
    "measure",
    "measure_together",
    "open_store",
    "ordered_unique",
    "replay",
    "run",
    "select_unit",
    "selected",
    "set_torch_threads",
    "skip_if",
    "sweep",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'torchmark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

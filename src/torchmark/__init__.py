"""torchmark: micro-benchmarks for PyTorch whose numbers can be believed on a noisy machine.

`import torchmark as benchmark` stands in for `import torch.utils.benchmark as benchmark`.
Names are loaded when they are first used, so that importing torchmark does not import torch.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:  # every public name: type checkers follow these imports, `_find_homes` reads them
    from torchmark.capture.capture import Capture as Capture
    from torchmark.commands.ab import ab as ab
    from torchmark.commands.functions import FunctionsCompared as FunctionsCompared
    from torchmark.commands.replay import replay as replay
    from torchmark.commands.run import run as run
    from torchmark.commands.sweep import Sweep as Sweep
    from torchmark.commands.sweep import sweep as sweep
    from torchmark.compare import Colorize as Colorize
    from torchmark.compare import Compare as Compare
    from torchmark.compiling import bench_all as bench_all
    from torchmark.compiling import benchmark_compile as benchmark_compile
    from torchmark.define.expansion import materialize as materialize
    from torchmark.define.fuzz import FuzzedParameter as FuzzedParameter
    from torchmark.define.fuzz import FuzzedSparseTensor as FuzzedSparseTensor
    from torchmark.define.fuzz import FuzzedTensor as FuzzedTensor
    from torchmark.define.fuzz import Fuzzer as Fuzzer
    from torchmark.define.fuzz import ParameterAlias as ParameterAlias
    from torchmark.define.grouped import GroupedBenchmark as GroupedBenchmark
    from torchmark.define.grouped import GroupedModules as GroupedModules
    from torchmark.define.grouped import GroupedSetup as GroupedSetup
    from torchmark.define.grouped import GroupedStmts as GroupedStmts
    from torchmark.define.grouped import GroupedVariants as GroupedVariants
    from torchmark.define.grouped import TimerArgs as TimerArgs
    from torchmark.define.selection import selected as selected
    from torchmark.define.skips import EnvironmentFacts as EnvironmentFacts
    from torchmark.define.skips import SkipCondition as SkipCondition
    from torchmark.define.skips import skip_if as skip_if
    from torchmark.define.sweep.axes import linspace as linspace
    from torchmark.define.sweep.axes import logspace as logspace
    from torchmark.define.sweep.spec import indices as indices
    from torchmark.engine.machine import set_torch_threads as set_torch_threads
    from torchmark.engine.user_code import CopyIfCallgrind as CopyIfCallgrind
    from torchmark.errors import TorchmarkError as TorchmarkError
    from torchmark.model.callgrind_stats import CallgrindStats as CallgrindStats
    from torchmark.model.case import Language as Language
    from torchmark.model.case import TaskSpec as TaskSpec
    from torchmark.model.function_counts import FunctionCount as FunctionCount
    from torchmark.model.function_counts import FunctionCounts as FunctionCounts
    from torchmark.model.measurement import Measurement as Measurement
    from torchmark.model.result import Metric as Metric
    from torchmark.model.result import Result as Result
    from torchmark.model.result import Status as Status
    from torchmark.model.result_warnings import ResultWarning as ResultWarning
    from torchmark.model.result_warnings import WarningKind as WarningKind
    from torchmark.model.run import Run as Run
    from torchmark.model.units import ordered_unique as ordered_unique
    from torchmark.model.units import select_unit as select_unit
    from torchmark.model.units import trim_sigfig as trim_sigfig
    from torchmark.model.units import unit_to_english as unit_to_english
    from torchmark.op_fuzzers import BinaryOpFuzzer as BinaryOpFuzzer
    from torchmark.op_fuzzers import BinaryOpSparseFuzzer as BinaryOpSparseFuzzer
    from torchmark.op_fuzzers import SpectralOpFuzzer as SpectralOpFuzzer
    from torchmark.op_fuzzers import UnaryOpFuzzer as UnaryOpFuzzer
    from torchmark.op_fuzzers import UnaryOpSparseFuzzer as UnaryOpSparseFuzzer
    from torchmark.patch import patch_torch as patch_torch
    from torchmark.store import open_store as open_store
    from torchmark.timers import Timer as Timer
    from torchmark.timers import measure as measure
    from torchmark.timers import timer as timer
    from torchmark.together import count_together as count_together
    from torchmark.together import measure_together as measure_together


@cache
def _find_homes() -> dict[str, str]:
    """The module of every public name, by the imports above."""
    import ast  # noqa: PLC0415 - importing torchmark stays quick
    import pkgutil  # noqa: PLC0415

    source = pkgutil.get_data(__name__, "__init__.py") or b""  # from a zip archive too
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return {name.asname: str(node.module) for node in imports for name in node.names if name.asname}


def __getattr__(name: str) -> Any:
    homes = _find_homes()
    if name == "__all__":
        return sorted(homes)
    if name == "utils":  # torch's package has it without an import of its own
        return importlib.import_module("torchmark.utils")
    if name not in homes:
        raise AttributeError(f"module 'torchmark' has no attribute {name!r}")
    value = getattr(importlib.import_module(homes[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_find_homes()})

"""The modules of `torch.utils.benchmark.utils`, so that imports from there work under torchmark.

Each has torchmark's class or function where there is one. Every other name, those that begin with
an underscore too, is torch's own, taken when it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = (
    "_stubs",
    "common",
    "compare",
    "compile",
    "cpp_jit",
    "fuzzer",
    "sparse_fuzzer",
    "timer",
    "valgrind_wrapper",
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'torchmark.utils' has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")

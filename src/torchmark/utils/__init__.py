"""The modules of `torch.utils.benchmark.utils`, so that imports from there work with torchmark.

Each module has torchmark's class or function if there is one. All other names, including those that
begin with an underscore, are torch's and are looked up on first use.
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

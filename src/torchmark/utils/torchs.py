"""Access to torch's own names, even where a torchmark module replaces torch's module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

TORCHS_PACKAGE = "torch.utils.benchmark"

_replaced: dict[str, ModuleType] = {}
"""torch's modules that were replaced by torchmark's."""


def name_at_torch(module: str) -> str:
    """
    >>> name_at_torch("torchmark.utils.common")
    'torch.utils.benchmark.utils.common'
    """
    return module.replace("torchmark", TORCHS_PACKAGE, 1)


def torchs_names(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for this module that finds the names of torch's module."""
    original = name_at_torch(module)

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if sys.modules.get(original) is sys.modules[module]:
            found = _replaced.get(original) or _load_replaced(original)
        else:
            found = importlib.import_module(original)
        if not hasattr(found, name):
            raise AttributeError(f"neither {module!r} nor {original!r} has the attribute {name!r}")
        return getattr(found, name)

    return find


def _load_replaced(original: str) -> ModuleType:
    """Load torch's module, which had not been imported before it was replaced."""
    path = _replaced[original.rpartition(".")[0]].__path__
    spec = PathFinder.find_spec(original, path)
    assert spec is not None, "torch has each module that torchmark replaces"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _replaced[original] = module
    return module


def replace_at_torch(module: str) -> None:
    """Replace torch's module by this module of torchmark."""
    original = name_at_torch(module)
    ours = importlib.import_module(module)
    theirs = sys.modules.get(original)
    if theirs is not None and theirs is not ours:
        _replaced[original] = theirs
        if hasattr(ours, "__path__"):  # so that torch's other modules are still found
            ours.__path__.extend(theirs.__path__)
    sys.modules[original] = ours

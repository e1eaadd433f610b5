"""The package of `timer_interface`, as in torch; see `torchmark.utils`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "timer_interface":  # in torch, it can be used without importing it
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")

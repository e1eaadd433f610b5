"""Where torch has `timer_interface`; see `torchmark.utils`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "timer_interface":  # torch's package has it without an import of its own
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")

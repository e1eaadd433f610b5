"""The one place where the control side imports torch, when it needs it."""

from __future__ import annotations

import sys
from typing import Any

from torchmark.errors import MissingTorchError


def import_torch() -> Any:
    """torch, or an error that says which interpreter lacks it."""
    try:
        import torch  # noqa: PLC0415 - importing torchmark must not import torch
    except ImportError as error:
        raise MissingTorchError(
            f"{sys.executable} cannot import torch ({error}); install it with "
            "'python -m pip install torch', or run torchmark with the interpreter that has it"
        ) from error
    return torch

"""torch in the calling process: imported when it is needed, with a number of threads."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torchmark.arguments import check_count
from torchmark.errors import MissingTorchError

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """torch works with `n` threads inside the block, and with as many as before after it.

    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with set_torch_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(check_count("the number of threads", n))
    try:
        yield
    finally:
        torch.set_num_threads(before)

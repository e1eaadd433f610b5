"""torch's threads, set for a while and put back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.arguments import checked_count
from torchmark.engine.torch_import import import_torch

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    torch.set_num_threads(checked_count("the number of threads", n))
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Calls of PyTorch's own operator samples (OpInfo), captured: what replay was not written for."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import torch

import torchmark
from torchmark.define.recorded import call_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DTYPES = (torch.float32, torch.int64)


def operators() -> list[Any]:
    """OpInfo of every operator; its import takes seconds."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    return list(op_db)


def captured(infos: Iterable[Any], most: int) -> list[str]:
    """The distinct calls of at most so many samples of each operator and dtype.

    Operators that do not run on this machine (those written for CUDA) give what they called
    before they said so.
    """
    texts: dict[str, None] = {}
    for info in infos:
        for dtype in DTYPES:
            if dtype in info.supported_dtypes("cpu"):
                texts.update(dict.fromkeys(_calls(info, dtype, most)))
    return list(texts)


def _calls(info: Any, dtype: torch.dtype, most: int) -> Iterator[str]:
    torch.manual_seed(0)
    random.seed(0)
    samples = list(itertools.islice(info.sample_inputs("cpu", dtype), most))
    with torchmark.Capture() as capture:
        for sample in samples:
            try:
                info(sample.input, *sample.args, **sample.kwargs)
            except (AssertionError, RuntimeError, NotImplementedError):
                continue
    yield from map(call_text, capture.trace().calls)

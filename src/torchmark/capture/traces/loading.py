"""A trace from a file, whichever of the known forms it has: seen by content, not by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from torchmark.capture.traces.chakra import read_chakra
from torchmark.capture.traces.cnt_text import read_cnt
from torchmark.capture.traces.reading import read_trace
from torchmark.capture.traces.text import first_bytes
from torchmark.errors import TraceFileError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from torchmark.model.trace import Trace

_FORMS: tuple[tuple[re.Pattern[bytes], Callable[[Path], Trace]], ...] = (
    (re.compile(rb'\s*\{\s*"trace"\s*:'), read_trace),
    (re.compile(rb"\s*Operator:"), read_cnt),
    (re.compile(rb'\s*\{\s*"schema"\s*:'), read_chakra),
)

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".txt", ".txt.gz")

_LONGEST_BEGINNING = 4096


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """The trace in a file: torchmark's own, the `cnt:` text, or PyTorch's execution trace."""
    file = Path(path)
    beginning = first_bytes(file, _LONGEST_BEGINNING)
    if not beginning.strip():
        raise TraceFileError(f"{file}: is empty, or cut off at its beginning")
    for pattern, read in _FORMS:
        if pattern.match(beginning):
            return read(file)
    raise TraceFileError(
        f"{file}: is not a trace. torchmark reads what `torchmark capture` writes, text with "
        "Operator: and cnt: lines, and the JSON of PyTorch's ExecutionTraceObserver"
    )


def is_named_like_a_trace(name: str) -> bool:
    """Whether a file of this name is meant as a trace.

    >>> is_named_like_a_trace("step.jsonl.gz"), is_named_like_a_trace("bench_add.py")
    (True, False)
    """
    return name.lower().endswith(_SUFFIXES)

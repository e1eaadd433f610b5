"""The zygotes of this process: each starts once, stays warm, and ends with the process."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import NamedTuple

from torchmark.engine.interpreters import interpreter
from torchmark.engine.zygote.zygote import Zygote


class _Key(NamedTuple):
    """What makes two zygotes the same."""

    torch_file: str
    torch_version: str | None
    threads: int
    under_callgrind: bool


_warm: dict[_Key, Zygote] = {}
_lock = threading.Lock()


def zygote_for(*, threads: int = 1, under_callgrind: bool = False) -> Zygote:
    """The zygote for this interpreter's torch, number of threads and mode.

    It starts with its first case, or by its `start`, and stays warm.
    """
    ours = interpreter(sys.executable)
    key = _Key(ours.torch_file, ours.torch_version, threads, under_callgrind)
    with _lock:
        if key not in _warm:
            _warm[key] = Zygote(threads=threads, under_callgrind=under_callgrind)
        return _warm[key]


def close_all() -> None:
    """End every zygote of this process; the next use starts a new one."""
    with _lock:
        zygotes = list(_warm.values())
        _warm.clear()
    for zygote in zygotes:
        zygote.close()


def _forget() -> None:
    """In a fork of this process: the zygotes belong to the parent, which still needs them."""
    global _lock  # noqa: PLW0603 - the old one may be held by a thread that this process lacks
    _lock = threading.Lock()
    _warm.clear()


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)

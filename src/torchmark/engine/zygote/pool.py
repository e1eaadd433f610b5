"""Holds zygotes: one per launch, started when it is needed and ended with the pool.

Each run, replay or comparison has its own pool. `Timer` and `count_together` share the pool of the
process, whose zygotes stay warm until the process ends.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Self

from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import TorchmarkError, ZygoteError

_pools: weakref.WeakSet[ZygotePool] = weakref.WeakSet()


class ZygotePool:
    """A set of zygotes; leaving the `with` block or calling `close` ends every process."""

    def __init__(
        self,
        *,
        at_once: int | None = None,
        make_zygote: Callable[..., Zygote] = Zygote,
    ) -> None:
        """`at_once` is how many cases each zygote runs at the same time; see `Zygote`."""
        self._at_once = at_once
        self._make_zygote = make_zygote
        self._empty()
        _pools.add(self)

    def _empty(self) -> None:
        self._warm: dict[Launch, Zygote] = {}
        self._fresh: weakref.WeakSet[Zygote] = weakref.WeakSet()
        self._failures: dict[Launch, TorchmarkError] = {}
        self._starting: dict[Launch, threading.Lock] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def zygote(self, launch: Launch) -> Zygote:
        """Return the zygote of this launch; it starts with its first case or with `start`."""
        with self._lock:
            if launch not in self._warm:
                self._warm[launch] = self._made(launch)
            return self._warm[launch]

    def start(self, launch: Launch) -> Zygote:
        """Return the zygote of this launch after starting it.

        If it could not be started before, it is not tried again: the same error is raised at once.
        """
        with self._lock:
            starting = self._starting.setdefault(launch, threading.Lock())
        with starting:
            if launch in self._failures:
                raise self._failures[launch]
            zygote = self.zygote(launch)
            try:
                zygote.start()
            except TorchmarkError as error:
                self._failures[launch] = error
                raise
        return zygote

    def fresh(self, launch: Launch) -> Zygote:
        """Return a new zygote that nobody else gets, for one replicate; `close` ends it."""
        with self._lock:
            zygote = self._made(launch)
            self._fresh.add(zygote)
            return zygote

    def close(self) -> None:
        """End every zygote and refuse to make more."""
        self._is_closed = True
        self._end_all()

    def reset(self) -> None:
        """End every zygote and forget failed starts; the next use starts new ones."""
        self._end_all()
        self._failures.clear()

    def _end_all(self) -> None:
        with self._lock:
            zygotes = [*self._warm.values(), *self._fresh]
            self._warm.clear()
        with ExitStack() as stack:
            for zygote in zygotes:
                stack.callback(zygote.close)

    def _made(self, launch: Launch) -> Zygote:
        if self._is_closed:
            raise ZygoteError("the zygotes of this run have been ended")
        return self._make_zygote(launch, at_once=self._at_once)


def _forget() -> None:
    """Empty the pools in a fork of this process: the zygotes belong to the parent.

    The locks are replaced too, because threads that do not exist in the fork may hold them.
    """
    for pool in list(_pools):
        pool._empty()  # noqa: SLF001 - the same module


process_pool = ZygotePool()
"""The pool of this process, for callers without a pool."""

atexit.register(process_pool.close)
os.register_at_fork(after_in_child=_forget)

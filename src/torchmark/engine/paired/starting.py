"""Launches of both environments, the next one going on while the present one is measured.

A launch has the cores on which nothing is measured. While it is waited for nothing is measured at
all, and it has every core: importing torch twice on one core takes seconds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

from torchmark.engine.background import begin
from torchmark.engine.under_test import FIRST_LAYOUT

if TYPE_CHECKING:
    from collections.abc import Collection
    from concurrent.futures import Future

    from torchmark.engine.paired.pairing import Opens
    from torchmark.engine.under_test import UnderTest


class Zygotes(NamedTuple):
    """One launch of both environments; they may be one."""

    a: Opens
    b: Opens

    home: Collection[int] = ()
    """Where they go back to if others need them afterwards; they are not ended then."""

    def start(self) -> None:
        """Start both at the same time; if one cannot, neither stays."""
        beside = begin(self.b.start, "start")
        try:
            self.a.start()
            beside.result()
        except BaseException:
            self.close()
            raise

    def run_on(self, cores: Collection[int]) -> None:
        self.a.run_on(cores)
        self.b.run_on(cores)

    def close(self) -> None:
        if self.home:
            self.run_on(self.home)
            return
        self.a.close()
        self.b.close()


class Starter(Protocol):
    """Makes both environments, not yet started; equal layouts give equal addresses."""

    def __call__(self, layout: int) -> Zygotes: ...


def starter(a: UnderTest, b: UnderTest, *, threads: int, everywhere: Collection[int]) -> Starter:
    """Makes zygotes of both at the same addresses; one where they are one.

    The first are those that cases were tried in: they have run for seconds when times begin.
    `everywhere` has all cores, which those had before.
    """
    is_same = a.environment.is_same_installation(b.environment)

    def make(layout: int) -> Zygotes:
        is_first = layout == FIRST_LAYOUT

        def of(side: UnderTest) -> Opens:
            if is_first:
                return side.workers.start(threads, under_callgrind=False)
            return side.workers.fresh(threads, layout=layout)

        one = of(a)
        return Zygotes(one, one if is_same else of(b), home=everywhere if is_first else ())

    return make


class Starts:
    """The zygotes of one layout after the other."""

    def __init__(self, make: Starter, measured: Collection[int], *, in_background: bool) -> None:
        """`measured` are the cores that times are taken on, beside those of the calling thread."""
        self._make = make
        self._in_background = in_background
        self.beside = os.sched_getaffinity(0)
        """Where nothing is measured."""
        self.everywhere = self.beside | set(measured)
        self._layout = FIRST_LAYOUT
        self._coming: _Start | None = None

    def next(self, *, is_last: bool = False) -> Zygotes:
        """Wait for the next ones; after the last nobody needs another start."""
        coming = self._coming or self._begin()
        if not coming.is_over.done():
            coming.zygotes.run_on(self.everywhere)
        coming.is_over.result()
        self._coming = self._begin() if self._in_background and not is_last else None
        return coming.zygotes

    def is_ready(self) -> bool:
        """Whether nobody would have to wait for the next."""
        return self._coming is None or self._coming.is_over.done()

    def close(self) -> None:
        if self._coming is not None:
            zygotes = self._coming.zygotes
            self._coming.is_over.add_done_callback(lambda _: zygotes.close())

    def _begin(self) -> _Start:
        zygotes = self._make(self._layout)
        self._layout += 1
        return _Start(zygotes, begin(zygotes.start, "start"))


class _Start(NamedTuple):
    zygotes: Zygotes
    is_over: Future[None]

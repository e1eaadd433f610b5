"""The zygotes of one environment, one for each number of threads and mode, held by a pool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchmark.engine.zygote.zygote import Zygote

_SEATS = 1024
"""Whoever hands over cases decides how many run at once; here nobody waits."""


class Workers:
    """Whatever the run ends with, `close` ends every process."""

    def __init__(self, launch: Launch | None = None, pool: ZygotePool | None = None) -> None:
        """`launch` says all but the threads and the mode."""
        self._launch = launch or Launch()
        self._pool = pool or ZygotePool(at_once=_SEATS)

    def launch(self, threads: int, *, under_callgrind: bool) -> Launch:
        """How a zygote with these threads is started.

        Modules are imported where times are taken alone: under callgrind an import takes minutes.
        """
        modules = () if under_callgrind else self._launch.modules
        return replace(
            self._launch, threads=threads, under_callgrind=under_callgrind, modules=modules
        )

    def start(self, threads: int, *, under_callgrind: bool) -> Zygote:
        """A zygote that runs; one that could not be started is not tried again for every case."""
        return self._pool.start(self.launch(threads, under_callgrind=under_callgrind))

    def fresh(self, threads: int, *, layout: int, under_callgrind: bool = False) -> Zygote:
        """A zygote of its own, not yet started, at the addresses of this layout."""
        launch = self.launch(threads, under_callgrind=under_callgrind)
        return self._pool.fresh(replace(launch, layout=layout))

    def facts(self) -> dict[str, Any]:
        """What the environment says of itself; an error if torch cannot be used there."""
        return self.start(1, under_callgrind=False).start()

    def features(self, paths: Iterable[str]) -> dict[str, bool]:
        """Whether torch has these attributes, by their paths ("torch.func.vmap")."""
        asked = sorted(paths)
        if not asked:
            return {}
        zygote = self.start(1, under_callgrind=False)
        found: dict[str, bool] = zygote.call("torchmark_probe.zygote.warmup.torch_has", asked)
        return found

    def close(self) -> None:
        self._pool.close()

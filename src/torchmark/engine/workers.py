"""The zygotes of a run, one for each number of threads and mode, started when they are needed."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import TorchmarkError, ZygoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SEATS = 1024

_HAS = """
import json, operator
def has(path):
    try:
        operator.attrgetter(path.partition(".")[2])(torch)
    except AttributeError:
        return False
    return True
print(json.dumps({{path: has(path) for path in {paths!r}}}))
"""


class Workers:
    """Whatever the run ends with, `close` ends every process."""

    def __init__(self, make_zygote: Callable[..., Zygote] = Zygote) -> None:
        self._make_zygote = make_zygote
        self._zygotes: dict[tuple[int, bool], Zygote] = {}
        self._dead: dict[tuple[int, bool], TorchmarkError] = {}
        self._locks: defaultdict[tuple[int, bool], threading.Lock] = defaultdict(threading.Lock)
        self._is_closed = False

    def facts(self) -> dict[str, Any]:
        """What the environment says of itself; an error if torch cannot be used there."""
        return self.started(1, under_callgrind=False).start()

    def features(self, paths: Iterable[str]) -> dict[str, bool]:
        """Whether torch has these attributes, by their paths ("torch.func.vmap")."""
        asked = sorted(paths)
        if not asked:
            return {}
        case = PythonCase(
            stmt="pass",
            global_setup="import torch\n" + _HAS.format(paths=asked),
        )
        output = self.started(1, under_callgrind=False).run(case)
        found: dict[str, bool] = json.loads(output.stdout.splitlines()[-1])
        return found

    def started(self, threads: int, *, under_callgrind: bool) -> Zygote:
        """A zygote that runs; one that could not be started is not tried again for every case."""
        key = (threads, under_callgrind)
        with self._locks[key]:
            if key in self._dead:
                raise self._dead[key]
            zygote = self._zygote(key)
            try:
                zygote.start()
            except TorchmarkError as error:
                self._dead[key] = error
                raise
        return zygote

    def close(self) -> None:
        self._is_closed = True
        for zygote in list(self._zygotes.values()):
            zygote.close()

    def _zygote(self, key: tuple[int, bool]) -> Zygote:
        threads, under_callgrind = key
        if self._is_closed:
            raise ZygoteError("the run has ended")
        if key not in self._zygotes:
            # Whoever hands over cases decides how many run at once; here nobody waits.
            self._zygotes[key] = self._make_zygote(
                threads=threads, under_callgrind=under_callgrind, at_once=_SEATS
            )
        return self._zygotes[key]

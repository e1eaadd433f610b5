"""Importing is thirty times slower when callgrind watches, so it looks away while a setup imports.

Some modules are imported by torch where nobody asked: the first `__torch_dispatch__` brings in
torch.compile's, which took minutes. From the first module that is not there yet until the counted
runs begin, instrumentation is off; what is counted does not change by it.
"""

import sys
from typing import Any

from torchmark_probe.zygote.valgrind import Requests


class UnwatchedImports:
    """A finder that finds nothing: it is asked for every module that has to be imported."""

    def __init__(self, callgrind: Requests) -> None:
        self._callgrind = callgrind
        self._looks_away = False

    def begin(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, _name: str, _path: Any = None, _target: Any = None) -> None:
        if not self._looks_away:
            self._looks_away = True
            self._callgrind.stop_instrumentation()

    def end(self) -> None:
        """Callgrind watches again, and imports are no longer heard of."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        if self._looks_away:
            self._callgrind.start_instrumentation()

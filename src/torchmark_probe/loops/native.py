"""A compiled C++ statement becomes the same timed loop as one in Python.

The library has, for each statement, a plain C function that runs the setup, some warm-up runs and
the timed loop with its own steady clock. ctypes releases the GIL for the call.
"""

import ctypes
import time
from typing import Any, Callable, List, Optional

_Callback = ctypes.CFUNCTYPE(None)

_MACHINE_CODE = _Callback.__bases__
"""The type of all function pointers of ctypes, which has no public name."""

RUN_SYMBOL = "torchmark_run_"
"""Start of the name of a statement's entry point; its number follows."""

_ERROR_SYMBOL = "torchmark_error_"

WARM_UP_RUNS = 1
"""Before each block, as its setup has just made new tensors: what torch's C++ loop does too."""


class NativeLoop:
    """One statement of a library."""

    def __init__(self, library: str, symbol: str) -> None:
        loaded = ctypes.CDLL(library)
        self._run: Any = getattr(loaded, symbol)
        self._run.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        self._run.restype = ctypes.c_double
        self._error: Any = getattr(loaded, symbol.replace(RUN_SYMBOL, _ERROR_SYMBOL))
        self._error.argtypes = []
        self._error.restype = ctypes.c_char_p

    def setup_seconds(self) -> float:
        """What a call costs before its first run; the second try, as the first is cold."""
        self.run(0)
        start = time.perf_counter()
        self.run(0)
        return time.perf_counter() - start

    def run(
        self,
        number: int,
        warmup: int = 0,
        before: Optional[Callable[[], object]] = None,
        after: Optional[Callable[[], object]] = None,
    ) -> float:
        """Run the setup, the warm-up, then the statement `number` times; seconds for these.

        `before` and `after` are called right outside of the timed loop, `after` also when the
        statement throws. What C++ throws becomes a RuntimeError with its text; what a callback
        raises is raised here when the statement is done.
        """
        raised: List[BaseException] = []
        callbacks = [_guard(function, raised) for function in (before, after)]
        seconds = float(self._run(number, warmup, *map(_address, callbacks)))
        if raised:
            raise raised[0]
        if not seconds >= 0:
            raise RuntimeError(self._error().decode("utf-8", "replace"))
        return seconds


def _guard(function: Optional[Callable[[], object]], raised: List[BaseException]) -> Any:
    """A C function that calls `function`; an exception must not cross C++ and is kept."""
    if function is None or isinstance(function, _MACHINE_CODE):
        return function  # machine code, such as a request to callgrind, is called as it is

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    return _Callback(call)


def _address(callback: Any) -> Any:
    return None if callback is None else ctypes.cast(callback, ctypes.c_void_p)

"""Runs a compiled C++ statement as the same timed loop as one in Python.

For each statement, the library has a C function that runs the setup, some warm-up runs and the
timed loop with its own steady clock. ctypes releases the GIL for the call.

The function is used in two ways. `NativeLoop.run` does everything once, which counting and torch's
`timeit` need. `NativeLoop.blocks` suspends the function between two blocks, on a separate stack, so
that one setup serves many blocks (torchmark/engine/cpp/blocks.h).
"""

import ctypes
import time
from typing import Any, Callable, List, Optional

from torchmark_probe.loops.clocks import Clock
from torchmark_probe.loops.snippets import Block

_Callback = ctypes.CFUNCTYPE(None)

_MACHINE_CODE = _Callback.__bases__
"""The type of all function pointers of ctypes, which has no public name."""

RUN_SYMBOL = "torchmark_run_"
"""Prefix of the name of a statement's entry point, followed by its number."""

_ERROR_SYMBOL = "torchmark_error_"

WARM_UP_RUNS = 1
"""After a setup, which has just made new tensors; torch's C++ loop does the same."""


class NativeLoop:
    """One statement of a library."""

    def __init__(self, library: str, symbol: str) -> None:
        self._library = ctypes.CDLL(library)
        self._run: Any = getattr(self._library, symbol)
        self._run.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        self._run.restype = ctypes.c_double
        self._error: Any = getattr(self._library, symbol.replace(RUN_SYMBOL, _ERROR_SYMBOL))
        self._error.argtypes = []
        self._error.restype = ctypes.c_char_p

    def run(
        self,
        number: int,
        warmup: int = 0,
        before: Optional[Callable[[], object]] = None,
        after: Optional[Callable[[], object]] = None,
    ) -> float:
        """Run the setup, the warm-up, then the statement `number` times; return the seconds.

        `before` and `after` are called right before and after the timed loop, `after` also if the
        statement throws. A C++ exception becomes a RuntimeError with its text. An exception of a
        callback is raised after the statement has finished.
        """
        raised: List[BaseException] = []
        callbacks = [_guard(function, raised) for function in (before, after)]
        seconds = float(self._run(number, warmup, *map(_address, callbacks)))
        if raised:
            raise raised[0]
        return self._checked(seconds)

    def blocks(self, warmup: int = 0, clock: Clock = time.perf_counter) -> "NativeBlocks":
        """Run the setup and the warm-up once, and return a loop that is ready to run blocks.

        A clock other than `time.perf_counter` is read right before and after each block.
        """
        return NativeBlocks(self._library, self._run, self._checked, warmup, clock)

    def _checked(self, seconds: float) -> float:
        """Return the seconds, or raise if they report an exception."""
        if not seconds >= 0:
            raise RuntimeError(self._error().decode("utf-8", "replace"))
        return seconds


class NativeBlocks:
    """A compiled loop whose setup has run: every call of `run` is one block.

    All calls must come from the thread that created it. If it is never closed, its memory leaks.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        function: Any,
        checked: Callable[[float], float],
        warmup: int,
        clock: Clock,
    ) -> None:
        self._checked = checked
        self._clock = clock
        self._has_own_clock = clock is time.perf_counter
        self._cpu = ctypes.c_double()
        self._run_block: Any = library.torchmark_run_block
        self._run_block.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._run_block.restype = ctypes.c_double
        self._close: Any = library.torchmark_close_blocks
        self._close.argtypes = [ctypes.c_void_p]
        self._close.restype = None
        open_blocks: Any = library.torchmark_open_blocks
        open_blocks.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        open_blocks.restype = ctypes.c_void_p
        self._opened: Optional[int] = open_blocks(_address(function), warmup)
        if self._opened is None:
            raise MemoryError("not enough memory for the stack of a C++ statement")
        try:
            checked(self._seconds_of(0))  # the setup or the warm-up may have thrown
        except RuntimeError:
            self.close()
            raise

    def run(self, number: int) -> Block:
        """Run a block. A C++ exception becomes a RuntimeError and ends the blocks."""
        start = self._clock()
        seconds = self._seconds_of(number)
        stop = self._clock()
        self._checked(seconds)
        return Block(seconds if self._has_own_clock else stop - start, self._cpu.value)

    def held(self) -> List[object]:
        """Return nothing, because the objects that a C++ setup has made are unknown here."""
        return []

    def _seconds_of(self, number: int) -> float:
        assert self._opened is not None, "it is closed"
        return float(self._run_block(self._opened, number, ctypes.addressof(self._cpu)))

    def close(self) -> None:
        """Destroy the variables of the setup."""
        if self._opened is not None:
            self._close(self._opened)
            self._opened = None


def _guard(function: Optional[Callable[[], object]], raised: List[BaseException]) -> Any:
    """Return a C function that calls `function`; exceptions must not cross C++ and are saved."""
    if function is None or isinstance(function, _MACHINE_CODE):
        return function  # machine code, such as a request to callgrind, is called directly

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    return _Callback(call)


def _address(callback: Any) -> Any:
    return None if callback is None else ctypes.cast(callback, ctypes.c_void_p)

"""A function run in a forked child: what it breaks, prints or leaves behind ends with the child."""

from __future__ import annotations

import os
import pickle
import select
import signal
import tempfile
import time
import warnings
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

T = TypeVar("T")


class ChildFailedError(Exception):
    """The function raised, printed, warned, crashed or took too long; the text says which."""


def run_in_child(function: Callable[[], T], seconds: float) -> T:
    """What the function returns, or a ChildFailedError.

    A warning is an error there, and so is a line on stdout or stderr: statements that are timed
    must be silent.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if not child:
            os.close(reading)
            _be_child(function, writing, printed)
        os.close(writing)
        try:
            answer = _read_all(reading, time.monotonic() + seconds)
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise ChildFailedError(f"it takes more than {seconds:.0f} s") from None
        finally:
            os.close(reading)
            _, status = os.waitpid(child, 0)
        printed.seek(0)
        text = printed.read().decode(errors="replace").strip()
    if not answer:
        raise ChildFailedError(f"it ended with wait status {status}")
    is_good, value = pickle.loads(answer)
    if not is_good:
        raise ChildFailedError(value)
    if text:
        raise ChildFailedError(f"it prints {text.splitlines()[0][:80]!r}")
    returned: T = value
    return returned


def _be_child(function: Callable[[], object], writing: int, printed: IO[bytes]) -> None:
    try:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        warnings.simplefilter("error")
        try:
            answer = (True, function())
        except Exception as error:
            answer = (False, f"{type(error).__name__}: {error}"[:200])
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
    finally:
        os._exit(0)


def _read_all(reading: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            raise TimeoutError
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)

"""Timer for a script in an old environment: block sizes and stop rules are torch's.

What needs more than Python and torch (a compiler, valgrind, a quiet core) is not done here: the
errors say how torchmark does it from outside.
"""

import contextlib
import enum
import functools
import math
import textwrap
from typing import Any, Dict, Iterator, List, Optional, Union

import torch

from ..loops.autorange import SHORTEST_TIME, Callback, estimate_block_size, repeat_block
from ..loops.clocks import Clock, wall_clock
from ..loops.measurement import Measurement, TaskSpec
from ..loops.snippets import PythonLoop, SnippetSyntaxError


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


@functools.lru_cache(maxsize=None)
def _clock() -> Clock:
    # Asked for when it is needed: looking for an accelerator may initialise its driver.
    return wall_clock(torch)


def timer() -> float:
    """The time in seconds, after an accelerator in use has finished its work."""
    return _clock()()


class Timer:
    """Times a Python statement that is given as text."""

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Clock = timer,
        globals: Optional[Dict[str, Any]] = None,  # noqa: A002 - torch's name
        label: Optional[str] = None,
        sub_label: Optional[str] = None,
        description: Optional[str] = None,
        env: Optional[str] = None,
        num_threads: int = 1,
        language: Union[Language, str] = Language.PYTHON,
    ) -> None:
        """`global_setup` is a matter of C++ and does nothing here."""
        _check_language(language)
        for name, text in (("stmt", stmt), ("setup", setup)):
            if not isinstance(text, str):
                raise TypeError(f"{name} is text here, got {text!r}")
        if num_threads < 1:
            raise ValueError(f"num_threads must be 1, 2, ..., got {num_threads!r}")
        self._task_spec = TaskSpec(
            stmt=_trimmed(stmt),
            setup=_trimmed(setup),
            global_setup=_trimmed(global_setup),
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )
        # A dict of its own: running code in it adds names, and the caller's stays clean.
        self._loop = _loop(self._task_spec, timer, {"torch": torch, **(globals or {})})

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement `number` times in one block, after a warm-up of a hundredth of it."""
        if number < 1:
            raise ValueError(f"the number of runs must be 1, 2, ..., got {number!r}")
        with _torch_threads(self._task_spec.num_threads):
            self._seconds(max(number // 100, 2))
            return self._measurement(number, [self._seconds(number)])

    def blocked_autorange(
        self, callback: Optional[Callback] = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks for `min_run_time` seconds, each so long that reading the clock is nothing."""
        _check_run_time(min_run_time)
        with _torch_threads(self._task_spec.num_threads):
            number = estimate_block_size(self._seconds, min_run_time)
            times = repeat_block(self._seconds, number, callback, min_run_time)
        return self._measurement(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: Optional[float] = 10.0,
        callback: Optional[Callback] = None,
    ) -> Measurement:
        """Blocks until the interquartile range is below `threshold` of the median.

        At least four blocks and `min_run_time` seconds, at most `max_run_time`.
        """
        _check_run_time(min_run_time)
        longest = math.inf if max_run_time is None else max_run_time
        with _torch_threads(self._task_spec.num_threads):
            number = estimate_block_size(self._seconds, min_run_time=0.05)

            def is_steady(times: List[float]) -> bool:
                so_far = self._measurement(number, times)
                return len(times) > 3 and so_far.meets_confidence(threshold)

            times = repeat_block(self._seconds, number, callback, min_run_time, longest, is_steady)
        return self._measurement(number, times)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not offered, as in torch."""
        raise NotImplementedError("Timer has no repeat; use blocked_autorange")

    def autorange(self, callback: Optional[Callback] = None) -> None:
        """Not offered, as in torch."""
        raise NotImplementedError("Timer has no autorange; use blocked_autorange")

    def collect_callgrind(self, *_: object, **__: object) -> None:
        """Not offered: valgrind has to be there before Python starts."""
        raise NotImplementedError(
            "the back-ported Timer does not count instructions; torchmark does, from outside this "
            "environment: `torchmark count` for one statement, `torchmark ab` for two environments"
        )

    def _seconds(self, number: int) -> float:
        return max(self._loop.timeit(number), SHORTEST_TIME)

    def _measurement(self, number: int, times: List[float]) -> Measurement:
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)


@contextlib.contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """torch works with `number` threads inside the block, and with as many as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_language(language: Union[Language, str]) -> None:
    # By its name, since a script may have the enum of an old torch.
    name = str(getattr(language, "name", language)).lower()
    if name in ("cpp", "c++"):
        raise NotImplementedError(
            "the back-ported Timer times Python alone; torchmark compiles C++ statements from "
            "outside this environment: `torchmark ab`, or `torchmark count` for instructions"
        )
    if name not in ("py", "python"):
        raise ValueError(f"unknown language {language!r}; Timer takes 'python' here")


def _check_run_time(least: float) -> None:
    if not 0 < least < math.inf:
        raise ValueError(f"min_run_time must be finite and above zero, got {least!r}")


def _trimmed(source: str) -> str:
    """Source as it reads best: without common indent, leading newline and trailing blanks."""
    text = textwrap.dedent(source).rstrip()
    return text[1:] if text.startswith("\n") else text


def _loop(task: TaskSpec, clock: Clock, names: Dict[str, Any]) -> PythonLoop:
    try:
        return PythonLoop(task.stmt, task.setup, timer=clock, globals=names)
    except SnippetSyntaxError as failure:
        error = failure.error
        message = f"the {failure.part} does not compile: {error.msg}"
        place = (f"<{failure.part}>", error.lineno, error.offset, error.text)
        raise SyntaxError(message, place) from None

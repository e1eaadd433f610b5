"""Timer for scripts in an old environment, with torch's block sizes and stop rules.

Anything that needs more than Python and torch (a compiler, valgrind, a quiet core) is not supported
here. The errors say how torchmark does it from outside of the environment.
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
    """The language of a statement."""

    PYTHON = 0
    CPP = 1


@functools.lru_cache(maxsize=None)
def _clock() -> Clock:
    # Only called when needed, because looking for an accelerator may initialise its driver.
    return wall_clock(torch)


def timer() -> float:
    """Return the time in seconds, after waiting for an accelerator that is in use."""
    return _clock()()


class Timer:
    """Times a Python statement given as text."""

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
        """`global_setup` is only for C++ and is ignored here."""
        _check_language(language)
        for name, text in (("stmt", stmt), ("setup", setup)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a string, not {text!r}")
        if num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, not {num_threads!r}")
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
        # A new dict, because running code adds names to it, which must not reach the caller's.
        self._loop = _loop(self._task_spec, timer, {"torch": torch, **(globals or {})})

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement `number` times in one block, after warming up for 1 % as many runs."""
        if number < 1:
            raise ValueError(f"the number of runs must be at least 1, not {number!r}")
        with _torch_threads(self._task_spec.num_threads):
            self._seconds(max(number // 100, 2))
            return self._measurement(number, [self._seconds(number)])

    def blocked_autorange(
        self, callback: Optional[Callback] = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Run blocks for `min_run_time` seconds, long enough to neglect the cost of the clock."""
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
        """Run blocks until the interquartile range is below `threshold` of the median.

        Runs at least four blocks and `min_run_time` seconds, at most `max_run_time` seconds.
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
        """Raise NotImplementedError, as in torch."""
        raise NotImplementedError("Timer has no repeat; use blocked_autorange")

    def autorange(self, callback: Optional[Callback] = None) -> None:
        """Raise NotImplementedError, as in torch."""
        raise NotImplementedError("Timer has no autorange; use blocked_autorange")

    def collect_callgrind(self, *_: object, **__: object) -> None:
        """Raise NotImplementedError: valgrind must be started before Python."""
        raise NotImplementedError(
            "the backported Timer does not count instructions; torchmark does, from outside of "
            "this environment: `torchmark count` for a statement, `torchmark ab` to compare two "
            "environments"
        )

    def _seconds(self, number: int) -> float:
        return max(self._loop.timeit(number), SHORTEST_TIME)

    def _measurement(self, number: int, times: List[float]) -> Measurement:
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)


@contextlib.contextmanager
def _torch_threads(number: int) -> Iterator[None]:
    """Make torch use `number` threads inside the block; restore the previous number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_language(language: Union[Language, str]) -> None:
    # Compared by name, because a script may have the enum of an old torch.
    name = str(getattr(language, "name", language)).lower()
    if name in ("cpp", "c++"):
        raise NotImplementedError(
            "the backported Timer only times Python; torchmark measures C++ statements from "
            "outside of this environment: `torchmark ab`, or `torchmark count` for instructions"
        )
    if name not in ("py", "python"):
        raise ValueError(f"unknown language {language!r}; this Timer only supports 'python'")


def _check_run_time(least: float) -> None:
    if not 0 < least < math.inf:
        raise ValueError(f"min_run_time must be finite and above zero, not {least!r}")


def _trimmed(source: str) -> str:
    """Remove common indentation, leading newlines and trailing blanks."""
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

"""Timer: times or counts one statement.

`timeit`, `blocked_autorange` and `adaptive_autorange` do the same as torch's, call by call, so
old and new numbers can be compared. Use `measure` otherwise. It runs short blocks until the
interval is narrow enough, and a reference loop between the blocks shows which were disturbed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from torchmark.arguments import check_count, check_positive
from torchmark.engine.cpp.build import CppLoop
from torchmark.engine.machine import import_torch, set_torch_threads
from torchmark.engine.rounds import Loop, Task, time_blocks
from torchmark.engine.user_code import (
    CopyIfCallgrind,
    as_user_error,
    check_marked,
    describe_call,
    recipes_for,
    users_frames_only,
)
from torchmark.engine.zygote.cases import PythonCase, Ready
from torchmark.errors import InvalidArgumentError, NotSupportedError
from torchmark.model.case import Language, TaskSpec, find_language, trimmed
from torchmark.model.measurement import Measurement
from torchmark.together import count_together, measure_together
from torchmark_probe.loops.autorange import SHORTEST_TIME, estimate_block_size, repeat_block
from torchmark_probe.loops.clocks import wall_clock
from torchmark_probe.loops.snippets import PythonLoop, call_of

_TIMEIT_BLOCKS = 20
"""Number of blocks that `timeit_blocks` aims at: enough for a median and quartiles."""

_FEWEST_BLOCKS = 5
_RUNS_PER_BLOCK = 10
"""Shorter blocks would show their cold start; they are used only if there are few runs."""

_clock: Callable[[], float] | None = None


def timer() -> float:
    """The time in seconds; waits until an accelerator in use has finished its work."""
    global _clock  # noqa: PLW0603 - the accelerator of a process never changes
    if _clock is None:
        _clock = wall_clock(import_torch())
    return _clock()


class Timer:
    """Times a statement, given as text or as a function with its arguments.

    >>> import torch
    >>> m = Timer("x + y", globals={"x": torch.ones(4), "y": torch.ones(4)}).timeit(100)
    >>> m.median < 1
    True
    >>> Timer(torch.add, args=(torch.ones(4), 1)).task_spec.stmt
    'torch.add(float32[4], 1)'
    """

    _timer_cls: type[Any] = PythonLoop
    """Makes the timed loop, with the interface of `timeit.Timer`. Tests replace it by a fake."""

    def __init__(
        self,
        stmt: str | Callable[..., Any] = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - torch's name
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
        *,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._language = find_language(language)
        if self._language is Language.CPP:
            _check_cpp_arguments(stmt, globals, args, kwargs)
            stmt, setup = _without_pass(stmt), _without_pass(setup)
        elif global_setup:
            raise InvalidArgumentError(
                f"global_setup is for C++ statements only, got {global_setup!r}; put it into setup"
            )
        self._given_globals = dict(globals or {})
        # A copy, because running code adds names to it.
        self._globals: dict[str, Any] = {
            "torch": import_torch(),
            **CopyIfCallgrind.unwrap_all(self._given_globals),
        }
        self._is_call = callable(stmt)
        loop_setup, loop_stmt = setup, stmt
        if callable(stmt):
            call = (stmt, tuple(args), dict(kwargs or {}))
            bind, loop_stmt, names = call_of(*call)
            self._globals.update(names)
            loop_setup = f"{trimmed(setup)}\n{bind}"
            stmt = describe_call(*call)
        elif not isinstance(stmt, str):
            raise InvalidArgumentError(
                f"stmt must be text or a function, got {type(stmt).__name__}"
            )
        elif args or kwargs:
            raise InvalidArgumentError(
                "args and kwargs need a function as stmt, got text; put the arguments into the text"
            )
        self._clock = timer
        self._timer = self._make_loop(
            trimmed(cast("str", loop_stmt)), trimmed(loop_setup), trimmed(global_setup)
        )
        self._task_spec = TaskSpec(
            stmt=trimmed(stmt),
            setup=trimmed(setup),
            global_setup=trimmed(global_setup),
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=check_count("num_threads", num_threads),
        )

    @property
    def task_spec(self) -> TaskSpec:
        return self._task_spec

    @property
    def task(self) -> Task:
        """The statement with its loop and clock."""
        return Task(self._task_spec, self._timer, self._clock)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Time `number` runs as one, after a warm-up of `number` / 100 runs (at least two).

        The same as torch's. It gives one time, so its spread is not known; `timeit_blocks` times
        the same runs in several blocks.
        """
        number = check_count("the number of runs", number)
        with set_torch_threads(self._task_spec.num_threads), users_frames_only():
            self._timeit(max(number // 100, 2))
            return Measurement(number, [self._timeit(number)], self._task_spec)

    def timeit_blocks(self, number: int = 1000000) -> Measurement:
        """Time `number` runs in up to 20 equal blocks and keep the time of each block.

        If `number` cannot be divided equally, up to 19 runs are part of the warm-up. The setup
        runs once for the warm-up and once for the blocks.
        """
        number = check_count("the number of runs", number)
        blocks = _blocks_of(number)
        per_block = number // blocks
        with set_torch_threads(self._task_spec.num_threads), users_frames_only():
            self._timeit(max(number // 100, 2, number - blocks * per_block))
            times = time_blocks(self._timer, per_block, blocks)
        return Measurement(
            number_per_run=per_block,
            raw_times=[max(time, SHORTEST_TIME) for time in times],
            task_spec=self._task_spec,
        )

    def blocked_autorange(
        self,
        callback: Callable[[int, float], object] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Time equal blocks for `min_run_time` seconds.

        The blocks are so long that reading the clock takes negligible time. Block size, stop rule
        and arithmetic are torch's. The callback gets the number of runs and the seconds of each
        block.
        """
        check_positive("min_run_time", min_run_time)
        with set_torch_threads(self._task_spec.num_threads), users_frames_only():
            number = estimate_block_size(self._timeit, min_run_time)
            times = repeat_block(self._timeit, number, callback, min_run_time)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float | None = 10.0,
        callback: Callable[[int, float], object] | None = None,
    ) -> Measurement:
        """Time equal blocks until their interquartile range is below `threshold` * median.

        Runs at least four blocks and `min_run_time` seconds, and at most `max_run_time` seconds.
        The same as torch's.
        """
        check_positive("min_run_time", min_run_time)
        longest = math.inf if max_run_time is None else check_positive("max_run_time", max_run_time)
        with set_torch_threads(self._task_spec.num_threads), users_frames_only():
            number = estimate_block_size(self._timeit, min_run_time=0.05)

            def is_steady(times: list[float]) -> bool:
                so_far = Measurement(number, times, self._task_spec)
                return len(times) > 3 and so_far.meets_confidence(threshold=threshold)

            times = repeat_block(self._timeit, number, callback, min_run_time, longest, is_steady)
        return Measurement(number, times, self._task_spec)

    def measure(
        self,
        *,
        precision: float = 0.01,
        min_run_time: float = 0.2,
        max_run_time: float | None = None,
    ) -> Measurement:
        """Time short blocks until the 95 % interval is within `precision` of the median.

        Takes at least 30 undisturbed samples and `min_run_time` seconds, and at most
        `max_run_time` seconds (default: ten times `min_run_time`). The setup runs once.
        docs/method/timing.md describes the method.
        """
        return measure_together(
            [self], precision=precision, min_run_time=min_run_time, max_run_time=max_run_time
        )[0]

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Not available, as in torch; use `measure`."""
        del repeat, number
        raise NotSupportedError("Timer has no repeat; use measure or blocked_autorange")

    def autorange(self, callback: Callable[[int, float], object] | None = None) -> None:
        """Not available, as in torch; use `measure`, which finds the number of runs."""
        del callback
        raise NotSupportedError("Timer has no autorange; use measure or blocked_autorange")

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> Any:
        """Count the instructions of `number` runs, in a separate process under callgrind.

        Returns a `CallgrindStats`, or with `repeats` a tuple of them. The baseline is the same
        loop around `pass`; `CallgrindStats.without_loop` subtracts it. `retain_out_file` keeps
        the text of callgrind's file, for KCachegrind and flame graphs. The first count in a
        process takes longer, because the counting process must start (docs/method/counting.md).
        As in torch, wrap globals in `CopyIfCallgrind`; `count_together` does not need that.
        """
        check_count("repeats", 1 if repeats is None else repeats)
        check_marked(self._given_globals)
        stats = count_together(
            [self] * (repeats or 1),
            number,
            collect_baseline=collect_baseline,
            retain_out_file=retain_out_file,
        )
        return stats[0] if repeats is None else tuple(stats)

    def case_to_count(self, directory: Path) -> Ready:
        """The case for the counting process; writes the files that it needs to `directory`."""
        if isinstance(self._timer, CppLoop):
            return self._timer.built
        if self._is_call:
            raise InvalidArgumentError(
                f"cannot count {self._task_spec.stmt}: it is a function of this process, and "
                "counting runs in another process; give the statement as text"
            )
        names = {"torch": self._globals["torch"], **self._given_globals}
        spec = self._task_spec
        return PythonCase(stmt=spec.stmt, setup=spec.setup, globals=recipes_for(names, directory))

    def _make_loop(self, stmt: str, setup: str, global_setup: str) -> Loop:
        # A subclass with its own loop gets it for every language, so that tests of C++ timers can
        # use a fake; torch does not allow that.
        if self._language is Language.CPP and self._timer_cls is PythonLoop:
            # By default the loop reads its own clock, unless it must wait for an accelerator.
            clock = wall_clock(import_torch()) if self._clock is timer else self._clock
            return CppLoop(stmt, setup, global_setup, clock)
        with as_user_error():
            loop = self._timer_cls(stmt=stmt, setup=setup, timer=self._clock, globals=self._globals)
        return cast("Loop", loop)

    def _estimate_block_size(self, min_run_time: float) -> int:
        """The same as torch's; subclasses with their own stop rule call it."""
        with set_torch_threads(self._task_spec.num_threads):
            return estimate_block_size(self._timeit, min_run_time)

    def _threaded_measurement_loop(
        self,
        number: int,
        time_hook: Callable[[], float],
        stop_hook: Callable[[list[float]], bool],
        min_run_time: float,
        max_run_time: float | None = None,
        callback: Callable[[int, float], object] | None = None,
    ) -> list[float]:
        """The loop of torch's autorange methods; some scripts call it."""
        longest = max_run_time or math.inf
        with set_torch_threads(self._task_spec.num_threads):
            return repeat_block(
                lambda _: time_hook(), number, callback, min_run_time, longest, stop_hook
            )

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), SHORTEST_TIME)


def measure(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Measurement:
    """Measure the call `fn(*args, **kwargs)`.

    >>> import torch
    >>> measure(torch.add, torch.ones(4), 1).median > 0
    True
    """
    return Timer(fn, args=args, kwargs=kwargs).measure()


def _without_pass(source: Any) -> Any:
    """The source, or "" if it is `pass`: the default of all languages is not valid C++."""
    return "" if isinstance(source, str) and source.strip() == "pass" else source


def _check_cpp_arguments(
    stmt: object,
    names: Mapping[str, Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
) -> None:
    if names:
        raise InvalidArgumentError(
            f"a C++ statement cannot use Python globals, got {sorted(names)}; "
            "define its variables in setup or global_setup"
        )
    if not isinstance(stmt, str) or args or kwargs:
        raise InvalidArgumentError(
            f"a C++ stmt must be text, without args and kwargs; got {type(stmt).__name__} {stmt!r}"
        )


def _blocks_of(number: int) -> int:
    """The number of equal blocks for `number` runs, without a remainder if possible."""
    most = min(number, _TIMEIT_BLOCKS, max(_FEWEST_BLOCKS, number // _RUNS_PER_BLOCK))
    whole = [blocks for blocks in range(most, 3, -1) if number % blocks == 0]
    return whole[0] if whole else most

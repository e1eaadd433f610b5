"""Measure several timers in rounds, or count several at the same time."""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from torchmark.arguments import check_count, check_positive
from torchmark.engine.counting import count, find_failures
from torchmark.engine.cpp.build import CppLoop, build_together
from torchmark.engine.files import private_directory
from torchmark.engine.machine import set_torch_threads
from torchmark.engine.rounds import measure_in_rounds
from torchmark.engine.user_code import users_frames_only
from torchmark.errors import CaseFailedError, InvalidArgumentError
from torchmark.model.callgrind_stats import CallgrindStats
from torchmark.model.measurement import Measurement
from torchmark.model.run import TIME_LIMIT
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from torchmark.timers import Timer


def measure_together(
    timers: Sequence[Timer],
    *,
    precision: float = 0.01,
    min_run_time: float = 0.2,
    max_run_time: float | None = None,
    seed: int | None = None,
) -> list[Measurement]:
    """Measure several timers in rounds: one block of each, in random order.

    Whatever slows the machine slows all of them, so `torchmark.analyse.ratios.ratio_of` can
    compare them round by round. `min_run_time` and `max_run_time` are seconds for each timer. All
    timers must use the same number of threads, because changing it would affect the times.
    """
    check_positive("precision", precision)
    check_positive("min_run_time", min_run_time)
    if max_run_time is None:
        max_run_time = 10 * min_run_time
    elif check_positive("max_run_time", max_run_time) < min_run_time:
        raise InvalidArgumentError(
            f"max_run_time must not be below min_run_time, got {max_run_time!r} and "
            f"{min_run_time!r}"
        )
    _check_timers(timers)
    threads = {timer.task_spec.num_threads for timer in timers}
    if len(threads) != 1:
        raise InvalidArgumentError(
            "timers that are measured together must use the same number of threads, got "
            f"{sorted(threads)}"
        )
    limits = Limits(precision, min_run_time, max_run_time)
    rng = random.Random(seed)  # noqa: S311 - an order of blocks, not a secret
    with set_torch_threads(threads.pop()), users_frames_only():
        return measure_in_rounds([timer.task for timer in timers], limits, rng)


def count_together(
    timers: Sequence[Timer],
    number: int = 100,
    *,
    collect_baseline: bool = True,
    retain_out_file: bool = False,
    time_limit: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
) -> list[CallgrindStats]:
    """Count the instructions of several timers, one at a time on each core.

    Each statement first runs once in another process, while the counting process starts, so that
    mistakes show early. `time_limit` is the seconds that one statement may take. `progress` is
    called with each stage of the start.
    """
    check_count("the number of runs", number)
    check_positive("time_limit", time_limit)
    _check_timers(timers)
    loops = [timer.task.loop for timer in timers]
    build_together([loop for loop in loops if isinstance(loop, CppLoop)])
    distinct = list(dict.fromkeys(timers))
    with private_directory() as root:  # has the globals while the statements are counted
        cases = {}
        for index, timer in enumerate(distinct):
            directory = root / str(index)
            directory.mkdir()
            cases[timer] = timer.case_to_count(directory)
        failures = find_failures(
            [timer.task_spec.num_threads for timer in distinct],
            list(cases.values()),
            time_limit=time_limit,
            progress=progress,
        )
        for error in failures.values():
            raise _as_raised(error)
        outcomes = count(
            [timer.task_spec for timer in timers],
            [cases[timer] for timer in timers],
            number=number,
            collect_baseline=collect_baseline,
            retain_out_file=retain_out_file,
            time_limit=time_limit,
            progress=progress,
        )
    counted = []
    for outcome in outcomes:
        if isinstance(outcome, CaseFailedError):
            raise _as_raised(outcome)
        counted.append(outcome)
    return counted


def _as_raised(error: CaseFailedError) -> CaseFailedError:
    """The error, as a class that also derives from the builtin exception the statement raised.

    This works for all builtin exceptions that are constructed from one text.
    """
    builtin = getattr(builtins, error.builtin, RuntimeError)
    if not issubclass(builtin, Exception) or issubclass(CaseFailedError, builtin):
        return error
    # KeyError would show its text in quotes.
    own_text = {"__str__": BaseException.__str__}
    both = type(builtin.__name__, (CaseFailedError, builtin), own_text)
    try:
        raised: CaseFailedError = both(str(error), **vars(error))
    except TypeError:  # UnicodeError and ExceptionGroup need more arguments
        return error
    return raised


def _check_timers(timers: Sequence[Timer]) -> None:
    if not timers:
        raise InvalidArgumentError("no timers to measure; give at least one")

"""Several timers at once: measured in rounds, or counted side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from torchmark.arguments import check_count, check_positive
from torchmark.engine.counting import count, first_failure
from torchmark.engine.cpp.build import CppLoop, build_together
from torchmark.engine.files import private_directory
from torchmark.engine.machine import set_torch_threads
from torchmark.engine.rounds import measure_in_rounds
from torchmark.engine.user_code import users_frames_only
from torchmark.errors import CaseFailedError, CopyFailedError, InvalidArgumentError
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
    """Measure several timers in rounds, one block of each in random order.

    What changes on the machine then changes for all of them, and
    `torchmark.analyse.ratios.ratio_of` can compare them round by round. The run times are per
    timer. All must use the same number of threads: changing it between blocks would be measured.
    """
    check_positive("precision", precision)
    check_positive("min_run_time", min_run_time)
    if max_run_time is None:
        max_run_time = 10 * min_run_time
    elif check_positive("max_run_time", max_run_time) < min_run_time:
        raise InvalidArgumentError(
            f"max_run_time ({max_run_time!r}) is below min_run_time ({min_run_time!r})"
        )
    _check_timers(timers)
    threads = {timer.task_spec.num_threads for timer in timers}
    if len(threads) != 1:
        raise InvalidArgumentError(
            f"timers that are measured together use one number of threads, got {sorted(threads)}"
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
    """Count the instructions of several timers, as many at once as there are cores.

    While the counting process starts, each statement is run once in another one, so that a mistake
    shows soon. `progress` hears of the stages of the start, and nothing once it is warm.
    """
    check_count("the number of runs", number)
    check_positive("time_limit", time_limit)
    _check_timers(timers)
    loops = [timer.task.loop for timer in timers]
    build_together([loop for loop in loops if isinstance(loop, CppLoop)])
    distinct = list(dict.fromkeys(timers))
    with private_directory() as root:  # where the globals lie while the statements are counted
        cases = {}
        for index, timer in enumerate(distinct):
            directory = root / str(index)
            directory.mkdir()
            cases[timer] = timer.case_to_count(directory)
        failed = first_failure(
            [timer.task_spec for timer in distinct],
            list(cases.values()),
            time_limit=time_limit,
            progress=progress,
        )
        if failed is not None:
            index, error = failed
            _raise(distinct[index], error)
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
    for timer, outcome in zip(timers, outcomes, strict=True):
        if isinstance(outcome, CaseFailedError):
            _raise(timer, outcome)
        counted.append(outcome)
    return counted


def _raise(timer: Timer, error: CaseFailedError) -> NoReturn:
    """What a statement raised over there it raises here too, as the exception that it is.

    It has ended over there, so it is safe to run here; if it does not raise here, a copy is at
    fault.
    """
    if error.kind == "raised":
        timer.run_once()
        raise CopyFailedError(
            f"{error}\nIt raises only in the counting process, where globals are copies. If the "
            "class of one is not found there, import it: CopyIfCallgrind(value, setup='import …')",
            kind=error.kind,
            traceback=error.traceback,
            stdout=error.stdout,
            stderr=error.stderr,
        ) from None
    raise error


def _check_timers(timers: Sequence[Timer]) -> None:
    if not timers:
        raise InvalidArgumentError("there are no timers to measure")

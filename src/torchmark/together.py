"""Several timers at once: measured in rounds, or counted side by side."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from torchmark.arguments import checked_count, checked_positive
from torchmark.errors import InvalidArgumentError
from torchmark.run.counting import count, private_directory
from torchmark.run.cpp.loop import CppLoop, build_together
from torchmark.run.rounds import measure_in_rounds
from torchmark.run.threads import set_torch_threads
from torchmark.run.tracebacks import users_frames_only
from torchmark.run.zygote import TIME_LIMIT
from torchmark_probe.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.measurement import Measurement
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
    checked_positive("precision", precision)
    checked_positive("min_run_time", min_run_time)
    if max_run_time is None:
        max_run_time = 10 * min_run_time
    elif checked_positive("max_run_time", max_run_time) < min_run_time:
        raise InvalidArgumentError(
            f"max_run_time ({max_run_time!r}) is below min_run_time ({min_run_time!r})"
        )
    _checked_timers(timers)
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

    Each statement is first run once in this process, so that a mistake in it shows at once.
    `progress` hears of the stages of the zygote's start, and nothing once it is warm.
    """
    checked_count("the number of runs", number)
    checked_positive("time_limit", time_limit)
    _checked_timers(timers)
    loops = [timer.task.loop for timer in timers]
    build_together([loop for loop in loops if isinstance(loop, CppLoop)])
    for timer in dict.fromkeys(timers):
        timer.run_once()
    with private_directory() as root:
        cases = []
        for index, timer in enumerate(timers):
            directory = Path(root) / str(index)
            directory.mkdir()
            cases.append(timer.case_to_count(directory))
        return count(
            [timer.task_spec for timer in timers],
            cases,
            number=number,
            collect_baseline=collect_baseline,
            retain_out_file=retain_out_file,
            time_limit=time_limit,
            progress=progress,
        )


def _checked_timers(timers: Sequence[Timer]) -> None:
    if not timers:
        raise InvalidArgumentError("there are no timers to measure")

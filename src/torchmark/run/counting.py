"""Statements become instruction counts: one fork of the warm zygote each, and one for `pass`."""

from __future__ import annotations

import tempfile
from functools import cache
from typing import TYPE_CHECKING

from torchmark.callgrind.parse import parse_file, parse_text, read_text
from torchmark.model.profile_counts import stats_from_profiles
from torchmark.run.zygote import TIME_LIMIT, NativeCase, PythonCase
from torchmark.run.zygotes import warm_zygote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.callgrind.profile import Profile
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.task_spec import TaskSpec
    from torchmark.run.zygote import Zygote


def count(
    task_specs: Sequence[TaskSpec],
    cases: Sequence[PythonCase | NativeCase],
    *,
    number: int,
    collect_baseline: bool,
    retain_out_file: bool,
    time_limit: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
) -> list[CallgrindStats]:
    """The counts of every case, several at once where cores allow, in the order given.

    All cases use the threads of their task; `pass` is counted once for each number of runs and
    its counts are kept, so that the cost of the loop can be taken off.
    """
    futures = []
    for spec, case in zip(task_specs, cases, strict=True):
        zygote = warm_zygote(threads=spec.num_threads, under_callgrind=True, progress=progress)
        futures.append(zygote.submit_count(case, number=number, time_limit=time_limit))
    results = []
    for spec, case, future in zip(task_specs, cases, futures, strict=True):
        counted = future.result()
        text = read_text(counted.out_file) if retain_out_file else None
        profile = (
            parse_text(text, str(counted.out_file))
            if text is not None
            else parse_file(counted.out_file)
        )
        counted.out_file.unlink(missing_ok=True)
        baseline = None
        if collect_baseline and isinstance(case, PythonCase):
            baseline = _baseline(
                warm_zygote(threads=spec.num_threads, under_callgrind=True), number
            )
        results.append(stats_from_profiles(spec, number, profile, baseline, text))
    return results


@cache
def _baseline(zygote: Zygote, number: int) -> Profile:
    """What the loop itself costs, with nothing in it."""
    counted = zygote.count(PythonCase(stmt="pass"), number=number)
    profile = parse_file(counted.out_file)
    counted.out_file.unlink(missing_ok=True)
    return profile


def private_directory() -> tempfile.TemporaryDirectory[str]:
    """Where the globals of a statement lie while it is counted; nobody else may read it."""
    return tempfile.TemporaryDirectory(prefix="torchmark-globals-")

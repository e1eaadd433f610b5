"""Statements become instruction counts: one fork of the warm zygote each, and one for `pass`."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from torchmark.callgrind.parse import parse_file, parse_text, read_text
from torchmark.engine.zygote.cases import TIME_LIMIT, NativeCase, PythonCase
from torchmark.engine.zygote.pool import zygote_for
from torchmark.engine.zygote.process import valgrind
from torchmark.errors import CaseFailedError, TorchmarkError
from torchmark.model.profile_counts import stats_from_profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.callgrind.profile import Profile
    from torchmark.engine.zygote.cases import Count
    from torchmark.engine.zygote.zygote import Zygote
    from torchmark.model.callgrind_stats import CallgrindStats
    from torchmark.model.task_spec import TaskSpec


def count(
    task_specs: Sequence[TaskSpec],
    cases: Sequence[PythonCase | NativeCase],
    *,
    number: int,
    collect_baseline: bool,
    retain_out_file: bool,
    time_limit: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
) -> list[CallgrindStats | CaseFailedError]:
    """The counts of every case, several at once where cores allow, in the order given.

    All cases use the threads of their task. A case that fails costs itself alone.
    """
    zygotes = [zygote_for(threads=spec.num_threads, under_callgrind=True) for spec in task_specs]
    for zygote in dict.fromkeys(zygotes):
        zygote.start(progress)
    futures = [
        zygote.submit_count(case, number=number, time_limit=time_limit)
        for zygote, case in zip(zygotes, cases, strict=True)
    ]
    outcomes: list[CallgrindStats | CaseFailedError] = []
    for spec, case, zygote, future in zip(task_specs, cases, zygotes, futures, strict=True):
        try:
            counted = future.result()
        except CaseFailedError as error:
            outcomes.append(error)
            continue
        has_loop = collect_baseline and isinstance(case, PythonCase)
        baseline = loop_profile(zygote, number) if has_loop else None
        outcomes.append(stats_of(spec, number, counted, baseline, retain_out_file=retain_out_file))
    return outcomes


def stats_of(
    spec: TaskSpec,
    number: int,
    counted: Count,
    baseline: Profile | None,
    *,
    retain_out_file: bool = False,
) -> CallgrindStats:
    """The counts in callgrind's file, which is removed."""
    text = read_text(counted.out_file) if retain_out_file else None
    profile = (
        parse_text(text, str(counted.out_file))
        if text is not None
        else parse_file(counted.out_file)
    )
    counted.out_file.unlink(missing_ok=True)
    return stats_from_profiles(spec, number, profile, baseline, text)


def first_failure(
    task_specs: Sequence[TaskSpec],
    cases: Sequence[PythonCase | NativeCase],
    *,
    time_limit: float = TIME_LIMIT,
    progress: Callable[[str], None] | None = None,
) -> tuple[int, CaseFailedError] | None:
    """Run each case once in a plain zygote, while the counting ones start: the first that fails.

    So a mistake shows in seconds, and what crashes or never ends does so over there. Where the
    counting zygotes are warm already, they are as quick to tell, and nothing is tried.
    """
    valgrind()  # without it there is no need to try anything
    counting = {zygote_for(threads=spec.num_threads, under_callgrind=True) for spec in task_specs}
    if all(zygote.is_alive for zygote in counting):
        return None
    for zygote in counting:
        threading.Thread(target=_start_quietly, args=(zygote, progress), daemon=True).start()
    for index, (spec, case) in enumerate(zip(task_specs, cases, strict=True)):
        try:
            zygote_for(threads=spec.num_threads).run(case, time_limit=time_limit)
        except CaseFailedError as error:
            return index, error
    return None


def _start_quietly(zygote: Zygote, progress: Callable[[str], None] | None) -> None:
    with contextlib.suppress(TorchmarkError):  # whoever counts starts it again and is told
        zygote.start(progress)


_loops: WeakKeyDictionary[Zygote, dict[int, Profile]] = WeakKeyDictionary()
_loop_lock = threading.Lock()


def loop_profile(zygote: Zygote, number: int) -> Profile:
    """What the loop itself costs, with nothing in it; counted once for each zygote."""
    with _loop_lock:
        profiles = _loops.setdefault(zygote, {})
        if number not in profiles:
            counted = zygote.count(PythonCase(stmt="pass"), number=number)
            profiles[number] = parse_file(counted.out_file)
            counted.out_file.unlink(missing_ok=True)
        return profiles[number]

"""Counts the instructions of statements: each in a fork of a zygote that runs under callgrind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from weakref import WeakKeyDictionary

from torchmark.callgrind.parse import parse_file, read_text
from torchmark.callgrind.profile import Profile
from torchmark.engine.cores import begin
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.cases import LOOP_FRAME, Output, PythonCase, Ready
from torchmark.engine.zygote.pool import process_pool
from torchmark.engine.zygote.process import valgrind
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError
from torchmark.flame.counted import average_stacks
from torchmark.flame.stacks import Stack
from torchmark.model.callgrind_stats import CallgrindStats, stats_from_profiles
from torchmark.model.case import TaskSpec
from torchmark.model.run import TIME_LIMIT

STACKS_UNIT = "instructions per run"
"""Unit of the weights that `counted_stacks` returns."""

_STACKS_NUMBER = 100
"""Number of runs that are counted for stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCase:
    """What callgrind counted for a case."""

    number: int
    """Number of counted runs."""

    profile: Profile
    """The counts of these runs and of the loop around them."""

    loop: Profile | None
    """The counts of the same loop around `pass`; None if nothing is to be subtracted."""

    text: str | None
    """The text of callgrind's output file, if it was to be kept."""

    output: Output

    def stats(self, spec: TaskSpec) -> CallgrindStats:
        """Return the counts with the labels of a task."""
        return stats_from_profiles(spec, self.number, self.profile, self.loop, self.text)


def count_in(
    zygote: Zygote,
    case: Ready,
    *,
    number: int = 100,
    time_limit: float = TIME_LIMIT,
    memory_limit: int | None = None,
    without_loop: bool = True,
    keep_text: bool = False,
) -> CountedCase:
    """Count the case in a zygote that runs under callgrind; raise CaseFailedError if it fails.

    With `without_loop`, the loop around a Python statement is counted too, once per zygote, to be
    subtracted. The loop around compiled code takes almost no instructions.
    """
    counted = zygote.count(case, number=number, time_limit=time_limit, memory_limit=memory_limit)
    text = read_text(counted.out_file) if keep_text else None
    profile = parse_file(counted.out_file)
    counted.out_file.unlink(missing_ok=True)
    has_loop = without_loop and isinstance(case, PythonCase)
    return CountedCase(
        number=number,
        profile=profile,
        loop=_loop_profile(zygote, number) if has_loop else None,
        text=text,
        output=counted.output,
    )


def begin_counts(
    zygotes: Sequence[Zygote],
    cases: Sequence[Ready],
    *,
    number: int,
    time_limit: float = TIME_LIMIT,
    without_loop: bool = True,
    keep_text: bool = False,
) -> list[Future[CountedCase]]:
    """Start counting each case in its zygote; return the futures in the order given.

    A zygote limits how many of its cases run at once.
    """
    count_one = partial(
        count_in,
        number=number,
        time_limit=time_limit,
        without_loop=without_loop,
        keep_text=keep_text,
    )
    return [
        begin(partial(count_one, zygote, case), "count")
        for zygote, case in zip(zygotes, cases, strict=True)
    ]


_loops: WeakKeyDictionary[Zygote, dict[int, Profile]] = WeakKeyDictionary()
_loop_lock = threading.Lock()


def _loop_profile(zygote: Zygote, number: int) -> Profile:
    """Return the counts of the empty loop, which is counted once per zygote."""
    with _loop_lock:
        profiles = _loops.setdefault(zygote, {})
        if number not in profiles:
            empty = PythonCase(stmt="pass")
            profiles[number] = count_in(zygote, empty, number=number, without_loop=False).profile
        return profiles[number]


def counted_stacks(
    zygote: Zygote, case: Ready, *, time_limit: float = TIME_LIMIT
) -> tuple[list[Stack], float]:
    """Return the stacks with the exact instructions of one run, and their sum."""
    profile = count_in(
        zygote, case, number=_STACKS_NUMBER, time_limit=time_limit, without_loop=False
    ).profile
    stacks = average_stacks(profile, _STACKS_NUMBER)
    # The root frame is the loop: it evaluates a Python statement or calls a C++ one. The C++ loop
    # cannot be found by name: callgrind attributes it to libffi, which calls it on its own stack.
    has_one_root = len({stack.frames[0] for stack in stacks}) == 1
    below = 1 if has_one_root else 0
    under_loop = [Stack((LOOP_FRAME, *stack.frames[below:]), stack.weight) for stack in stacks]
    return under_loop, profile.total / _STACKS_NUMBER


def count(
    task_specs: Sequence[TaskSpec],
    cases: Sequence[Ready],
    *,
    number: int,
    collect_baseline: bool,
    retain_out_file: bool,
    time_limit: float,
    progress: Callable[[str], None] | None,
) -> list[CallgrindStats | CaseFailedError]:
    """Return the counts of every case, measured in zygotes of this process, in the order given.

    Each case uses the threads of its task. A case that fails does not affect the others.
    """
    zygotes = zygotes_for([spec.num_threads for spec in task_specs], under_callgrind=True)
    for zygote in dict.fromkeys(zygotes):
        zygote.start(progress)
    futures = begin_counts(
        zygotes,
        cases,
        number=number,
        time_limit=time_limit,
        without_loop=collect_baseline,
        keep_text=retain_out_file,
    )
    outcomes: list[CallgrindStats | CaseFailedError] = []
    for spec, future in zip(task_specs, futures, strict=True):
        try:
            outcomes.append(future.result().stats(spec))
        except CaseFailedError as error:
            outcomes.append(error)
    return outcomes


def find_failures(
    threads: Sequence[int],
    cases: Sequence[Ready],
    *,
    time_limit: float,
    progress: Callable[[str], None] | None,
) -> dict[int, CaseFailedError]:
    """Run each case once in a plain zygote while the counting zygotes start; return the failures.

    The failures are keyed by the index of the case. A mistake shows within seconds this way, and a
    crash or a hang happens in the plain zygote. If the counting zygotes are already running, they
    would report a failure as quickly, so nothing is tried. `threads` has one number per case.
    """
    valgrind()  # raises if valgrind is missing, before anything is tried
    counting = set(zygotes_for(threads, under_callgrind=True))
    if all(zygote.is_alive for zygote in counting):
        return {}
    for zygote in counting:
        # If this fails, the caller that counts starts the zygote again and gets the error.
        begin(partial(zygote.start, progress), "start")
    plain = zygotes_for(threads, under_callgrind=False)
    tries = [
        begin(partial(zygote.run, case, time_limit=time_limit), "try")
        for zygote, case in zip(plain, cases, strict=True)
    ]
    failures = {}
    for number, future in enumerate(tries):
        try:
            future.result()
        except CaseFailedError as error:
            failures[number] = error
    return failures


def zygotes_for(threads: Sequence[int], *, under_callgrind: bool) -> list[Zygote]:
    """Return this process's zygotes for cases with these numbers of threads."""
    workers = Workers(pool=process_pool)
    return [
        process_pool.zygote(workers.launch(each, under_callgrind=under_callgrind))
        for each in threads
    ]

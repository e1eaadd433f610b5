"""Statements become instruction counts: a fork of a zygote under callgrind each, minus the loop."""

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
"""Of the weights of `counted_stacks`."""

_STACKS_NUMBER = 100
"""Runs that are counted for stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCase:
    """What callgrind counted of a case."""

    number: int
    """Runs that were counted."""

    profile: Profile
    """Of these runs and of the loop around them."""

    loop: Profile | None
    """The same loop around `pass`; None where there is none to take off."""

    text: str | None
    """Callgrind's own file, if it was to be kept."""

    output: Output

    def stats(self, spec: TaskSpec) -> CallgrindStats:
        """The counts under the names of a task."""
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
    """Count the case in a zygote that runs under callgrind; a failure is a CaseFailedError.

    The loop of a statement in Python is counted too, once for each zygote, unless `without_loop`
    says not to take it off. That of a compiled one has next to no instructions.
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
    """Count each case in its zygote, as many at once as a zygote has seats; in the order given."""
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
    """What the loop itself costs, with nothing in it; counted once for each zygote."""
    with _loop_lock:
        profiles = _loops.setdefault(zygote, {})
        if number not in profiles:
            empty = PythonCase(stmt="pass")
            profiles[number] = count_in(zygote, empty, number=number, without_loop=False).profile
        return profiles[number]


def counted_stacks(
    zygote: Zygote, case: Ready, *, time_limit: float = TIME_LIMIT
) -> tuple[list[Stack], float]:
    """Where the instructions of one run go, exact to the instruction, and their number."""
    profile = count_in(
        zygote, case, number=_STACKS_NUMBER, time_limit=time_limit, without_loop=False
    ).profile
    stacks = average_stacks(profile, _STACKS_NUMBER)
    # What evaluates a statement in Python, or calls one in C++, is the loop. That of C++ would not
    # go by its name: callgrind takes it for a part of libffi, which calls it with its own stack.
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
    """The counts of every case in zygotes of this process, in the order given.

    All cases use the threads of their task. A case that fails costs itself alone.
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
    """Run each case once in a plain zygote, while the counting ones start: those that fail.

    They are given by their numbers. So a mistake shows in seconds, and what crashes or never ends
    does so over there. Where the counting zygotes are warm already, they are as quick to tell, and
    nothing is tried. `threads` has those of each case.
    """
    valgrind()  # without it there is no need to try anything
    counting = set(zygotes_for(threads, under_callgrind=True))
    if all(zygote.is_alive for zygote in counting):
        return {}
    for zygote in counting:
        # Whoever counts starts it again if this fails, and is told.
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
    """The zygotes of this process for cases with so many threads."""
    workers = Workers(pool=process_pool)
    return [
        process_pool.zygote(workers.launch(each, under_callgrind=under_callgrind))
        for each in threads
    ]

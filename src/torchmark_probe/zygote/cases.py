"""What a child does for its case: read the request, do it, answer, and be gone.

A `count` runs under callgrind, with the collection on between two calls of the toggle. What is
counted beside the statement (the way out of one call and into the other) is the same for every
statement: the count of `pass` has it too.
"""

import contextlib
import ctypes
import gc
import os
import random
import resource
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional

from torchmark_probe.loops import endless, python_calls, turns, values
from torchmark_probe.loops.clocks import ClockFacts, clock_facts, wall_clock
from torchmark_probe.loops.intervals import median
from torchmark_probe.loops.native import WARM_UP_RUNS, NativeLoop
from torchmark_probe.loops.sampling import (
    CLOCK_STEPS_PER_BLOCK,
    Limits,
    Metronome,
    Sampling,
    block_size,
    sample,
)
from torchmark_probe.loops.snippets import Block, PythonLoop, garbage_collection_off, run_globally
from torchmark_probe.loops.unrolled import UnrolledCode
from torchmark_probe.memory import addresses, huge_pages, layout
from torchmark_probe.zygote import wire
from torchmark_probe.zygote.unwatched_imports import UnwatchedImports
from torchmark_probe.zygote.valgrind import Requests

_PAGE_SIZE = resource.getpagesize()


class Surroundings(NamedTuple):
    """What the zygote gives to every case."""

    torch: Any
    """The module, imported once for all cases."""

    callgrind: Optional[Requests]
    """Callgrind's requests, or None in a zygote that was launched plainly."""

    reserve: Optional[layout.Reserve]
    """What a child frees before it counts, so that allocations cost the same in all of them."""


class UnknownRequestError(Exception):
    """A request that this zygote does not answer."""


def answer(request: Dict[str, Any], around: Surroundings, talk: int) -> Dict[str, Any]:
    """Do what the request asks and return the answer; what the case raises passes through.

    `talk` is the socket of the case, for one that has more to say than its answer.
    """
    _limit_memory(request.get("memory"), around.callgrind is not None)
    sys.path[:0] = request.get("path", [])
    _seed_everything(around.torch)
    kind = request["kind"]
    if kind in _ANSWERED:
        return _ANSWERED[kind](request, around)
    if kind in _TALKING:
        return _TALKING[kind](request, around, talk)
    if kind == "count" and around.callgrind is not None and around.reserve is not None:
        return _count(request, around, around.callgrind, around.reserve)
    raise UnknownRequestError("this zygote does not answer the request {!r}".format(kind))


def _run(request: Dict[str, Any], around: Surroundings) -> Dict[str, Any]:
    """Setup and statement once, neither timed nor counted."""
    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])
    if "library" in request:
        NativeLoop(request["library"], request["symbol"]).run(1)
    else:
        namespace = _namespace(request, around)
        PythonLoop(request["stmt"], request["setup"], globals=namespace).timeit(1)
    return {"outcome": "done"}


_USUAL_RUNS = 20
"""Before what a run does in Python is looked at: caches are then filled."""


def _python_calls(request: Dict[str, Any], around: Surroundings) -> Dict[str, Any]:
    blocks = PythonLoop(
        request["stmt"], request["setup"], globals=_namespace(request, around)
    ).blocks()
    blocks.run(_USUAL_RUNS)
    return {"outcome": "done", "functions": python_calls.by_function(lambda: blocks.run(1))}


def _count(
    request: Dict[str, Any], around: Surroundings, callgrind: Requests, reserve: layout.Reserve
) -> Dict[str, Any]:
    layout.have_had_a_thread()
    if "library" in request:
        number, warmup = request["number"], request["warmup"]
        native = NativeLoop(request["library"], request["symbol"])
        layout.empty_the_bins()
        # Machine code both: no Python runs while callgrind counts.
        toggle = callgrind.toggle_collect
        callgrind.zero_stats()
        seconds = native.run(number, warmup, toggle, toggle)
    else:
        seconds = _count_python(request, around, callgrind, reserve)
    callgrind.dump_stats_at(b"torchmark")
    return {"outcome": "done", "seconds": seconds}


def _count_python(
    request: Dict[str, Any], around: Surroundings, callgrind: Requests, reserve: layout.Reserve
) -> float:
    reserve.free_before_setup()
    namespace = _namespace(request, around)
    code = UnrolledCode(
        request["stmt"],
        request["setup"],
        values.imports(request["globals"]),
        number=request["number"],
        warmup=request["warmup"],
    )
    start = []  # type: List[float]
    imports = UnwatchedImports(callgrind)

    def ready() -> None:
        imports.end()
        layout.empty_the_bins()
        callgrind.zero_stats()  # calls have been counted since instrumentation began
        start.append(time.perf_counter())
        reserve.free_before_loop()

    imports.begin()
    code.run(namespace, ready, callgrind.toggle_from_python)
    return time.perf_counter() - start[0]


def _sample(request: Dict[str, Any], around: Surroundings) -> Dict[str, Any]:
    started = _started(request, around)
    first = started.blocks.run(1).wall
    metronome = Metronome()
    metronome.quiet_pace = request["quiet_pace"]
    sampling = _sampled(started, request, metronome)
    return {"outcome": "done", "sampling": vars(sampling), "first_run": first}


def _order(request: Dict[str, Any], around: Surroundings) -> Dict[str, Any]:
    """All calls of a step, in their order."""
    from torchmark_probe.replay import order  # noqa: PLC0415 - needs torch; imported by warmup

    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])
    clock = wall_clock(around.torch)
    facts = clock_facts(clock)
    limits = Limits(*request["limits"])
    step = order.prepared(request["calls"], request["seed"])
    passes = order.Passes(step, request["order"], clock)
    sampling = _sampled(_Started(passes, facts), request, Metronome())
    with garbage_collection_off():
        seconds = passes.seconds_by_position(facts.cost, limits.min_run_time)
    return {
        "outcome": "done",
        "sampling": vars(sampling),
        "seconds": seconds,
        "left_out": step.left_out,
    }


def _sampled(started: "_Started", request: Dict[str, Any], metronome: Metronome) -> Sampling:
    rng = random.Random(request["seed"])  # noqa: S311 - an order of blocks, not a secret
    return sample([started.blocks], Limits(*request["limits"]), rng, started.clock, metronome)[0]


def _session(request: Dict[str, Any], around: Surroundings, talk: int) -> Dict[str, Any]:
    """Blocks in turns with another process, as often as the control side orders some."""
    rng = random.Random(request["shake"])  # noqa: S311 - places in memory, not a secret
    addresses.move_heap(rng)
    before = huge_pages.memory()
    started = _started({**request, "cores": []} if request["beside"] else request, around)
    huge_pages.collapse(huge_pages.new_since(before, huge_pages.memory()))

    def serve() -> None:
        started.blocks.run(1)
        limits = Limits(*request["limits"])
        number, seconds = block_size(started.blocks, started.clock, limits, turns.BLOCK_SECONDS)
        wire.send(talk, {"number": number, "seconds": seconds})
        while True:
            order = wire.receive(talk)
            if order is None:
                return
            _move_to(request["cores"])
            wire.send(talk, {"seconds": turns.taken(started.blocks, order)})

    with garbage_collection_off():
        addresses.with_moved_stack(rng, serve)
    return {"outcome": "done"}


def _move_to(cores: List[int]) -> None:
    """All threads of this process, those that torch has made for its work too."""
    for thread in os.listdir("/proc/self/task") if cores else ():
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), cores)


def _loop(request: Dict[str, Any], around: Surroundings, talk: int) -> Dict[str, Any]:
    """The statement again and again, until the control side has seen enough."""
    started = _started(request, around)
    endless.let_any_process_look()
    sampling = _sampled(started, request, Metronome())
    seconds = median([sampling.wall[index] for index in sampling.counted()])
    number = endless.runs_between_looks(sampling.number, seconds, started.setup_seconds)
    with garbage_collection_off():
        wire.send(talk, {"process": os.getpid(), "seconds_per_run": seconds / sampling.number})
        runs = endless.looped(started.blocks, number, talk, request["time_limit"])
    return {"outcome": "done", "runs": runs}


def _sweep(request: Dict[str, Any], _around: Surroundings, talk: int) -> Dict[str, Any]:
    # The zygote of a sweep imports it after torch; this module is there before torch.
    from torchmark_probe.sweep import worker  # noqa: PLC0415

    return worker.answer(request, talk)


_ANSWERED = {"run": _run, "sample": _sample, "python calls": _python_calls, "order": _order}
"""What a request of each kind is answered by."""

_TALKING = {"session": _session, "loop": _loop, "sweep": _sweep}
"""The kinds that say more than their answer."""


class _Started(NamedTuple):
    """A statement whose setup has been done."""

    blocks: Any
    """Has `run(number) -> Block`."""

    clock: ClockFacts
    """What decides how long a block must be."""

    setup_seconds: float = 0.0
    """What every block does before its first run, beside what it measures."""


def _started(request: Dict[str, Any], around: Surroundings) -> _Started:
    if request["cores"]:
        os.sched_setaffinity(0, request["cores"])
    clock = wall_clock(around.torch)
    facts = clock_facts(clock)
    if "library" in request:
        native = NativeLoop(request["library"], request["symbol"])
        # The setup runs before every block, so a block lasts as long as the setup where that
        # leaves enough of them: sampling then takes about twice the time that is measured.
        setup = native.setup_seconds()
        facts = facts._replace(cost=max(facts.cost, setup / CLOCK_STEPS_PER_BLOCK))
        return _Started(_NativeBlocks(native), facts, setup)
    gc.enable()  # as in any program, while the setup runs; off again between the blocks
    loop = PythonLoop(
        request["stmt"], request["setup"], timer=clock, globals=_namespace(request, around)
    )
    return _Started(loop.blocks(), facts)


class _NativeBlocks:
    """Blocks of a compiled statement, whose setup runs again in each."""

    def __init__(self, native: NativeLoop) -> None:
        self._native = native

    def run(self, number: int) -> Block:
        cpu: List[float] = []

        def read() -> None:
            cpu.append(time.thread_time())

        wall = self._native.run(number, WARM_UP_RUNS, read, read)
        return Block(wall, cpu[1] - cpu[0])


def _namespace(request: Dict[str, Any], around: Surroundings) -> Dict[str, Any]:
    """The globals of the statement."""
    namespace = values.made(request["globals"], around.torch)
    if request["global_setup"]:
        run_globally(request["global_setup"], namespace)
    return namespace


def _limit_memory(extra: Optional[int], is_under_valgrind: bool) -> None:
    """Let the case take `extra` bytes beyond what the zygote has already.

    RLIMIT_DATA counts what is written to; valgrind keeps that one for itself, so there the
    address space is limited.
    """
    if extra is None:
        return
    with open("/proc/self/statm") as file:
        sizes = [int(field) * _PAGE_SIZE for field in file.read().split()]
    kind, used = (
        (resource.RLIMIT_AS, sizes[0]) if is_under_valgrind else (resource.RLIMIT_DATA, sizes[5])
    )
    _, hard = resource.getrlimit(kind)
    wanted = used + extra
    resource.setrlimit(kind, (wanted if hard < 0 else min(wanted, hard), hard))


def _seed_everything(torch: Any) -> None:
    """The same numbers in every child: Python draws a new seed at a fork."""
    random.seed(0)
    # torch.manual_seed goes through every kind of device, with a traceback for each.
    torch.default_generator.manual_seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)


def flush_everything() -> None:
    """What the case printed leaves the process, from Python and from C."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the statement closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)

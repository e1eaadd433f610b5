"""What a child does with a statement: make its globals, then run, time, count or loop it.

A `Count` runs under callgrind, with collection on between two calls of the toggle. Besides the
statement, this counts the return from one call and the entry to the other, which are the same for
every statement: the count of `pass` includes them too.

*Alternation.* Two processes on one core run their blocks in turns, without a third process. When a
process has finished a block, it wakes the other and sleeps. So the core switches from one to the
other and is never idle, and nearly twice as many rounds fit into the same time as with a third
process that says who is next. The signal is a byte in a named pipe; each process reads from its own
pipe and writes to the other's. When a process ends, its pipes are closed, so the other one does not
wait forever.

*An endless loop* runs while a profiler samples the process from outside. The process does nothing
else in that time: torch is imported, the setup is done, and the statement is warm.
"""

import ast
import contextlib
import ctypes
import gc
import importlib
import os
import random
import select
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from torchmark_probe import memory, pages
from torchmark_probe.loops import sampling
from torchmark_probe.loops.clocks import ClockFacts, clock_facts, wall_clock
from torchmark_probe.loops.counted import UnrolledCode, bytecodes_by_function
from torchmark_probe.loops.intervals import median
from torchmark_probe.loops.native import NativeLoop
from torchmark_probe.loops.sampling import Limits, ReferenceLoop, Sampling
from torchmark_probe.loops.snippets import (
    Block,
    PythonLoop,
    garbage_collection_off,
    run_globally,
)
from torchmark_probe.zygote import messages, wire
from torchmark_probe.zygote.handlers import Surroundings, answers, not_answered
from torchmark_probe.zygote.valgrind import Requests, UnwatchedImports

BLOCK_SECONDS = 100e-6
"""A block begins with cold caches, but so does a block of the other process, which hardly affects
the ratio. On a noisy host consecutive blocks differ by 10 %, however long they are, so many short
blocks are better: with 100 µs instead of 300 µs, the ratio of two small ops spreads 0.5 to 0.8
times as much."""

RUNS_TO_A_WARM_UP = 4
"""Before a block, the statement runs once for this many runs of the block, but at least once,
because the other process has just filled the caches with its own data. Otherwise a block of a
single run is measured cold (a gather of a million elements took 7.4 ms instead of 4.0), and what
the other process left in the caches is noise. Process pairs with and without it, in one recording:
crossovers of the gather spread 0.65 instead of 2.6 %, of an encoder layer 0.39 instead of 1.0 %, of
`add` in 4 MB 0.21 instead of 0.39 %. Statements that stream through 4 MB or more spread as before.
"""

LOOK_SECONDS = 0.05
"""Seconds between two reads of the socket, which take a microsecond: too little to be visible in a
flame graph, and soon enough."""

_OUTPUT_BYTES = 1 << 20
"""Alternating processes overwrite their output after this many bytes: output cannot fill the
memory, and the buffer stays in the caches, as with a pipe."""

_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)


@answers(messages.Run)
def _run(work: messages.Run, around: Surroundings, _talk: int) -> messages.Done:
    case = work.case
    if isinstance(case, messages.NativeCase):
        NativeLoop(str(case.library), case.symbol).run(1)
    else:
        PythonLoop(case.stmt, case.setup, globals=make_namespace(case, around)).timeit(1)
    return messages.Done()


_USUAL_RUNS = 20
"""Runs before the run whose bytecodes are counted, to fill caches."""


@answers(messages.TracePython)
def _trace_python(work: messages.TracePython, around: Surroundings, _talk: int) -> messages.Value:
    case = work.case
    blocks = PythonLoop(case.stmt, case.setup, globals=make_namespace(case, around)).blocks()
    blocks.run(_USUAL_RUNS)
    return messages.Value(bytecodes_by_function(lambda: blocks.run(1)))


@answers(messages.Count)
def _count(work: messages.Count, around: Surroundings, _talk: int) -> messages.Done:
    callgrind = around.callgrind
    if callgrind is None:
        raise not_answered(work)
    memory.have_had_a_thread()
    case = work.case
    if isinstance(case, messages.NativeCase):
        native = NativeLoop(str(case.library), case.symbol)
        memory.empty_the_bins()
        # Both are machine code: no Python runs while callgrind counts.
        toggle = callgrind.toggle_collect
        callgrind.zero_stats()
        native.run(work.number, work.warmup, toggle, toggle)
    else:
        _count_python(case, work, around, callgrind)
    callgrind.dump_stats()
    return messages.Done()


def _count_python(
    case: messages.PythonCase, work: messages.Count, around: Surroundings, callgrind: Requests
) -> None:
    reserve = around.reserve
    assert reserve is not None, "a zygote under callgrind has one"
    reserve.free_before_setup()
    namespace = make_namespace(case, around)
    modules = imported_modules(case.globals)
    code = UnrolledCode(case.stmt, case.setup, modules, number=work.number, warmup=work.warmup)
    imports = UnwatchedImports(callgrind)

    def ready() -> None:
        imports.end()
        memory.empty_the_bins()
        callgrind.zero_stats()  # calls are counted from the start of instrumentation
        reserve.free_before_loop()

    imports.begin()
    code.run(namespace, ready, callgrind.toggle_from_python)


@answers(messages.Sample)
def _sample(work: messages.Sample, around: Surroundings, _talk: int) -> messages.Sampled:
    started = start_case(work.case, around)
    first = started.blocks.run(1).wall
    reference = ReferenceLoop()
    reference.quiet_pace = work.quiet_pace
    return messages.Sampled(_sampling(started, work.limits, work.seed, reference), first)


def _sampling(started: "Started", limits: Limits, seed: int, reference: ReferenceLoop) -> Sampling:
    rng = random.Random(seed)  # noqa: S311 - an order of blocks, not a secret
    return sampling.sample([started.blocks], limits, rng, started.clock, reference)[0]


@answers(messages.Alternate)
def _alternate(work: messages.Alternate, around: Surroundings, talk: int) -> messages.Done:
    """Run blocks that alternate with another process's, whenever the control side asks."""
    rng = random.Random(work.shake)  # noqa: S311 - places in memory, not a secret
    before = memory.written_memory()
    place = memory.move_heap(rng)
    output = (os.dup(1), os.dup(2))  # ours, whatever the statement does with its own

    def serve() -> None:
        started = start_case(work.case, around)  # a C++ statement's stack moves like ours
        blocks = BoundedOutput(started.blocks, output)
        with garbage_collection_off():
            mover = pages.DataMover(started.blocks.held(), around.torch, rng)
            run_seconds = settle(blocks, place, before, mover)
            if around.copies_code:
                pages.copy_code(rng)
            size = sampling.block_size(
                blocks, started.clock, work.limits, BLOCK_SECONDS, run_seconds=run_seconds
            )
            wire.send(talk, messages.BlockSize(*size, is_small=mover.is_small))
            serve_blocks(blocks, talk, work.cores, mover)

    memory.with_moved_stack(rng, serve)
    return messages.Done()


class BoundedOutput:
    """Blocks whose statement may print any amount into files, which never grow large.

    Between blocks, the process itself goes back to the start of a file. So no other process has to
    run, and both sides do the same.
    """

    def __init__(self, blocks: Any, files: Sequence[int]) -> None:
        self._blocks = blocks
        self._files = files

    def run(self, number: int) -> Block:
        for file in self._files:
            if os.lseek(file, 0, os.SEEK_CUR) > _OUTPUT_BYTES:
                os.lseek(file, 0, os.SEEK_SET)
        block: Block = self._blocks.run(number)
        return block


_MOST_SETTLING_RUNS = 16
_MOST_SETTLING = 0.03
"""Seconds; a statement that gets new pages in every run never settles."""

_SETTLED_RUNS = 3
"""Consecutive runs without new pages."""

_MANY_FAULTS = 32
"""Page faults of 4 KB in one run; fewer do not mean a large piece of memory."""


def settle(
    blocks: Any, place: int, before: Sequence[memory.Range], mover: pages.DataMover
) -> float:
    """Run a statement until it has the memory that it will use in its blocks.

    The first run prepares the C library to take large pieces from the heap, and the next runs make
    the heap as large as needed. Getting the pages of 8 MB takes 4 ms, cloning 8 MB takes 0.4 ms.
    `before` is the memory from before the setup. What is too large for the mover is moved to huge
    pages. Returns the seconds of a run, or 0 after too few runs, because the first ones compile.
    """
    blocks.run(1)
    memory.keep_heap()
    memory.place_heap(place)
    settled, stop = 0, time.monotonic() + _MOST_SETTLING
    seconds: List[float] = []
    for _ in range(_MOST_SETTLING_RUNS):
        faults = pages.page_faults()
        seconds.append(blocks.run(1).wall)
        settled = settled + 1 if pages.page_faults() - faults < _MANY_FAULTS else 0
        if settled == _SETTLED_RUNS or time.monotonic() > stop:
            break
    mover.start(lambda: blocks.run(1))
    memory.collapse(memory.new_since(before, memory.written_memory()))
    return min(seconds) if len(seconds) >= _SETTLED_RUNS else 0.0


def serve_blocks(blocks: Any, talk: int, cores: List[int], mover: pages.DataMover) -> None:
    """Run blocks on these cores whenever the control side asks, until it closes the connection."""
    while True:
        wanted = wire.receive(talk)
        if not isinstance(wanted, messages.TakeBlocks):
            return
        _move_to(cores)
        wire.send(talk, _run_blocks(blocks, wanted, mover))


def _move_to(cores: List[int]) -> None:
    """Move all threads of this process, including those that torch has started."""
    for thread in os.listdir("/proc/self/task") if cores else ():
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(int(thread), cores)


def _run_blocks(
    blocks: Any, wanted: messages.TakeBlocks, mover: pages.DataMover
) -> messages.BlockTimes:
    """Run every block of this process (`blocks` has `run(number)`).

    If the other process ends before its last block, the times so far are returned.
    """
    own = os.open(wanted.own, os.O_RDONLY | os.O_NONBLOCK)
    other = os.open(wanted.other, os.O_WRONLY)  # waits until the other process opens it too
    try:
        os.write(other, b".")
        waiting = select.poll()
        waiting.register(own, select.POLLIN)
        waiting.poll()
        os.set_blocking(own, True)
        os.read(own, 1)
        return _take_turns(blocks, wanted, own, other, mover)
    finally:
        os.close(own)
        os.close(other)


def warm_up_runs(number: int) -> int:
    """Return the number of runs before a block of this many runs in alternation."""
    return max(1, number // RUNS_TO_A_WARM_UP)


def _take_turns(
    blocks: Any, wanted: messages.TakeBlocks, own: int, other: int, mover: pages.DataMover
) -> messages.BlockTimes:
    order = wanted.order
    role, number = wanted.role, wanted.number
    seconds: List[float] = []
    warm_ups: List[float] = []
    cpu_seconds = 0.0
    for index, whose in enumerate(order):
        if whose != role:
            continue
        if index and order[index - 1] != role and not os.read(own, 1):
            break
        mover.move_if_due(lambda: blocks.run(number))
        warm_up = blocks.run(warm_up_runs(number))
        block = blocks.run(number)
        if index + 1 < len(order) and order[index + 1] != role:
            try:
                os.write(other, b".")
            except BrokenPipeError:
                break
        seconds.append(block.wall)
        warm_ups.append(warm_up.wall)
        cpu_seconds += block.cpu
    return messages.BlockTimes(seconds, warm_ups, cpu_seconds)


@answers(messages.Loop)
def _loop(work: messages.Loop, around: Surroundings, talk: int) -> messages.Value:
    """Run the statement again and again until the control side stops it."""
    started = start_case(work.case, around)
    _let_any_process_look()
    sampled = _sampling(started, work.limits, 0, ReferenceLoop())
    seconds = median([sampled.wall[index] for index in sampled.counted()])
    number = runs_between_looks(sampled.number, seconds)
    with garbage_collection_off():
        wire.send(talk, messages.Looping(os.getpid(), seconds / sampled.number))
        runs = loop_until_told(started.blocks, number, talk, work.time_limit)
    return messages.Value(runs)


def _let_any_process_look() -> None:
    """Let a profiler of the same user attach, which is not an ancestor of this process.

    Linux with Yama in its default scope, 1, needs this; otherwise it does nothing.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def runs_between_looks(number: int, seconds: float) -> int:
    """Return the runs between two reads of the socket, if `number` runs take `seconds`."""
    return max(1, round(number * LOOK_SECONDS / seconds)) if seconds > 0 else number


def loop_until_told(blocks: Any, number: int, talk: int, limit: float) -> int:
    """Run blocks (`blocks` has `run(number)`) until something arrives on the socket, or for `limit`
    seconds. Returns the runs.

    If the control side is gone, the end of the socket ends the loop too.
    """
    heard = select.poll()
    heard.register(talk, select.POLLIN)
    runs, over = 0, time.monotonic() + limit
    while not heard.poll(0) and time.monotonic() < over:
        blocks.run(number)
        runs += number
    return runs


class Started(NamedTuple):
    """A statement whose setup has run."""

    blocks: Any
    """Has `run(number) -> Block`."""

    clock: ClockFacts
    """Determines how long a block must be."""


def start_case(
    case: messages.Case, around: Surroundings, namespace: Optional[Dict[str, Any]] = None
) -> Started:
    """Run the setup of the case and return it ready to run; by default in a new namespace."""
    clock = wall_clock(around.torch)
    facts = clock_facts(clock)
    if isinstance(case, messages.NativeCase):
        native = NativeLoop(str(case.library), case.symbol)
        return Started(native.blocks(clock=clock), facts)
    if namespace is None:
        namespace = make_namespace(case, around)
    gc.enable()  # the setup runs with it, as in any program; the blocks run without it
    loop = PythonLoop(case.stmt, case.setup, timer=clock, globals=namespace)
    return Started(loop.blocks(), facts)


def make_namespace(case: messages.PythonCase, around: Surroundings) -> Dict[str, Any]:
    """Return the globals of the statement."""
    namespace = make_globals(case.globals, around.torch)
    if case.global_setup:
        run_globally(case.global_setup, namespace)
    return namespace


def make_globals(recipes: Dict[str, Dict[str, Any]], torch: Any) -> Dict[str, Any]:
    """Return the namespace in which a statement runs, with every global by its name.

    Plain values are part of the request. Values that only torch can write are in files, which the
    control side has written into a directory that only this user can read. A recipe may have its
    own `setup`, such as the import of the file that defines a class.
    """
    namespace: Dict[str, Any] = {}
    for name, recipe in recipes.items():
        if recipe.get("setup"):
            run_globally(recipe["setup"], namespace)
            # A class of the user's script was saved as part of `__main__` and is looked up there.
            vars(sys.modules["__main__"]).update(namespace)
        try:
            namespace[name] = _make(name, recipe, torch)
        except Exception as error:
            # The same error as torch raises. The case's own mistakes keep their types.
            raise OSError(
                "the global {!r} cannot be copied into this process: {}: {}. If its class is not "
                "found here, import it: CopyIfCallgrind(value, setup='import …')".format(
                    name, type(error).__name__, error
                )
            ) from error
    return namespace


def imported_modules(recipes: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
    """Return the modules among the globals that an `import` can name, by global name."""
    return {
        name: recipe["value"]
        for name, recipe in recipes.items()
        if recipe["kind"] == "import"
        and all(part.isidentifier() for part in [name, *recipe["value"].split(".")])
    }


def _make(name: str, recipe: Dict[str, Any], torch: Any) -> Any:
    kind = recipe.get("kind")
    if kind == "json":
        return recipe["value"]
    if kind == "literal":
        return ast.literal_eval(recipe["value"])
    if kind == "import":
        return importlib.import_module(recipe["value"])
    if kind == "torch":
        return torch.load(recipe["path"], weights_only=True)
    if kind == "pickle":
        # It contains code, so it cannot be loaded with weights_only; the file is our own.
        return torch.load(recipe["path"], weights_only=False)
    if kind == "script":
        return torch.jit.load(recipe["path"])
    raise ValueError(f"the global {name!r} has the unknown kind {kind!r}")

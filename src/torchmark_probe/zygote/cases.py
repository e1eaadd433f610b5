"""What a child does for a statement: make its globals, run it, time it, count it, let it loop.

A `Count` runs under callgrind, with the collection on between two calls of the toggle. What is
counted beside the statement (the way out of one call and into the other) is the same for every
statement: the count of `pass` has it too.

*Alternation.* Two processes on one core alternate, block by block, and hand each other a baton.
Nobody else is asked in between. Whoever has finished a block wakes the other and sleeps, so the
core goes from one to the other and is never idle, and no third process has to run to say who is
next: nearly twice as many rounds fit into the same time. The baton is a byte in a named pipe; each
process reads its own and writes the other's. The end of a process closes its pipes, so the other
one does not wait in vain.

*An endless loop* runs until somebody has seen enough: what a profiler looks at from outside. The
process does nothing else by then: torch is imported, the setup done, the statement warm.
"""

import ast
import contextlib
import ctypes
import gc
import importlib
import os
import random
import resource
import select
import sys
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from torchmark_probe import memory
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
"""A block begins with cold caches, but so does that of the other: the ratio hardly feels it. On a
noisy host one block differs from the next by 10 %, however long they are, so many short ones say
more: with 100 µs in place of 300 µs the ratio of two small ops spreads 0.5 to 0.8 times as much."""

RUNS_TO_A_WARM_UP = 4
"""Of the runs of a block, one in so many runs before it, and one at least: the other process has
just filled the caches with its own data. Without it a block of a single run is measured cold (a
gather of a million elements took 7.4 ms in place of 4.0), and what the other one left there is
noise. Process pairs with and without it, in one recording: crossovers of the gather spread 0.65 in
place of 2.6 %, of an encoder layer 0.39 in place of 1.0 %, of `add` in 4 MB 0.21 in place of
0.39 %; those of 4 MB or more that are streamed through spread as before."""

LOOK_SECONDS = 0.05
"""Between two looks at the socket, which take a microsecond: nobody sees that in a picture, and
nobody waits for it."""

_OUTPUT_BYTES = 1 << 20
"""After which what alternates writes over what it wrote before: no output fills the memory, and all
that it is written to is in the caches, as in a pipe."""

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
"""Before what a run does in Python is looked at: caches are then filled."""


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
        # Machine code both: no Python runs while callgrind counts.
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
    assert reserve is not None, "there is one under callgrind"
    reserve.free_before_setup()
    namespace = make_namespace(case, around)
    modules = imported_modules(case.globals)
    code = UnrolledCode(case.stmt, case.setup, modules, number=work.number, warmup=work.warmup)
    imports = UnwatchedImports(callgrind)

    def ready() -> None:
        imports.end()
        memory.empty_the_bins()
        callgrind.zero_stats()  # calls have been counted since instrumentation began
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
    """Blocks that alternate with another process's, as often as the control side asks for some."""
    rng = random.Random(work.shake)  # noqa: S311 - places in memory, not a secret
    before = memory.written_memory()
    place = memory.move_heap(rng)
    output = (os.dup(1), os.dup(2))  # ours, whatever the statement does to its own

    def serve() -> None:
        started = start_case(work.case, around)  # a statement in C++ has a stack that follows ours
        blocks = BoundedOutput(started.blocks, output)
        with garbage_collection_off():
            settle(blocks, place, before)
            if around.copies_code:
                memory.copy_code(rng)
            number, seconds = sampling.block_size(blocks, started.clock, work.limits, BLOCK_SECONDS)
            wire.send(talk, messages.BlockSize(number, seconds))
            serve_blocks(blocks, talk, work.cores)

    memory.with_moved_stack(rng, serve)
    return messages.Done()


class BoundedOutput:
    """Blocks whose statement may print without end into files: they never grow large.

    Between blocks the process itself goes back to the start of a file, so that no other process
    has to run, and both sides do alike.
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
"""Seconds; a statement that gets new pages in each of its runs never settles."""

_SETTLED_RUNS = 3
"""In a row, without new pages."""

_MANY_FAULTS = 32
"""Of 4 KB, in one run: less is no large piece of memory."""


def settle(blocks: Any, place: int, before: Sequence[memory.Range]) -> None:
    """Let a statement run until it has the memory that it will have in its blocks.

    The first run has the C library take large pieces from the heap from then on, and the next ones
    make the heap as large as it has to be. Getting the pages of 8 MB takes 4 ms, to clone them 0.4.
    `before` is the memory from before the setup.
    """
    blocks.run(1)
    memory.keep_heap()
    memory.place_heap(place)
    settled, stop = 0, time.monotonic() + _MOST_SETTLING
    for _ in range(_MOST_SETTLING_RUNS):
        faults = _page_faults()
        blocks.run(1)
        settled = settled + 1 if _page_faults() - faults < _MANY_FAULTS else 0
        if settled == _SETTLED_RUNS or time.monotonic() > stop:
            break
    memory.collapse(memory.new_since(before, memory.written_memory()))


def _page_faults() -> int:
    """Pages that this process got so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def serve_blocks(blocks: Any, talk: int, cores: List[int]) -> None:
    """Take blocks on these cores whenever the control side asks for some, until it is gone."""
    while True:
        wanted = wire.receive(talk)
        if not isinstance(wanted, messages.TakeBlocks):
            return
        _move_to(cores)
        wire.send(talk, _run_blocks(blocks, wanted))


def _move_to(cores: List[int]) -> None:
    """All threads of this process, those that torch has made for its work too."""
    for thread in os.listdir("/proc/self/task") if cores else ():
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.sched_setaffinity(int(thread), cores)


def _run_blocks(blocks: Any, wanted: messages.TakeBlocks) -> messages.BlockTimes:
    """Take every block of ours (`blocks` has `run(number)`).

    If the other process ends before its last block, what there is until then is returned.
    """
    own = os.open(wanted.own, os.O_RDONLY | os.O_NONBLOCK)
    other = os.open(wanted.other, os.O_WRONLY)  # waits until the other process has come so far
    try:
        os.write(other, b".")
        waiting = select.poll()
        waiting.register(own, select.POLLIN)
        waiting.poll()
        os.set_blocking(own, True)
        os.read(own, 1)
        return _take_turns(blocks, wanted, own, other)
    finally:
        os.close(own)
        os.close(other)


def warm_up_runs(number: int) -> int:
    """Runs that precede a block of so many in alternation."""
    return max(1, number // RUNS_TO_A_WARM_UP)


def _take_turns(
    blocks: Any, wanted: messages.TakeBlocks, own: int, other: int
) -> messages.BlockTimes:
    order = wanted.order
    role, number = wanted.role, wanted.number
    seconds: List[float] = []
    warm_ups: List[float] = []
    for index, whose in enumerate(order):
        if whose != role:
            continue
        if index and order[index - 1] != role and not os.read(own, 1):
            break
        warm_up = blocks.run(warm_up_runs(number))
        block = blocks.run(number)
        if index + 1 < len(order) and order[index + 1] != role:
            try:
                os.write(other, b".")
            except BrokenPipeError:
                break
        seconds.append(block.wall)
        warm_ups.append(warm_up.wall)
    return messages.BlockTimes(seconds, warm_ups)


@answers(messages.Loop)
def _loop(work: messages.Loop, around: Surroundings, talk: int) -> messages.Value:
    """The statement again and again, until the control side has seen enough."""
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
    """Let a profiler of the same user attach, which is no ancestor of this process.

    Where Linux has Yama and its usual scope, 1, it asks the process; elsewhere this does nothing.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)


def runs_between_looks(number: int, seconds: float) -> int:
    """Runs of a block, where `number` of them take `seconds`."""
    return max(1, round(number * LOOK_SECONDS / seconds)) if seconds > 0 else number


def loop_until_told(blocks: Any, number: int, talk: int, limit: float) -> int:
    """Run block after block (`blocks` has `run(number)`) until something comes by the socket, or
    for `limit` seconds. Returns the runs.

    The end of the socket comes too: with the control side gone the loop is over.
    """
    heard = select.poll()
    heard.register(talk, select.POLLIN)
    runs, over = 0, time.monotonic() + limit
    while not heard.poll(0) and time.monotonic() < over:
        blocks.run(number)
        runs += number
    return runs


class Started(NamedTuple):
    """A statement whose setup has been done."""

    blocks: Any
    """Has `run(number) -> Block`."""

    clock: ClockFacts
    """What decides how long a block must be."""


def start_case(
    case: messages.Case, around: Surroundings, namespace: Optional[Dict[str, Any]] = None
) -> Started:
    """The case set up and ready to run; in a namespace of its own, unless one is given."""
    clock = wall_clock(around.torch)
    facts = clock_facts(clock)
    if isinstance(case, messages.NativeCase):
        native = NativeLoop(str(case.library), case.symbol)
        return Started(native.blocks(clock=clock), facts)
    if namespace is None:
        namespace = make_namespace(case, around)
    gc.enable()  # as in any program, while the setup runs; off again between the blocks
    loop = PythonLoop(case.stmt, case.setup, timer=clock, globals=namespace)
    return Started(loop.blocks(), facts)


def make_namespace(case: messages.PythonCase, around: Surroundings) -> Dict[str, Any]:
    """The globals of the statement."""
    namespace = make_globals(case.globals, around.torch)
    if case.global_setup:
        run_globally(case.global_setup, namespace)
    return namespace


def make_globals(recipes: Dict[str, Dict[str, Any]], torch: Any) -> Dict[str, Any]:
    """The namespace in which a statement runs: every global by its name.

    Plain values travel in the request. What torch alone can write travels as a file, written by the
    control side into a directory that only this user can read. A recipe may have a `setup` of its
    own, such as the import of the file that defines a class.
    """
    namespace: Dict[str, Any] = {}
    for name, recipe in recipes.items():
        if recipe.get("setup"):
            run_globally(recipe["setup"], namespace)
            # A class of the user's script was saved as one of `__main__`, and is looked for there.
            vars(sys.modules["__main__"]).update(namespace)
        try:
            namespace[name] = _make(name, recipe, torch)
        except Exception as error:
            # As of torch. The case's own mistakes keep their types.
            raise OSError(
                "the global {!r} cannot be copied into this process: {}: {}. If its class is not "
                "found here, import it: CopyIfCallgrind(value, setup='import …')".format(
                    name, type(error).__name__, error
                )
            ) from error
    return namespace


def imported_modules(recipes: Dict[str, Dict[str, Any]]) -> Dict[str, str]:
    """The modules among the globals that an `import` can name, by the names of the globals."""
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
        # It is code, so it cannot be loaded as weights alone; the file is our own.
        return torch.load(recipe["path"], weights_only=False)
    if kind == "script":
        return torch.jit.load(recipe["path"])
    raise ValueError(f"the global {name!r} is of the unknown kind {kind!r}")

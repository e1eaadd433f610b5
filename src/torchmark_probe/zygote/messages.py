"""What the control side and the processes of a zygote say to each other, one class a message.

Deriving from `Message` is all that it takes: a subclass is a frozen dataclass, and `wire` makes it
again at the other side by the annotations of its fields. Both sides come from one release and use
this module. It needs no torch.

In order: how a zygote begins, what is run, what is asked of a child, what is said while it works,
how it ends, what its parent says; then replays and sweeps.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from torchmark_probe.loops.sampling import Limits, Sampling

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_):
        """For type checkers alone; Python has it from 3.11 on."""
        return lambda cls: cls


classes: Dict[str, type] = {}
"""Every message by its name."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Message:
    """Anything that is said as a whole, or as a part of something else where its class may vary."""

    def __init_subclass__(cls) -> None:
        classes[cls.__name__] = dataclasses.dataclass(frozen=True)(cls)


class Start(Message):
    """To the zygote, once: how to start."""

    sys_path: List[str]
    threads: int
    layout: Optional[int]
    """Where libraries lie, as `memory.choose_addresses` has it; None leaves it to the kernel."""

    torch_file: str
    modules: List[str]
    """What to import after torch; what there is not is left out."""

    imports: List[str]
    """What the user wants imported after that; without one of these the zygote does not start."""

    import_path: List[str]
    """Where those are found beyond `sys_path`."""

    copies_code: bool = False
    """Whether children that are timed put code into pages of their own: `memory.copy_code`."""


class StageBegan(Message):
    """From the zygote: what it does now."""

    text: str


class Ready(Message):
    """From the zygote: cases can be handed over; the facts are those of its environment."""

    facts: Dict[str, Any]


class ImportFailed(Message):
    """From the zygote, last of all: a module that the user wants cannot be imported."""

    module: str
    reason: str


class PythonCase(Message):
    """A statement in Python, with all that it needs, as text and files."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    """Run as the code of a module before the setup; its names are globals."""

    globals: Dict[str, Dict[str, Any]] = dataclasses.field(default_factory=dict)
    """How to make each global: {"kind": "json", "literal" or "import", "value": ...}, or
    {"kind": "torch", "pickle" or "script", "path": ...}."""


class NativeCase(Message):
    """A compiled statement: an entry point of a shared object; see `loops.native`."""

    library: Union[str, Path]
    symbol: str


Case = Union[PythonCase, NativeCase]


class Request(Message):
    """To a child, once: what to do and where."""

    work: Message
    """What decides who answers; see `handlers`."""

    path: List[str]
    """Where it finds modules beyond the interpreter's own places."""

    memory: Optional[int]
    """Bytes that it may take beyond what the zygote has."""

    cores: List[int]
    """Where it runs; empty for where the zygote is."""


class Run(Message):
    """Setup and statement once, neither timed nor counted."""

    case: Case


class TracePython(Message):
    """Bytecodes of one run, by function."""

    case: PythonCase


class Count(Message):
    """The statement under callgrind, `number` times after `warmup` uncounted runs."""

    case: Case
    number: int
    warmup: int


class Sample(Message):
    """Times of the statement, block by block."""

    case: Case
    limits: Limits
    seed: int
    quiet_pace: float
    """The best pace of the reference loop that is known; see `loops.sampling`."""


class SampleTogether(Message):
    """Times of several statements, block by block in rounds."""

    cases: List[Case]
    """Cases in Python have the same globals and global setup, which are made once."""

    limits: Limits
    seed: int
    quiet_pace: float
    folder: str
    """Where the processes meet; see `rounds`."""


class Alternate(Message):
    """The statement set up and warm, for blocks that alternate with those of another process."""

    case: Case
    limits: Limits
    shake: int
    """Decides where heap and stack lie."""

    cores: List[int]
    """Where blocks run; the request's own cores are those of the setup."""


class Loop(Message):
    """The statement again and again until it is told to stop; its runs are the answer."""

    case: Case
    limits: Limits
    """How long it is timed before."""

    time_limit: float


class Call(Message):
    """A function of the probe that is offered for this; see `handlers.offer`."""

    function: str
    """Its module and name, "torchmark_probe.replay.work.machine_speeds"."""

    arguments: List[Any]


class BlockSize(Message):
    """From a child that alternates: it is ready."""

    number: int
    """Runs in a block that it found fitting."""

    seconds: float
    """What such a block takes."""


class TakeBlocks(Message):
    """To a child that alternates: take your blocks; see `cases`."""

    order: List[int]
    """The role whose block it is, for one block after the other."""

    role: int
    """The child's own."""

    number: int
    """Runs in a block."""

    own: str
    """The pipe that it reads."""

    other: str
    """The pipe that it writes."""


class BlockTimes(Message):
    """From a child that alternates: the seconds of each of its blocks, and of what preceded it."""

    seconds: List[float]
    warm_ups: List[float]


class Looping(Message):
    """From a child that loops: it is warm and does nothing else from now on."""

    process: int
    seconds_per_run: float


class Stop(Message):
    """To a child that loops."""


class Answer(Message):
    """From a child, last of all."""

    outcome: Message
    facts: Dict[str, Any]
    """What its code reported; see `handlers.report`."""


class Done(Message):
    """There is nothing to tell, or callgrind has written it into its file."""


class Sampled(Message):
    """The times that were asked for."""

    sampling: Sampling
    first_run: float
    """Seconds of the very first run, which is in no block."""


class SampledTogether(Message):
    """The times of several statements, in their order."""

    samplings: List[Sampling]


class Value(Message):
    """What a function gave back, or was found out, as plain JSON."""

    value: Any


class Raised(Message):
    """The case raised an exception."""

    headline: str
    """The type and the first line of the message."""

    frames: str
    """The traceback from the user's own line on, without the exception."""

    text: str
    """The exception as Python prints it, and those that caused it."""

    builtin: str = ""
    """The name of its class if that is one of Python's own."""

    is_memory: bool = False
    """Whether an allocation failed."""

    lacking: str = ""
    """What this environment does not have, in a sentence, if that is why; see `lacking`."""


class Unsupported(Message):
    """The case cannot be done here: the sentence says why, and nothing is broken."""

    reason: str


class SyntaxFailed(Message):
    """The setup or the statement does not compile; lines and columns are the user's own."""

    part: str
    message: str
    details: List[Any]
    """Line, column, text, end line and end column, each None where Python does not say it."""


class NotForked(Message):
    """There is no child: the kernel made none."""

    reason: str


class Forked(Message):
    """Which process the child is."""

    pid: int


class Ended(Message):
    """The child is gone."""

    status: int
    """As `os.waitpid` gives it."""


class ReplayInOrder(Message):
    """All calls of a step, in their order, pass after pass."""

    calls: List[str]
    """Distinct calls, each the JSON behind "call" of a trace."""

    order: List[int]
    """Numbers of calls, as the step made them."""

    limits: Limits
    seed: int
    values: str = ""
    """The file with recorded contents of tensors; "" if there is none."""


class LeftOut(Message):
    """A call that was not run."""

    number: int
    reason: str
    is_unsupported: bool
    """Whether it cannot be done here, and is no failure."""


class ReplayedInOrder(Message):
    """What the passes took."""

    sampling: Sampling
    """Whole passes, `number` of them in a block, with no clock read between calls."""

    seconds: List[float]
    """Of each position that was run: the median over passes of their own."""

    lows: List[float]
    """Where the 95 % interval of each median begins; `highs` has where it ends."""

    highs: List[float]
    passes: int
    """Those in which every position was timed."""

    left_out: List[LeftOut]


class Input(Message):
    """An input of the model."""

    dims: List[Union[str, int]]
    """Its shape: names of dimensions, or sizes."""

    dtype: str
    """Of the elements, where they are integers."""

    below: Union[str, int, None]
    """Integers lie below this size or dimension; None for floating-point numbers."""


class SweepCase(Message):
    """The model at one point, in one config."""

    dims: Dict[str, int]
    """Sizes by the names of dimensions."""

    dtype: str
    backend: str
    phase: str
    timed: bool
    """Whether more than its kernels is asked for."""


class Sweep(Message):
    """Many cases of one model, one after the other."""

    file: Optional[str]
    """The user's file, whose `model` it is."""

    init: List[str]
    """The dimensions that the model's constructor takes."""

    inputs: List[Input]
    threads: int
    folder: str
    """For what compilers write."""

    kernels: bool
    """Whether to look for the kernels of each case too."""

    cases: List[SweepCase]
    quiet_pace: float
    """The best pace of the reference loop that is known; see `loops.sampling`."""


class FileRead(Message):
    """The user's file has been run; cases follow."""


class Kernel(Message):
    """What one run does in one kernel."""

    kernel: str
    calls: float
    seconds: float


class Swept(Message):
    """What was found out of one case."""

    status: str
    """measured, skipped or failed."""

    reason: str = ""
    """Why it was not measured, or a warning about the result; empty for neither."""

    sampling: Optional[Sampling] = None
    max_error: Optional[float] = None
    """The largest difference from eager's result."""

    prepare_seconds: Optional[float] = None
    """Compiling or exporting, the first run included."""

    flops: Optional[int] = None
    bytes: Optional[int] = None
    peak_memory_bytes: Optional[int] = None
    kernels: Optional[List[Kernel]] = None
    """None where they were not asked for."""

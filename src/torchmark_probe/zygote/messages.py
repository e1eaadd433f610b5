"""The messages between the control side and the processes of a zygote, one class for each.

To define a message, derive from `Message`: a subclass is a frozen dataclass, and `wire` recreates
it on the other side from the annotations of its fields. Both sides belong to one release and use
this module. It does not need torch.

In order: starting a zygote, cases, requests to a child, messages during the work, outcomes,
messages from the child's parent; then replays and sweeps.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from torchmark_probe.loops.sampling import Limits, Sampling

if TYPE_CHECKING:
    from typing import dataclass_transform
else:

    def dataclass_transform(**_):
        """Only for type checkers; Python has it since 3.11."""
        return lambda cls: cls


classes: Dict[str, type] = {}
"""Every message class by its name."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Message:
    """A message, or a part of another message whose class may vary."""

    def __init_subclass__(cls) -> None:
        classes[cls.__name__] = dataclasses.dataclass(frozen=True)(cls)


class Start(Message):
    """To the zygote, once: how to start."""

    sys_path: List[str]
    threads: int
    layout: Optional[int]
    """Selects the addresses of libraries, see `memory.choose_addresses`; None means the kernel."""

    torch_file: str
    modules: List[str]
    """What to import after torch; missing modules are skipped."""

    imports: List[str]
    """What the user wants imported after that; if one is missing, the zygote does not start."""

    import_path: List[str]
    """Where these modules are found, in addition to `sys_path`."""

    copies_code: bool = False
    """Whether timed children copy code to new pages: `pages.copy_code`."""


class StageBegan(Message):
    """From the zygote: the stage that begins."""

    text: str


class Ready(Message):
    """From the zygote: it can take cases; the facts describe its environment."""

    facts: Dict[str, Any]


class ImportFailed(Message):
    """From the zygote, as its last message: a module of the user cannot be imported."""

    module: str
    reason: str


class PythonCase(Message):
    """A Python statement with everything that it needs, as text and files."""

    stmt: str
    setup: str = "pass"
    global_setup: str = ""
    """Run as module code before the setup; its names are globals."""

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
    """Its class selects the handler; see `handlers`."""

    path: List[str]
    """Where modules are found, in addition to the interpreter's path."""

    memory: Optional[int]
    """Bytes that it may allocate in addition to what the zygote has."""

    cores: List[int]
    """Where it runs; empty means where the zygote runs."""


class Run(Message):
    """Run setup and statement once, without timing or counting."""

    case: Case


class TracePython(Message):
    """Get the bytecodes of one run, by function."""

    case: PythonCase


class Count(Message):
    """Count `number` runs under callgrind, after `warmup` uncounted runs."""

    case: Case
    number: int
    warmup: int


class Sample(Message):
    """Time the statement, block by block."""

    case: Case
    limits: Limits
    seed: int
    quiet_pace: float
    """The best known pace of the reference loop; see `loops.sampling`."""


class SampleTogether(Message):
    """Time several statements, block by block in rounds."""

    cases: List[Case]
    """Cases in Python share their globals and global setup, which are made once."""

    limits: Limits
    seed: int
    quiet_pace: float
    folder: str
    """For the files shared with the control side; see `rounds`."""


class Alternate(Message):
    """Set up and warm the statement for blocks that alternate with those of another process."""

    case: Case
    limits: Limits
    shake: int
    """Determines the places of heap and stack."""

    cores: List[int]
    """The cores for blocks; the request's cores are for the setup."""


class Loop(Message):
    """Run the statement again and again until it is stopped; the answer is the number of runs."""

    case: Case
    limits: Limits
    """How long it is timed before."""

    time_limit: float


class Call(Message):
    """Call a function of the probe that is offered for this; see `handlers.offer`."""

    function: str
    """Its module and name, "torchmark_probe.replay.work.machine_speeds"."""

    arguments: List[Any]


class BlockSize(Message):
    """From a child that alternates: it is ready."""

    number: int
    """The number of runs that it chose for a block."""

    seconds: float
    """How long such a block takes."""

    is_small: bool = False
    """Whether the data that it uses fits into the caches of a core."""


class TakeBlocks(Message):
    """To a child that alternates: run your blocks; see `cases`."""

    order: List[int]
    """The role of each block, in order."""

    role: int
    """The role of this child."""

    number: int
    """Runs in a block."""

    own: str
    """The pipe that it reads."""

    other: str
    """The pipe that it writes."""


class BlockTimes(Message):
    """From a child that alternates: the seconds of each block, and of the warm-up before it."""

    seconds: List[float]
    warm_ups: List[float]
    cpu_seconds: float = 0.0
    """Processor time of all blocks: less than the sum of `seconds` if others use the core."""


class Looping(Message):
    """From a child that loops: it is warm and only runs the statement from now on."""

    process: int
    seconds_per_run: float


class Stop(Message):
    """To a child that loops."""


class Answer(Message):
    """From a child, as its last message."""

    outcome: Message
    facts: Dict[str, Any]
    """What its code reported; see `handlers.report`."""


class Done(Message):
    """Success without a value; counts are in callgrind's file."""


class Sampled(Message):
    """The times of a statement."""

    sampling: Sampling
    first_run: float
    """Seconds of the very first run, which is in no block."""


class SampledTogether(Message):
    """The times of several statements, in order."""

    samplings: List[Sampling]


class Value(Message):
    """A value as plain JSON, such as the result of a function."""

    value: Any


class Raised(Message):
    """The case raised an exception."""

    headline: str
    """The type and the first line of the message."""

    frames: str
    """The traceback from the user's line on, without the exception."""

    text: str
    """The exception as Python prints it, with its causes."""

    builtin: str = ""
    """The name of its class if it is built into Python."""

    is_memory: bool = False
    """Whether an allocation failed."""

    lacking: str = ""
    """What this environment lacks, in a sentence, if that is the reason; see `lacking`."""


class Unsupported(Message):
    """The case cannot run here for the given reason, but nothing is broken."""

    reason: str


class SyntaxFailed(Message):
    """The setup or the statement does not compile; lines and columns are the user's."""

    part: str
    message: str
    details: List[Any]
    """Line, column, text, end line and end column; None if Python does not give it."""


class NotForked(Message):
    """There is no child, because the kernel could not create it."""

    reason: str


class Forked(Message):
    """The process id of the child."""

    pid: int


class Ended(Message):
    """The child has ended."""

    status: int
    """As returned by `os.waitpid`."""


class ReplayInOrder(Message):
    """Run all calls of a step in order, pass after pass."""

    calls: List[str]
    """Distinct calls, each the JSON of "call" in a trace."""

    order: List[int]
    """Indexes of calls, in the order of the step."""

    limits: Limits
    seed: int
    values: str = ""
    """The file with recorded contents of tensors; "" if there is none."""


class LeftOut(Message):
    """A call that was not run."""

    number: int
    reason: str
    is_unsupported: bool
    """Whether it is not supported here, as opposed to failed."""


class ReplayedInOrder(Message):
    """The times of the passes."""

    sampling: Sampling
    """Whole passes, `number` of them per block, without reading the clock between calls."""

    seconds: List[float]
    """For each position that was run, the median over separate passes."""

    lows: List[float]
    """Lower ends of the 95 % intervals of the medians; `highs` has the upper ends."""

    highs: List[float]
    passes: int
    """Number of passes in which every position was timed."""

    left_out: List[LeftOut]


class Input(Message):
    """An input of the model."""

    dims: List[Union[str, int]]
    """Its shape: names of dimensions, or sizes."""

    dtype: str
    """The dtype of integer elements."""

    below: Union[str, int, None]
    """Integers are below this size or dimension; None for floating-point numbers."""


class SweepCase(Message):
    """The model at one point with one config."""

    dims: Dict[str, int]
    """Sizes by name of dimension."""

    dtype: str
    backend: str
    phase: str
    timed: bool
    """Whether the case is timed, or only its kernels are measured."""


class Sweep(Message):
    """Many cases of one model, one after another."""

    file: Optional[str]
    """The user's file, which defines `model`."""

    init: List[str]
    """The dimensions that the model's constructor takes."""

    inputs: List[Input]
    threads: int
    folder: str
    """For files that compilers write."""

    kernels: bool
    """Whether to measure the kernels of each case too."""

    cases: List[SweepCase]
    quiet_pace: float
    """The best known pace of the reference loop; see `loops.sampling`."""


class FileRead(Message):
    """The user's file has been run; results of cases follow."""


class Kernel(Message):
    """The share of one kernel in a run."""

    kernel: str
    calls: float
    seconds: float


class Swept(Message):
    """The result of one case."""

    status: str
    """measured, skipped or failed."""

    reason: str = ""
    """Why it was not measured, or a warning about the result; empty for neither."""

    sampling: Optional[Sampling] = None
    max_error: Optional[float] = None
    """The largest difference from eager's result."""

    prepare_seconds: Optional[float] = None
    """Seconds of compiling or exporting, including the first run."""

    flops: Optional[int] = None
    bytes: Optional[int] = None
    peak_memory_bytes: Optional[int] = None
    kernels: Optional[List[Kernel]] = None
    """None if they were not asked for."""

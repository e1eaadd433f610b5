"""What the control side and the processes of a zygote say to each other, one class a message.

A message is a line of JSON that names its class. Both sides come from one release and use this
module, so a line that does not fit its class is a mistake and a `WireError`. No pickle crosses the
wire, and nobody guesses what a message is from the keys that it happens to have.

Packages of the probe that answer requests of their own define the messages for them beside their
code (`replay/messages.py`, `sweep/messages.py`); deriving from `Message` is all that it takes.
"""

import dataclasses
import functools
import json
import os
import typing
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

from torchmark_probe.loops.sampling import Limits, Sampling

VERSION = 2
"""The version of every message; the two sides of a wire always come from one release."""

_classes: Dict[str, type] = {}


class WireError(Exception):
    """The other side sent something that is not a message of this version."""


class CutLineError(WireError):
    """A line that is no JSON: its sender died in the middle of it."""


class Message:
    """Anything that is said as a whole, or as a part of something else where its class may vary."""

    def __init_subclass__(cls) -> None:
        _classes[cls.__name__] = cls


def encode(message: Message) -> bytes:
    """One message as a line, with the version in it."""
    content = {"version": VERSION, **_as_json(message)}
    return json.dumps(content, separators=(",", ":"), default=_as_json).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line; anything else is a `WireError`."""
    try:
        content = json.loads(line.decode())
    except ValueError as error:
        raise CutLineError("not a message: {!r}".format(line[:200])) from error
    if not isinstance(content, dict) or content.pop("version", None) != VERSION:
        raise WireError("not a message of version {}: {!r}".format(VERSION, line[:200]))
    message: Message = _message(content)
    return message


def _as_json(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, Message):
        return {"class": type(value).__name__, **vars(value)}
    if dataclasses.is_dataclass(value):
        return vars(value)
    return os.fspath(value)


def _message(content: Dict[str, Any]) -> Any:
    name = content.pop("class", None)
    if name not in _classes:
        raise WireError("no message is called {!r} here".format(name))
    return _make(_classes[name], content)


def _make(cls: Any, content: Dict[str, Any]) -> Any:
    readers = _readers(cls)
    if content.keys() != readers.keys():
        raise WireError("{} does not have the fields {}".format(cls.__name__, sorted(content)))
    return cls(**{name: readers[name](value) for name, value in content.items()})


@functools.lru_cache(maxsize=None)
def _readers(cls: Any) -> Dict[str, Callable[[Any], Any]]:
    """What makes each field of the JSON that it travels as."""
    return {name: _reader(hint) for name, hint in typing.get_type_hints(cls).items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Classes that are named in the annotation are made again; all else is plain JSON."""
    origin = getattr(hint, "__origin__", None)
    options = [each for each in hint.__args__ if each is not type(None)] if origin is Union else []
    if len(options) == 1:
        of_one = _reader(options[0])
        return lambda value: None if value is None else of_one(value)
    if any(isinstance(each, type) and issubclass(each, Message) for each in options or [hint]):
        return _message
    if origin is list:
        of_each = _reader(hint.__args__[0])
        return lambda value: [of_each(each) for each in value]
    return tuple if origin is tuple else _reader_of_class(hint)


def _reader_of_class(hint: Any) -> Callable[[Any], Any]:
    if dataclasses.is_dataclass(hint):
        return lambda value: _make(hint, value)
    if hasattr(hint, "_fields"):
        return lambda value: hint(*value)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


# How a zygote begins.


@dataclasses.dataclass(frozen=True)
class Start(Message):
    """To the zygote, once: how to start."""

    sys_path: List[str]
    threads: int
    layout: Optional[int]
    """Where libraries lie, as `memory.addresses` has it; None leaves it to the kernel."""

    torch_file: str
    modules: List[str]
    """What to import after torch; what there is not is left out."""


@dataclasses.dataclass(frozen=True)
class StageBegan(Message):
    """From the zygote: what it does now."""

    text: str


@dataclasses.dataclass(frozen=True)
class Ready(Message):
    """From the zygote: cases can be handed over."""

    facts: Dict[str, Any]
    """What it says of its environment."""


# What is run.


@dataclasses.dataclass(frozen=True)
class PythonCase(Message):
    """A statement in Python, with all that it needs, as text and files."""

    stmt: str
    """What is run again and again."""

    setup: str = "pass"
    """What is run once before."""

    global_setup: str = ""
    """Run as the code of a module before the setup; its names are globals."""

    globals: Dict[str, Dict[str, Any]] = dataclasses.field(default_factory=dict)
    """How to make each global: {"kind": "json", "literal" or "import", "value": ...}, or
    {"kind": "torch", "module" or "script", "path": ...}."""


@dataclasses.dataclass(frozen=True)
class NativeCase(Message):
    """A compiled statement: an entry point of a shared object; see `loops.native`."""

    library: Union[str, Path]
    symbol: str


Case = Union[PythonCase, NativeCase]


# What is asked of a child.


@dataclasses.dataclass(frozen=True)
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


@dataclasses.dataclass(frozen=True)
class Run(Message):
    """Setup and statement once, neither timed nor counted."""

    case: Case


@dataclasses.dataclass(frozen=True)
class TracePython(Message):
    """What one run does in Python, by function."""

    case: PythonCase


@dataclasses.dataclass(frozen=True)
class Count(Message):
    """The statement under callgrind, `number` times after `warmup` uncounted runs."""

    case: Case
    number: int
    warmup: int


@dataclasses.dataclass(frozen=True)
class Sample(Message):
    """Times of the statement, block by block."""

    case: Case
    limits: Limits
    seed: int
    quiet_pace: float
    """The best pace of the reference loop that is known; see `loops.sampling`."""


@dataclasses.dataclass(frozen=True)
class Alternate(Message):
    """The statement set up and warm, for blocks that alternate with those of another process."""

    case: Case
    limits: Limits
    shake: int
    """Decides where heap and stack lie."""

    cores: List[int]
    """Where blocks run; the request's own cores are those of the setup."""


@dataclasses.dataclass(frozen=True)
class Loop(Message):
    """The statement again and again until it is told to stop."""

    case: Case
    limits: Limits
    """How long it is timed before."""

    time_limit: float


@dataclasses.dataclass(frozen=True)
class Call(Message):
    """A function of the probe that is offered for this; see `handlers.offer`."""

    function: str
    """Its module and name, "torchmark_probe.replay.machine_speed.measured"."""

    arguments: List[Any]


# What is said while a child works.


@dataclasses.dataclass(frozen=True)
class BlockSize(Message):
    """From a child that alternates: it is ready."""

    number: int
    """Runs in a block that it found fitting."""

    seconds: float
    """What such a block takes."""


@dataclasses.dataclass(frozen=True)
class TakeBlocks(Message):
    """To a child that alternates: take your blocks; see `loops.alternation`."""

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


@dataclasses.dataclass(frozen=True)
class BlockTimes(Message):
    """From a child that alternates: the seconds of each of its blocks."""

    seconds: List[float]


@dataclasses.dataclass(frozen=True)
class Looping(Message):
    """From a child that loops: it is warm and does nothing else from now on."""

    process: int
    seconds_per_run: float


@dataclasses.dataclass(frozen=True)
class Stop(Message):
    """To a child that loops."""


# How a child ends.


@dataclasses.dataclass(frozen=True)
class Answer(Message):
    """From a child, last of all."""

    outcome: Message
    facts: Dict[str, Any]
    """What its code reported; see `handlers.report`."""


@dataclasses.dataclass(frozen=True)
class Done(Message):
    """There is nothing to tell."""


@dataclasses.dataclass(frozen=True)
class Sampled(Message):
    """The times that were asked for."""

    sampling: Sampling
    first_run: float
    """Seconds of the very first run, which is in no block."""


@dataclasses.dataclass(frozen=True)
class Counted(Message):
    """Callgrind has written its file."""

    seconds: float
    """What the counted loop took, under callgrind."""


@dataclasses.dataclass(frozen=True)
class PythonFunctions(Message):
    """Bytecodes of one run by function."""

    functions: Dict[str, int]


@dataclasses.dataclass(frozen=True)
class Looped(Message):
    """The loop was stopped."""

    runs: int


@dataclasses.dataclass(frozen=True)
class Value(Message):
    """What a function gave back, as plain JSON."""

    value: Any


@dataclasses.dataclass(frozen=True)
class Raised(Message):
    """The case raised an exception."""

    traceback: str
    """From the user's own line on."""

    is_memory: bool
    """Whether an allocation failed."""


@dataclasses.dataclass(frozen=True)
class Unsupported(Message):
    """The case cannot be done here: the sentence says why, and nothing is broken."""

    reason: str


@dataclasses.dataclass(frozen=True)
class SyntaxFailed(Message):
    """The setup or the statement does not compile; lines and columns are the user's own."""

    part: str
    message: str
    line: Optional[int]
    column: Optional[int]
    text: Optional[str]
    end_line: Optional[int]
    end_column: Optional[int]


@dataclasses.dataclass(frozen=True)
class NotForked(Message):
    """There is no child: the kernel made none."""

    reason: str


# What the parent of a child says.


@dataclasses.dataclass(frozen=True)
class Forked(Message):
    """Which process the child is."""

    pid: int


@dataclasses.dataclass(frozen=True)
class Ended(Message):
    """The child is gone."""

    status: int
    """As `os.waitpid` gives it."""

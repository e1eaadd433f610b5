"""The connection between the control side and a zygote: messages, and the hand-over of a case.

A message is a line of JSON that names its class. A line that does not fit its class is an error and
raises `WireError`. There is no pickle, and the class of a message is never guessed from its keys.
The two sides of a connection always belong to one release.

A zygote has one channel, a Unix socket. The control side first sends one line that says how to
start, and the zygote answers with a line per stage. After that only cases are handed over: a single
byte with four file descriptors. The first is a socket for that case only. The request and its
answer use this socket. So cases never mix, a killed process shows as an end of file, and the zygote
itself reads nothing of varying length, which would change its heap before the next fork.
"""

import array
import dataclasses
import functools
import json
import os
import socket
import typing
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from torchmark_probe.zygote.messages import Message, classes

_CHUNK = 65536
_PADDING = 4096


class WireError(Exception):
    """The other side sent something that is not a message."""


class CutLineError(WireError):
    """A line that is not valid JSON, because its sender died while writing it."""


def encode(message: Message) -> bytes:
    """Encode a message as a line."""
    return json.dumps(message, separators=(",", ":"), default=_as_json).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Decode the message in a line; raise `WireError` for anything else."""
    try:
        content = json.loads(line.decode())
    except ValueError as error:
        raise CutLineError(f"not a message: {line[:200]!r}") from error
    if not isinstance(content, dict):
        raise WireError(f"not a message: {line[:200]!r}")
    message: Message = _message(content)
    return message


def _as_json(value: Any) -> Any:
    """Convert values that JSON does not support."""
    if isinstance(value, Message):
        return {"class": type(value).__name__, **vars(value)}
    if dataclasses.is_dataclass(value):
        return vars(value)
    return os.fspath(value)


def _message(content: Dict[str, Any]) -> Any:
    name = content.pop("class", None)
    if name not in classes:
        raise WireError(f"there is no message class {name!r}")
    return _make(classes[name], content)


def _make(cls: Any, content: Dict[str, Any]) -> Any:
    readers = _readers(cls)
    if content.keys() != readers.keys():
        raise WireError(f"{cls.__name__} does not have the fields {sorted(content)}")
    return cls(**{name: readers[name](value) for name, value in content.items()})


@functools.lru_cache(maxsize=None)
def _readers(cls: Any) -> Dict[str, Callable[[Any], Any]]:
    """Return functions that make each field from its JSON."""
    return {name: _reader(hint) for name, hint in typing.get_type_hints(cls).items()}


def _reader(hint: Any) -> Callable[[Any], Any]:
    """Return a function for an annotation; classes are recreated, anything else is plain JSON."""
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
    return lambda value: value


class CaseFiles(NamedTuple):
    """The file descriptors that the control side hands over for one case."""

    talk: int
    """The socket for the request and the answer."""

    stdout: int
    """Standard output of the case."""

    stderr: int
    """Standard error of the case."""

    directory: int
    """The working directory of the case. It is a descriptor, because the length of a path would
    move objects in the heap of the child."""


def pad(line: bytes) -> bytes:
    """Pad the line with blanks, so that requests of similar length have the same length.

    A child reads it into its heap, and it contains the path of a user's directory.
    """
    return line[:-1] + b" " * (-len(line) % _PADDING) + b"\n"


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data, in several parts if necessary."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def send(descriptor: int, message: Message) -> None:
    write(descriptor, encode(message))


def receive(descriptor: int) -> Optional[Message]:
    """Read one line; return None at the end of the file.

    The sender waits for an answer after each line, so nothing ever follows it.
    """
    received = bytearray()
    while not received.endswith(b"\n"):
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return None
        received += chunk
    return decode(bytes(received))


_DESCRIPTORS_SPACE = socket.CMSG_SPACE(4 * array.array("i").itemsize)


_WITH_TIME, _IN_HASTE = b"\n", b"!"


def hand_over(channel: socket.socket, files: CaseFiles, *, in_haste: bool) -> None:
    """Hand a case over to the zygote at the other end of the channel.

    A case in haste is needed soon, and is known not to harm its parent.
    """
    rights = array.array("i", files)
    data = _IN_HASTE if in_haste else _WITH_TIME
    channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def take_over(channel: socket.socket) -> Optional[Tuple[CaseFiles, bool]]:
    """Wait for a case, and return whether it is in haste; None if the control side is gone."""
    data, ancillary, _, _ = channel.recvmsg(1, _DESCRIPTORS_SPACE)
    if not data:
        return None
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: 4 * descriptors.itemsize])
    numbers: List[int] = descriptors.tolist()
    if len(numbers) != 4:
        raise WireError(f"a case came with {len(numbers)} descriptors instead of 4")
    return CaseFiles(*numbers), data == _IN_HASTE

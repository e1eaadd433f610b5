"""The wire between the control side and a zygote: messages, and the hand-over of a case.

A zygote has one channel, a Unix socket. Over it the control side sends one line that says how to
start, the zygote answers with a line per stage, and from then on only cases are handed over: a
single byte with four file descriptors. The first is a socket of that case's own. The request and
its answer travel there, so cases never mix, a killed process shows as an end of file, and the
zygote itself reads nothing whose length could vary, which would move what its heap looks like
at the next fork.
"""

import array
import os
import socket
from typing import List, NamedTuple, Optional

from torchmark_probe.zygote.messages import Message, WireError, decode, encode

_CHUNK = 65536


class CaseFiles(NamedTuple):
    """What the control side hands over for one case, as file descriptors."""

    talk: int
    """The socket for the request and the answer."""

    stdout: int
    """Where the case prints."""

    stderr: int
    """Where the case complains."""

    directory: int
    """The working directory of the case. A descriptor, since the text of a path would move the
    heap of the child by as much as the path is longer."""


class Case(NamedTuple):
    """A case that was handed over."""

    files: CaseFiles

    in_haste: bool
    """Whether its process is wanted soon, and is known to leave its parent alone."""


_PADDING = 4096


def pad(line: bytes) -> bytes:
    """The line with blanks at its end, so that requests of nearly the same length have the same.

    What a child reads lies in its heap, and the path of a user's directory is in it.
    """
    return line[:-1] + b" " * (-len(line) % _PADDING) + b"\n"


def write(descriptor: int, data: bytes) -> None:
    """Write all of it, however often the kernel takes a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def send(descriptor: int, message: Message) -> None:
    write(descriptor, encode(message))


def receive(descriptor: int) -> Optional[Message]:
    """Read one line and nothing after it; None at the end of the file.

    The sender waits for an answer after each line, so there never is anything after it.
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


def hand_over(channel: socket.socket, case: Case) -> None:
    """Give a case to the zygote at the other end of the channel."""
    rights = array.array("i", case.files)
    data = _IN_HASTE if case.in_haste else _WITH_TIME
    channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def take_over(channel: socket.socket) -> Optional[Case]:
    """Wait for a case; None when the control side is gone."""
    data, ancillary, _, _ = channel.recvmsg(1, _DESCRIPTORS_SPACE)
    if not data:
        return None
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: 4 * descriptors.itemsize])
    numbers: List[int] = descriptors.tolist()
    if len(numbers) != 4:
        raise WireError("a case came with {} descriptors instead of 4".format(len(numbers)))
    return Case(CaseFiles(*numbers), data == _IN_HASTE)

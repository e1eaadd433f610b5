"""Read and write the file of a trace. Reading takes no more memory than one line needs.

Compression is recognised by content, not by name. A compressed stream that is cut off is read up to
that point. A stream that is damaged, or unpacks to more than a trace can be, is refused.

Each line is written as soon as it is known, so a program that is killed keeps everything up to its
last `flush`. The lines are tagged JSON already; this module does not need torch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import structs

from torchmark.errors import TraceFileError, TraceNotFoundError, TraceWriteError
from torchmark.model.trace import VERSION, Header, Place, PlainSteps, RecordedCall

LONGEST_LINE = 16 * 2**20
"""Bytes of a line. A line of a step has about a megabyte, that of a big call less."""

LARGEST_TEXT = 4 * 2**30
"""Bytes of an unpacked trace: hundreds of millions of calls. More is meant to fill memory."""

LONGEST_STEP_LINE = 100_000
"""Calls in one line of a step: about a megabyte, which is read at once."""

COMPRESSION = 3
"""The program waits while its trace is written. Level 6 takes twice as long for a fifth less."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A line of the file."""

    number: int
    """Counted from 1."""

    content: bytes
    """Without the line break."""

    is_whole: bool
    """Whether the line has a line break. The last line of a file that was cut off may lack it."""


def first_bytes(path: Path, count: int) -> bytes:
    """The beginning of the unpacked text."""
    with _unpack(path) as stream:
        return _read(stream.read1, count, str(path)) or b""


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines, until the file ends or is cut off."""
    number = total = 0
    is_whole = True
    with _unpack(path) as stream:
        while is_whole:
            number += 1
            where = f"line {number} of {path}"
            # Of a compressed stream that is cut off, the incomplete last line is lost.
            content = _read(stream.readline, LONGEST_LINE + 1, where) or b""
            total += len(content)
            if len(content) > LONGEST_LINE:
                raise TraceFileError(
                    f"{where} is longer than {LONGEST_LINE // 2**20} MiB; "
                    "this is not a trace, or it was made to fill memory"
                )
            if total > LARGEST_TEXT:
                raise TraceFileError(
                    f"{path} unpacks to more than {LARGEST_TEXT // 2**30} GiB, which no trace needs"
                )
            if not content:
                return
            is_whole = content.endswith(b"\n")
            yield Line(number, content.rstrip(b"\r\n"), is_whole)


def text_of(path: Path, *, largest: int) -> tuple[str, bool]:
    """The whole text, and whether the file is complete."""
    pieces = []
    size = 0
    with _unpack(path) as stream:
        while piece := _read(stream.read1, 2**20, str(path)):
            pieces.append(piece)
            size += len(piece)
            if size > largest:
                raise TraceFileError(
                    f"{path} has more than {largest // 2**20} MiB of text; record fewer steps"
                )
    # If the text is cut off within a character, the rest of the character is replaced.
    return b"".join(pieces).decode("utf-8", errors="replace"), piece is not None


@contextlib.contextmanager
def _unpack(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    with _open(path) as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file, mode="rb") as stream:
                yield stream
        else:
            yield file


def _open(path: Path) -> io.BufferedReader:
    try:
        if path.exists() and not path.is_file():
            raise TraceFileError(f"{path} is a folder or a device; name the file of a trace")
        return path.open("rb")
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise TraceNotFoundError(f"there is no file {path}") from error
        raise _unreadable(str(path), error) from error


def _read(read: Callable[[int], bytes], size: int, where: str) -> bytes | None:
    """The next bytes; None if a compressed stream is cut off."""
    try:
        return read(size)
    except EOFError:
        return None
    except (zlib.error, OSError) as error:
        raise _unreadable(where, error) from error


def _unreadable(where: str, error: Exception) -> TraceFileError:
    said = getattr(error, "strerror", None) or str(error)
    return TraceFileError(f"{where} cannot be read: {said}")


class TraceWriter:
    """Writes a trace to `path`, compressed if the name ends in `.gz`.

    The header comes first, calls and places before the steps that use them, and the end last. Calls
    and places are numbered in the order in which they are written.
    """

    def __init__(self, path: str | os.PathLike[str], *, part: Path | None = None) -> None:
        """Write to `part`, if the file gets its name only when it is complete."""
        self.path = Path(path)
        with clear_errors(self.path):
            self._raw = (part or self.path).open("wb")
        self._lines: IO[bytes] | gzip.GzipFile = self._raw
        if self.path.name.endswith(".gz"):
            # Without time and name in the header, the same calls give the same file.
            self._lines = gzip.GzipFile(
                "", "wb", compresslevel=COMPRESSION, fileobj=self._raw, mtime=0
            )

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(self, **origin: Any) -> None:
        """`origin` has the fields of a Header, except for the version."""
        self._line("trace", structs.asdict(Header(version=VERSION, **origin)))

    def call(self, call: RecordedCall) -> None:
        self._line("call", call.to_record())

    def place(self, place: Place) -> None:
        body = structs.asdict(place)
        if not place.compiled:
            del body["compiled"]
        self._line("place", body)

    def step(self, calls: Sequence[int], places: Sequence[int], repeats: int = 1) -> None:
        """Write one step; a long one in several lines."""
        last = max(len(calls) - 1, 0) // LONGEST_STEP_LINE * LONGEST_STEP_LINE
        for start in range(0, last + 1, LONGEST_STEP_LINE):
            part = slice(start, start + LONGEST_STEP_LINE)
            body: dict[str, Any] = {"calls": list(calls[part]), "places": list(places[part])}
            body |= {"more": True} if start < last else {"repeats": repeats}
            # Only numbers, and thousands of them: json takes twelve times as long.
            self.line(msgspec.json.encode({"step": body}))

    def again(self, repeats: int = 1) -> None:
        """Write that the last step was repeated, this many times more."""
        self._line("again", repeats)

    def plain_steps(self, plain: PlainSteps) -> None:
        self._line("plain_steps", structs.asdict(plain))

    def end(self, *, calls: int, steps: int, unseen: Iterable[str] = ()) -> None:
        self._line("end", {"calls": calls, "steps": steps, "unseen": list(unseen)})

    def flush(self) -> None:
        """Write everything so far to the file, so that it is kept if this process is killed."""
        with clear_errors(self.path):
            self._lines.flush()

    def close(self) -> None:
        try:
            with clear_errors(self.path):
                self._lines.close()
                self._raw.close()
        except TraceWriteError:
            # On a full disk, the buffers cannot be written now either.
            with contextlib.suppress(OSError):
                self._raw.close()
            raise

    def leave_to_parent(self) -> None:
        """In a forked process: discard what is in the buffers."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._raw.fileno())
        os.close(nowhere)

    def line(self, line: bytes) -> None:
        """Write a line that is JSON already."""
        with clear_errors(self.path):
            self._lines.write(line + b"\n")

    def _line(self, kind: str, body: Any) -> None:
        self.line(json.dumps({kind: body}, separators=(",", ":"), allow_nan=False).encode())


@contextlib.contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk into a TraceWriteError that names the trace."""
    try:
        yield
    except TraceWriteError:
        raise
    except OSError as error:
        raise TraceWriteError(
            f"the trace {path} cannot be written: {error.strerror or error}; "
            "make room or use another file"
        ) from error

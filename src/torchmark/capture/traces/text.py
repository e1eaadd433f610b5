"""The text of a trace's file, in lines, without taking more memory than a line needs.

Compression is seen by content, not by name. A stream that ends too soon gives what it had; one
that is damaged, or that unpacks to more than a trace can be, is refused.
"""

from __future__ import annotations

import errno
import gzip
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.errors import TraceFileError, TraceNotFoundError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

LONGEST_LINE = 16 * 2**20
"""Bytes of a line. A step's line has about one megabyte, a call with a thousand tensors less."""

LARGEST_TEXT = 4 * 2**30
"""Bytes of a whole trace, unpacked: hundreds of millions of calls. More is made to fill memory."""

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file."""

    number: int
    """From 1 on."""

    content: bytes
    """Without its end."""

    is_whole: bool
    """Whether its end was there: the last line of a file that was cut off may lack it."""


def first_bytes(path: Path, count: int) -> bytes:
    """How the unpacked text begins."""
    with _unpack(path) as stream:
        try:
            return stream.read1(count)
        except EOFError:
            return b""
        except (zlib.error, OSError) as error:
            raise _unreadable(path, error) from error


def lines_of(path: Path) -> Iterator[Line]:
    """The lines, one after the other, up to where the file ends or is cut off."""
    number = total = 0
    with _unpack(path) as stream:
        while True:
            number += 1
            content = _next_line(stream, path, number)
            total += len(content)
            if total > LARGEST_TEXT:
                raise TraceFileError(
                    f"{path}, line {number}: the file unpacks to more than "
                    f"{LARGEST_TEXT // 2**30} GiB, which no trace needs"
                )
            if not content:
                return
            is_whole = content.endswith(b"\n")
            yield Line(number, content.rstrip(b"\r\n"), is_whole)
            if not is_whole:
                return


def text_of(path: Path, *, largest: int) -> tuple[str, bool]:
    """The whole text, and whether it is all that the file should have."""
    pieces = []
    size = 0
    is_whole = True
    with _unpack(path) as stream:
        while True:
            try:
                piece = stream.read1(2**20)
            except EOFError:
                is_whole = False
                break
            except (zlib.error, OSError) as error:
                raise _unreadable(path, error) from error
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
            if size > largest:
                raise TraceFileError(
                    f"{path}: has more than {largest // 2**20} MiB of text; record fewer steps"
                )
    # A character that was cut in two is the end of a text that was cut off.
    return b"".join(pieces).decode("utf-8", errors="replace"), is_whole


def _next_line(stream: gzip.GzipFile | io.BufferedReader, path: Path, number: int) -> bytes:
    """A line with its end; nothing where a packed stream is cut off, whose half line is lost."""
    try:
        content = stream.readline(LONGEST_LINE + 1)
    except EOFError:
        return b""
    except (zlib.error, OSError) as error:
        raise _unreadable(path, error, line=number) from error
    if len(content) > LONGEST_LINE:
        raise TraceFileError(
            f"{path}, line {number}: is longer than {LONGEST_LINE // 2**20} MiB; "
            "this is not a trace, or one that was made to fill memory"
        )
    return content


@contextmanager
def _unpack(path: Path) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    with _open(path) as file:
        if file.peek(2)[:2] == _GZIP:
            with gzip.GzipFile(fileobj=file, mode="rb") as stream:
                yield stream
        else:
            yield file


def _open(path: Path) -> io.BufferedReader:
    try:
        if path.exists() and not path.is_file():
            raise TraceFileError(f"{path}: is a folder or a device; name the file of a trace")
        return path.open("rb")
    except OSError as error:
        if error.errno == errno.ENOENT:
            raise TraceNotFoundError(f"there is no file {path}") from error
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception, line: int | None = None) -> TraceFileError:
    where = f"{path}" if line is None else f"{path}, line {line}"
    said = getattr(error, "strerror", None) or str(error)
    return TraceFileError(f"{where}: cannot be read: {said}")

"""An exception in a case, as text and facts: what travels to the control side in its place."""

import linecache
import os
import sys
import traceback
from typing import Any, List

from torchmark_probe.loops.snippets import SnippetSyntaxError, place_of
from torchmark_probe.zygote.messages import Message, Raised, SyntaxFailed, Unsupported

_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "not enough memory", "bad_alloc")
"""What torch, the C library and C++ say when an allocation fails and it is no MemoryError."""


class UnsupportedError(Exception):
    """What cannot be done here, and is no failure of the case; the sentence says why."""


def remember_own_lines() -> None:
    """Keep the probe's own source for tracebacks: a child has no longer the archive to read."""
    for module in list(sys.modules.values()):
        name: str = getattr(module, "__name__", "")
        loader: Any = getattr(module, "__loader__", None)
        if name.partition(".")[0] == "torchmark_probe" and hasattr(loader, "get_source"):
            text = loader.get_source(name) or ""
            file = str(module.__file__)
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)


def describe(error: BaseException) -> Message:
    """The outcome of a case that raised: the user's part of it."""
    if isinstance(error, SnippetSyntaxError):
        return _syntax_error(error)
    if isinstance(error, UnsupportedError):
        return Unsupported(str(error))
    text = format_traceback(error)
    is_memory = isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY)
    return Raised(text, is_memory)


def format_traceback(error: BaseException) -> str:
    """The traceback from the statement on, with the user's own parts and line numbers."""
    summary = traceback.TracebackException.from_exception(error)
    lines: List[str] = []
    for frame in summary.stack:
        if frame.filename.startswith(_OWN_ROOT):
            continue
        place = place_of(frame.filename, frame.lineno or 0)
        if place is None:
            lines.append(
                '  File "{}", line {}, in {}'.format(frame.filename, frame.lineno, frame.name)
            )
        else:
            lines.append("  In the {}, line {}:".format(place.part, place.line))
        if frame.line:
            lines.append("    {}".format(frame.line))
    last = [line.rstrip("\n") for line in summary.format_exception_only()]
    return "\n".join(_from_first_snippet_line(lines) + last)


def _from_first_snippet_line(lines: List[str]) -> List[str]:
    for index, line in enumerate(lines):
        if line.startswith("  In the "):
            return lines[index:]
    return lines


def _syntax_error(failure: SnippetSyntaxError) -> SyntaxFailed:
    error = failure.error
    return SyntaxFailed(
        part=failure.part,
        message=error.msg,
        line=error.lineno,
        column=error.offset,
        text=error.text,
        end_line=getattr(error, "end_lineno", None),  # from Python 3.10 on
        end_column=getattr(error, "end_offset", None),
    )

"""Errors in a user's statement, shown with the user's own lines.

The frames of torchmark and of its probe say nothing about the mistake. An exception keeps its
type; only the frames between the call of torchmark and the statement are taken out.
"""

from __future__ import annotations

import os
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torchmark_probe
from torchmark.errors import StatementSyntaxError
from torchmark_probe.loops.snippets import SOURCE_PREFIX, SnippetSyntaxError, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


@contextmanager
def as_user_error() -> Iterator[None]:
    """Turn the probe's error into the control side's; Python prints its line and caret."""
    try:
        yield
    except SnippetSyntaxError as failure:
        error = failure.error
        details = (f"<{failure.part}>", error.lineno, error.offset, error.text,
                   error.end_lineno, error.end_offset)  # fmt: skip
        message = f"the {failure.part} does not compile: {error.msg}"
        raise StatementSyntaxError(message, details) from None


_OWN_ROOTS = (
    str(Path(__file__).resolve().parent.parent) + os.sep,
    str(Path(str(torchmark_probe.__file__)).resolve().parent) + os.sep,
)


_SHOWN_LINES = 12
"""Lines of a traceback that are shown at its start and at its end; a recursion has thousands."""


class users_frames_only:  # noqa: N801 - reads as a statement in `with`
    """Lets an exception of the statement pass without the frames of the loop around it."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        start = _first_snippet_frame(frames)
        if error is not None and start is not None:
            error.__traceback__ = start


def format_users_frames(error: BaseException) -> str:
    """The traceback as text, from the statement on, with the user's own parts and lines."""
    summary = traceback.TracebackException.from_exception(error)
    frames = []
    for frame in summary.stack:
        if frame.filename.startswith(_OWN_ROOTS):
            continue
        place = place_of(frame.filename, frame.lineno or 0)
        if place is None:
            frames.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        else:
            frames.append(f"  In the {place.part}, line {place.line}:")
        if frame.line:
            frames.append(f"    {frame.line}")
    kept = _from_first_snippet_line(frames)
    if len(kept) > 2 * _SHOWN_LINES:
        left_out = len(kept) - 2 * _SHOWN_LINES
        kept[_SHOWN_LINES:-_SHOWN_LINES] = [f"  … {left_out} lines left out …"]
    said = [line.rstrip("\n") for line in summary.format_exception_only()]
    if summary.__cause__ is not None:
        said += [f"caused by {line.rstrip()}" for line in summary.__cause__.format_exception_only()]
    return "\n".join([*kept, *said])


def _from_first_snippet_line(frames: list[str]) -> list[str]:
    for index, line in enumerate(frames):
        if line.startswith("  In the "):
            return frames[index:]
    return frames


def _first_snippet_frame(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None:
        if frames.tb_frame.f_code.co_filename.startswith(SOURCE_PREFIX):
            return frames
        frames = frames.tb_next
    return None

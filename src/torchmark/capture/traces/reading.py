"""A trace's file, read and checked line by line: docs/trace-format.md describes the format.

What comes out is a Trace whose every number, name and type is what the format promises, or an error
that names the file and the line. A file that was cut off is read up to there and says so. Nothing
in it is executed, no torch is needed, and memory has bounds that follow from the constants here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from msgspec import UNSET, Struct

from torchmark.capture.traces.checking import (
    Count,
    Size,
    WrongValueError,
    check_value,
    convert,
)
from torchmark.capture.traces.names import is_keyword, is_operator, sanitize
from torchmark.capture.traces.steps import LONGEST_ORDER, StepCollector
from torchmark.capture.traces.text import lines_of
from torchmark.errors import NewerTraceError, TraceFileError
from torchmark.model.trace import VERSION, Place, RecordedCall, Trace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from torchmark.capture.traces.text import Line

_LARGEST_RECORDS = 128 * 2**20
"""Bytes of all lines that are kept as objects: calls and places. They take some ten times as much
in memory. A model with shapes that never repeat has about a kilobyte for each distinct call."""


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    version: Count
    source: Literal["capture", "cnt", "chakra", "samples"]
    torch: str | None = None
    python: str | None = None
    command: list[str] | None = None


class _Call(Struct, frozen=True, forbid_unknown_fields=True):
    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    schema: str | None = None
    outputs: Any = UNSET


class _Place(Struct, frozen=True, forbid_unknown_fields=True):
    phase: Literal["forward", "backward", "optimizer", "unknown"]
    module: str | None = None
    function: str | None = None
    thread: Size = 0
    compiled: bool = False


class _Step(Struct, frozen=True, forbid_unknown_fields=True):
    calls: list[int]
    places: list[int]
    repeats: Count = 1
    more: bool = False


class _End(Struct, frozen=True, forbid_unknown_fields=True):
    calls: Size
    steps: Size
    unseen: list[str]


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """The trace in a file that torchmark has written."""
    file = Path(path)
    reader = _Reader()
    for line in lines_of(file):
        try:
            reader.take(line)
        except WrongValueError as error:
            raise TraceFileError(f"{file}, line {line.number}: {error}") from error
        except _NewerError as error:
            raise NewerTraceError(
                f"{file}: has version {error.version} of the format; this torchmark reads up to "
                f"{VERSION}; use a newer torchmark"
            ) from error
    if reader.header is None:
        raise TraceFileError(f"{file}: is empty, or cut off before its first line ends")
    return reader.trace()


class _NewerError(Exception):
    def __init__(self, version: int) -> None:
        self.version = version


class _Reader:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.header: _Header | None = None
        self._calls: list[RecordedCall] = []
        self._places: list[Place] = []
        self._steps = StepCollector()
        self._end: _End | None = None
        self._record_bytes = 0
        self._cut_after: int | None = None
        self._takers = {
            "trace": self._take_header,
            "call": self._take_call,
            "place": self._take_place,
            "step": self._take_step,
            "again": self._take_again,
            "counts": self._take_counts,
            "end": self._take_end,
        }

    def take(self, line: Line) -> None:
        """Add one line; a last one that was cut in two is left out."""
        try:
            kind, body = _content_of(line)
        except WrongValueError:
            if line.is_whole or self.header is None:
                raise
            self._cut_after = line.number - 1
            return
        if kind not in self._takers:
            _fail(f"is of the unknown kind {sanitize(repr(kind), 80)}")
        if (self.header is None) != (kind == "trace"):
            _fail("must begin the trace" if self.header is None else "begins a second trace")
        if self._end is not None:
            _fail("comes after the end")
        self._takers[kind](body)
        if kind in ("call", "place"):
            self._record_bytes += len(line.content)
            if self._record_bytes > _LARGEST_RECORDS:
                _fail(f"makes more than {_LARGEST_RECORDS // 2**20} MiB of distinct calls")

    def trace(self) -> Trace:
        assert self.header is not None, "the caller has looked"
        self._steps.close()
        command = self.header.command
        return Trace(
            source=self.header.source,
            calls=tuple(self._calls),
            places=tuple(self._places),
            steps=tuple(self._steps.steps),
            counts=dict(self._steps.counts),
            torch=_show(self.header.torch),
            python=_show(self.header.python),
            command=None if command is None else tuple(map(sanitize, command)),
            unseen=tuple(self._unseen()),
        )

    def _take_header(self, body: Any) -> None:
        version = body.get("version") if isinstance(body, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise _NewerError(version)
        self.header = convert(body, _Header, "beginning")

    def _take_call(self, body: Any) -> None:
        self._calls.append(check_call(body))

    def _take_place(self, body: Any) -> None:
        place: _Place = convert(body, _Place, "place")
        self._places.append(
            Place(
                phase=place.phase,
                module=_show(place.module),
                function=_show(place.function),
                thread=place.thread,
                compiled=place.compiled,
            )
        )

    def _take_step(self, body: Any) -> None:
        step: _Step = convert(body, _Step, "step")
        _check_range(step.calls, len(self._calls), "call")
        _check_range(step.places, len(self._places), "place")
        if len(step.calls) != len(step.places):
            _fail(f"has a step of {len(step.calls)} calls and {len(step.places)} places")
        self._steps.add(step.calls, step.places, repeats=step.repeats, more=step.more)

    def _take_again(self, body: Any) -> None:
        self._steps.again(convert(body, Count, "number of repeats"))

    def _take_counts(self, body: Any) -> None:
        counts: list[tuple[int, int, int]] = convert(body, list[tuple[int, int, Count]], "count")
        _check_range([call for call, _, _ in counts], len(self._calls), "call")
        _check_range([place for _, place, _ in counts], len(self._places), "place")
        for call, place, times in counts:
            self._steps.count(call, place, times)

    def _take_end(self, body: Any) -> None:
        self._end = convert(body, _End, "end")

    def _unseen(self) -> Iterator[str]:
        if self._end is not None:
            yield from map(sanitize, self._end.unseen)
            counted = sum(self._steps.counts.values())
            if counted != self._end.calls:
                yield f"the file ends with {self._end.calls:,} calls and has {counted:,}"
        elif self._cut_after is not None:
            yield f"the file is cut off after line {self._cut_after}: what came then is missing"
        else:
            yield "the file has no end: it, or its capture, was cut off; what came then is missing"
        if not self._steps.is_order_kept:
            yield f"the order of calls beyond {LONGEST_ORDER:,} is not kept; they are counted"


def check_call(body: Any) -> RecordedCall:
    """What stands behind `call` in a line, if it is one; a WrongValueError otherwise."""
    call: _Call = convert(body, _Call, "call")
    if not is_operator(call.op):
        _fail(f"has an operator {sanitize(repr(call.op), 80)}; it must be like aten.add.Tensor")
    wrong = next((name for name in call.kwargs if not is_keyword(name)), None)
    if wrong is not None:
        _fail(f"has an argument {sanitize(repr(wrong), 80)}, which is not a valid name")
    return RecordedCall(
        op=call.op,
        schema=_show(call.schema),
        args=tuple(map(check_value, call.args)),
        kwargs={name: check_value(value) for name, value in call.kwargs.items()},
        outputs=None if call.outputs is UNSET else check_value(call.outputs),
        has_outputs=call.outputs is not UNSET,
    )


def _content_of(line: Line) -> tuple[str, Any]:
    """The one key of the line's object and what stands behind it."""
    try:
        content = json.loads(
            line.content, object_pairs_hook=_without_repetition, parse_constant=_refuse
        )
    except WrongValueError:
        raise
    except RecursionError as error:
        raise WrongValueError("is nested too deeply") from error
    except ValueError as error:  # wrong JSON, wrong UTF-8, numbers of thousands of digits
        raise WrongValueError(f"is not JSON ({sanitize(str(error), 120)})") from error
    if not isinstance(content, dict) or len(content) != 1:
        _fail("is not an object with one key, as every line of a trace is")
    return next(iter(content.items()))


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        _fail("has an object with the same key twice")
    return content


def _refuse(constant: str) -> NoReturn:
    _fail(f"has {constant}, which JSON does not know")


def _check_range(numbers: list[int], end: int, what: str) -> None:
    for number in numbers:
        if not 0 <= number < end:
            _fail(f"names {what} {number}; there are {end} so far")


def _show(text: str | None) -> str | None:
    return None if text is None else sanitize(text)


def _fail(what: str) -> NoReturn:
    raise WrongValueError(what)

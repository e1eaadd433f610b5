"""A trace's file, read and checked line by line: docs/trace-format.md has the form.

What comes out is a Trace whose every number, name and type is what the form promises, or an error
that names the file and the line. A file that was cut off is read up to there and says so. Nothing
in it is executed, no torch is needed, and memory has bounds that follow from the constants here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torchmark.capture.traces.checking import (
    WrongValueError,
    check_keys,
    check_number,
    check_value,
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

_SOURCES = ("capture", "cnt", "chakra", "samples")
_PHASES = ("forward", "backward", "optimizer", "unknown")


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
        self.header: dict[str, Any] | None = None
        self._calls: list[RecordedCall] = []
        self._places: list[Place] = []
        self._steps = StepCollector()
        self._end: dict[str, Any] | None = None
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
        command = self.header.get("command")
        return Trace(
            source=self.header["source"],
            calls=tuple(self._calls),
            places=tuple(self._places),
            steps=tuple(self._steps.steps),
            counts=dict(self._steps.counts),
            torch=_show(self.header.get("torch")),
            python=_show(self.header.get("python")),
            command=None if command is None else tuple(map(sanitize, command)),
            unseen=tuple(self._unseen()),
        )

    def _take_header(self, body: Any) -> None:
        version = body.get("version") if isinstance(body, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise _NewerError(version)
        check_keys(body, "a beginning", ("version", "source"), _HEADER_KEYS)
        check_number(version, "a version", smallest=1)
        if body["source"] not in _SOURCES:
            _fail(f"has a source that is none of {', '.join(_SOURCES)}")
        _check_texts(body, "torch", "python")
        if body.get("command") is not None:
            _check_list_of_texts(body["command"], "a command")
        self.header = body

    def _take_call(self, body: Any) -> None:
        self._calls.append(check_call(body))

    def _take_place(self, body: Any) -> None:
        check_keys(body, "a place", ("phase",), _PLACE_KEYS)
        if body["phase"] not in _PHASES:
            _fail(f"has a phase that is none of {', '.join(_PHASES)}")
        _check_texts(body, "module", "function")
        self._places.append(
            Place(
                phase=body["phase"],
                module=_show(body.get("module")),
                function=_show(body.get("function")),
                thread=check_number(body.get("thread", 0), "a thread"),
                compiled=_flag(body, "compiled"),
            )
        )

    def _take_step(self, body: Any) -> None:
        check_keys(body, "a step", ("calls", "places"), _STEP_KEYS)
        _check_range(body["calls"], len(self._calls), "call")
        _check_range(body["places"], len(self._places), "place")
        if len(body["calls"]) != len(body["places"]):
            _fail(f"has a step of {len(body['calls'])} calls and {len(body['places'])} places")
        self._steps.add(
            body["calls"],
            body["places"],
            repeats=check_number(body.get("repeats", 1), "repeats", smallest=1),
            more=_flag(body, "more"),
        )

    def _take_again(self, body: Any) -> None:
        self._steps.again(check_number(body, "repeats", smallest=1))

    def _take_counts(self, body: Any) -> None:
        if not isinstance(body, list):
            _fail("has counts that are no list")
        for entry in body:
            if not isinstance(entry, list) or len(entry) != 3:
                _fail("has a count that is not a call, a place and a number")
            _check_range(entry[:1], len(self._calls), "call")
            _check_range(entry[1:2], len(self._places), "place")
            self._steps.count(entry[0], entry[1], check_number(entry[2], "a count", smallest=1))

    def _take_end(self, body: Any) -> None:
        check_keys(body, "an end", ("calls", "steps", "unseen"), _END_KEYS)
        check_number(body["calls"], "a number of calls")
        check_number(body["steps"], "a number of steps")
        _check_list_of_texts(body["unseen"], "unseen")
        self._end = body

    def _unseen(self) -> Iterator[str]:
        if self._end is not None:
            yield from map(sanitize, self._end["unseen"])
            counted = sum(self._steps.counts.values())
            if counted != self._end["calls"]:
                yield f"the file ends with {self._end['calls']:,} calls and has {counted:,}"
        elif self._cut_after is not None:
            yield f"the file is cut off after line {self._cut_after}: what came then is missing"
        else:
            yield "the file has no end: it, or its capture, was cut off; what came then is missing"
        if not self._steps.is_order_kept:
            yield f"the order of calls beyond {LONGEST_ORDER:,} is not kept; they are counted"


def check_call(body: Any) -> RecordedCall:
    """What stands behind `call` in a line, if it is one; a WrongValueError otherwise."""
    check_keys(body, "a call", ("op", "args", "kwargs"), _CALL_KEYS)
    op, args, kwargs = body["op"], body["args"], body["kwargs"]
    if not isinstance(op, str) or not is_operator(op):
        _fail(f"has an operator {sanitize(repr(op), 80)}; it must be like aten.add.Tensor")
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        _fail("has a call whose args are no list, or whose kwargs are no object")
    wrong = next((name for name in kwargs if not is_keyword(name)), None)
    if wrong is not None:
        _fail(f"has an argument {sanitize(repr(wrong), 80)}, which is no such name")
    _check_texts(body, "schema")
    return RecordedCall(
        op=op,
        schema=_show(body.get("schema")),
        args=tuple(map(check_value, args)),
        kwargs={name: check_value(value) for name, value in kwargs.items()},
        outputs=check_value(body.get("outputs")),
        has_outputs="outputs" in body,
    )


_HEADER_KEYS = frozenset({"version", "source", "torch", "python", "command"})
_CALL_KEYS = frozenset({"op", "schema", "args", "kwargs", "outputs"})
_PLACE_KEYS = frozenset({"phase", "module", "function", "thread", "compiled"})
_STEP_KEYS = frozenset({"calls", "places", "repeats", "more"})
_END_KEYS = frozenset({"calls", "steps", "unseen"})


def _content_of(line: Line) -> tuple[str, Any]:
    """The one key of the line's object and what stands behind it."""
    try:
        content = json.loads(
            line.content, object_pairs_hook=_without_repetition, parse_constant=_refused
        )
    except WrongValueError:
        raise
    except RecursionError as error:
        raise WrongValueError("is nested too deeply") from error
    except ValueError as error:  # wrong JSON, wrong UTF-8, numbers of thousands of digits
        raise WrongValueError(f"is not JSON ({sanitize(str(error), 120)})") from error
    if not isinstance(content, dict) or len(content) != 1:
        _fail("is no object with one key, as every line of a trace is")
    return next(iter(content.items()))


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        _fail("has an object with the same key twice")
    return content


def _refused(constant: str) -> NoReturn:
    _fail(f"has {constant}, which JSON does not know")


def _check_range(numbers: Any, end: int, what: str) -> None:
    if not isinstance(numbers, list):
        _fail(f"has no list of {what}s")
    for number in numbers:
        if type(number) is not int or not 0 <= number < end:
            _fail(f"names {what} {sanitize(repr(number), 40)}; there are {end} so far")


def _check_texts(body: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if not isinstance(body.get(key), (str, type(None))):
            _fail(f"has something else than text as {key}")


def _check_list_of_texts(value: Any, what: str) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        _fail(f"has {what} that is no list of texts")


def _flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key, False)
    if not isinstance(value, bool):
        _fail(f"has something else than true or false as {key}")
    return value


def _show(text: str | None) -> str | None:
    return None if text is None else sanitize(text)


def _fail(what: str) -> NoReturn:
    raise WrongValueError(what)

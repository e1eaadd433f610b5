"""Read a trace from a file in any of the known forms, which are recognised by content.

torchmark's own form (docs/reference/trace-format.md) is read and checked here, line by line. The
result is a Trace whose numbers, names and types are those of the format, or an error that names the
file and the line. A file that was cut off is read up to that point, and the trace says so. Nothing
in a file is executed, torch is not needed, and the constants limit the memory.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from torchmark.capture.traces.chakra import read_chakra
from torchmark.capture.traces.checking import (
    WrongValueError,
    check_call,
    check_record_bytes,
    convert,
    sanitize,
    tag_float,
)
from torchmark.capture.traces.cnt import read_cnt
from torchmark.capture.traces.exact_values import with_values
from torchmark.capture.traces.files import Line, first_bytes, lines_of
from torchmark.errors import NewerTraceError, TraceFileError
from torchmark.model.trace import (
    VERSION,
    Count,
    Header,
    Place,
    PlainSteps,
    RecordedCall,
    Size,
    Step,
    Trace,
)

LONGEST_ORDER = 10_000_000
"""Calls whose order is kept: 160 MB. Further calls are only counted."""

_MOST_PAIRS = 2_000_000
"""Distinct pairs of a call and a place: 400 MB."""

_LONGEST_BEGINNING = 4096

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".txt", ".txt.gz")


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """The trace in a file: torchmark's own, the `cnt:` text, or PyTorch's execution trace."""
    file = Path(path)
    beginning = first_bytes(file, _LONGEST_BEGINNING)
    if not beginning.strip():
        raise TraceFileError(f"{file} is empty, or cut off at its beginning")
    for pattern, read in _FORMS:
        if pattern.match(beginning):
            return read(file)
    if file.suffix == ".et" or _PROTOBUF.match(beginning):
        raise TraceFileError(
            f"{file} is a Chakra trace in the protobuf form of MLCommons. torchmark reads the "
            "JSON file that chakra_converter made it from, written by ExecutionTraceObserver or "
            "chakra_trace_link"
        )
    raise TraceFileError(
        f"{file} is not a trace. torchmark reads what `torchmark capture` writes, text with "
        "Operator: and cnt: lines, and the JSON of PyTorch's ExecutionTraceObserver"
    )


def is_named_like_a_trace(name: str) -> bool:
    """Whether the name of a file is that of a trace.

    >>> is_named_like_a_trace("step.jsonl.gz"), is_named_like_a_trace("bench_add.py")
    (True, False)
    """
    return name.lower().endswith(_SUFFIXES)


def read_trace(file: Path) -> Trace:
    """The trace in a file that torchmark wrote."""
    reader = _Reader(file)
    for line in lines_of(file):
        try:
            reader.take(line)
        except WrongValueError as error:
            raise TraceFileError(f"line {line.number} of {file} {error}") from error
    if reader.header is None:
        raise TraceFileError(f"{file} is empty, or cut off in its first line")
    return with_values(reader.trace(), file)


_FORMS: tuple[tuple[re.Pattern[bytes], Callable[[Path], Trace]], ...] = (
    (re.compile(rb'\s*\{\s*"trace"\s*:'), read_trace),
    (re.compile(rb"\s*Operator:"), read_cnt),
    (re.compile(rb'\s*\{\s*"schema"\s*:'), read_chakra),
)


_PROTOBUF = re.compile(rb".{1,3}(\x0a.\d+\.\d+\.\d+|\x12.{1,2}\x0a.(schema|version))", re.DOTALL)
"""The beginning of a file of chakra_converter: a length, then a version or the first attribute."""


class _Step(Struct, frozen=True, forbid_unknown_fields=True):
    calls: list[int]
    places: list[int]
    repeats: Count = 1
    more: bool = False


class _End(Struct, frozen=True, forbid_unknown_fields=True):
    calls: Size
    steps: Size
    unseen: list[str]


class _Reader:
    """The content of the lines so far."""

    def __init__(self, file: Path) -> None:
        self.header: Header | None = None
        self._file = file
        self._calls: list[RecordedCall] = []
        self._places: list[Place] = []
        self._steps = _StepCollector()
        self._plain: PlainSteps | None = None
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
            "plain_steps": self._take_plain_steps,
            "end": self._take_end,
        }

    def take(self, line: Line) -> None:
        """Add one line, unless it is the incomplete last one."""
        try:
            kind, body = _content_of(line)
        except WrongValueError:
            if line.is_whole or self.header is None:
                raise
            self._cut_after = line.number - 1
            return
        if kind not in self._takers:
            raise WrongValueError(f"is of the unknown kind {sanitize(repr(kind), 80)}")
        if self.header is None and kind != "trace":
            raise WrongValueError("must begin the trace")
        if self.header is not None and kind == "trace":
            raise WrongValueError("begins a second trace")
        if self._end is not None:
            raise WrongValueError("comes after the end")
        self._takers[kind](body)
        if kind in ("call", "place"):
            self._record_bytes += len(line.content)
            check_record_bytes(self._record_bytes)

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
            plain_steps=self._plain,
            unseen=tuple(self._unseen()),
        )

    def _take_header(self, body: Any) -> None:
        version = body.get("version") if isinstance(body, dict) else None
        if isinstance(version, int) and version > VERSION:
            raise NewerTraceError(
                f"{self._file} has version {version} of the trace format, but this torchmark "
                f"reads up to {VERSION}; use a newer torchmark"
            )
        self.header = convert(body, Header, "beginning")

    def _take_call(self, body: Any) -> None:
        self._calls.append(check_call(body))

    def _take_place(self, body: Any) -> None:
        place: Place = convert(body, Place, "place")
        labels = {name: _show(getattr(place, name)) for name in ("module", "function", "source")}
        self._places.append(structs.replace(place, **labels))

    def _take_step(self, body: Any) -> None:
        step: _Step = convert(body, _Step, "step")
        self._check_numbers(step.calls, step.places)
        if len(step.calls) != len(step.places):
            raise WrongValueError(
                f"has a step of {len(step.calls)} calls and {len(step.places)} places"
            )
        self._steps.add(step)

    def _take_again(self, body: Any) -> None:
        self._steps.again(convert(body, Count, "number of repeats"))

    def _take_counts(self, body: Any) -> None:
        counts: list[tuple[int, int, int]] = convert(body, list[tuple[int, int, Count]], "count")
        self._check_numbers([call for call, _, _ in counts], [place for _, place, _ in counts])
        for call, place, times in counts:
            self._steps.count({(call, place): times})

    def _take_plain_steps(self, body: Any) -> None:
        if self._plain is not None:
            raise WrongValueError("has the plain steps a second time")
        self._plain = convert(body, PlainSteps, "plain steps")

    def _take_end(self, body: Any) -> None:
        self._end = convert(body, _End, "end")

    def _check_numbers(self, calls: list[int], places: list[int]) -> None:
        for what, numbers, known in (
            ("call", calls, len(self._calls)),
            ("place", places, len(self._places)),
        ):
            for number in numbers:
                if not 0 <= number < known:
                    raise WrongValueError(f"names {what} {number}; there are {known} so far")

    def _unseen(self) -> Iterator[str]:
        if self._end is not None:
            yield from map(sanitize, self._end.unseen)
            counted = sum(self._steps.counts.values())
            if counted != self._end.calls:
                yield (
                    f"the right number of calls: its last line says {self._end.calls:,}, and it "
                    f"has {counted:,}"
                )
        elif self._cut_after is not None:
            yield f"everything after line {self._cut_after}, where the file is cut off"
        else:
            yield "the end of the file, because the file or its capture was cut off"
        if not self._steps.is_order_kept:
            yield f"the order of calls beyond the first {LONGEST_ORDER:,}, which are only counted"


class _StepCollector:
    """Collects steps, which may come in parts, be repeated, or be too many to keep in order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.counts: Counter[tuple[int, int]] = Counter()
        """How often each call came from each place."""

        self.is_order_kept = True
        """False after a step that would make the order longer than LONGEST_ORDER."""

        self._kept = 0
        self._calls: list[int] = []
        self._places: list[int] = []
        self._counted: Counter[tuple[int, int]] | None = None
        """The counts of the last step; None before the first step."""

        self._is_unfinished = False
        self._numbers: list[int] = []

    def add(self, step: _Step) -> None:
        """Add a step, or a part of one if `more` follows."""
        if not self._is_unfinished or self._counted is None:
            self._calls, self._places, self._counted = [], [], Counter()
        self._counted.update(zip(step.calls, step.places, strict=True))
        self._kept += len(step.calls)
        if self._kept > LONGEST_ORDER:
            self.is_order_kept = False
            self._calls, self._places = [], []
        if self.is_order_kept:
            self._calls += self._share(step.calls)
            self._places += self._share(step.places)
        self._is_unfinished = step.more
        if not step.more:
            self._finish(step.repeats)

    def again(self, times: int) -> None:
        """Repeat the last step, this many times more."""
        if self._is_unfinished or self._counted is None:
            raise WrongValueError("repeats a step, but no step has ended before it")
        self.count(self._counted, times)
        if self.is_order_kept:
            last = self.steps[-1]
            self.steps[-1] = dataclasses.replace(last, repeats=last.repeats + times)

    def count(self, counts: dict[tuple[int, int], int], times: int = 1) -> None:
        for pair, count in counts.items():
            self.counts[pair] += count * times
        if len(self.counts) > _MOST_PAIRS:
            raise WrongValueError(f"makes more than {_MOST_PAIRS:,} pairs of a call and a place")

    def close(self) -> None:
        """End the last step, if a part of it is missing."""
        if self._is_unfinished:
            self._finish(repeats=1)

    def _finish(self, repeats: int) -> None:
        assert self._counted is not None, "a step was added"
        self._is_unfinished = False
        self.count(self._counted, repeats)
        if self.is_order_kept:
            self.steps.append(
                Step(calls=tuple(self._calls), places=tuple(self._places), repeats=repeats)
            )

    def _share(self, numbers: Sequence[int]) -> list[int]:
        """The same numbers as shared objects. An int object takes four times a reference."""
        largest = max(numbers, default=-1)
        self._numbers += range(len(self._numbers), largest + 1)
        return [self._numbers[number] for number in numbers]


def _content_of(line: Line) -> tuple[str, Any]:
    """The only key of the object in the line, and its value."""
    try:
        # Other programs write NaN and Infinity, which are not JSON, or 1e999.
        content = json.loads(
            line.content,
            object_pairs_hook=_without_repetition,
            parse_constant=_parse_float,
            parse_float=_parse_float,
        )
    except WrongValueError:
        raise
    except RecursionError as error:
        raise WrongValueError("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise WrongValueError(f"is not JSON ({error.msg}, at column {error.colno})") from error
    except ValueError as error:  # wrong UTF-8, numbers of thousands of digits
        raise WrongValueError(f"is not JSON ({sanitize(str(error), 120)})") from error
    if not isinstance(content, dict) or len(content) != 1:
        raise WrongValueError("is not an object with one key, as every line of a trace is")
    return next(iter(content.items()))


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise WrongValueError("has an object with the same key twice")
    return content


def _parse_float(text: str) -> Any:
    return tag_float(float(text))


def _show(text: str | None) -> str | None:
    return None if text is None else sanitize(text)

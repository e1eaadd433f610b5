"""The text form of PyTorch's operator benchmarks, imported.

    Operator: aten.add.Tensor
    cnt: 2, ((T([16, 64], f16), T([16, 64], f16, stride=(1, 16))), {'alpha': 2})

It knows how often each call was made, and neither an order nor places.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from torchmark.capture.traces.checking import Count, WrongValueError, convert
from torchmark.capture.traces.cnt_values import parse_arguments
from torchmark.capture.traces.names import is_operator, sanitize
from torchmark.capture.traces.reading import check_call
from torchmark.capture.traces.text import lines_of
from torchmark.errors import TraceFileError
from torchmark.model.trace import Place, RecordedCall, Trace

if TYPE_CHECKING:
    import os

    from torchmark.capture.traces.text import Line

_LONGEST_LINE = 2**20
"""Bytes: a call with a thousand tensors has fifty kilobytes."""

_LARGEST_RECORDS = 128 * 2**20
"""Bytes of all distinct calls."""

_RENAMED = {
    "aten.as_strided.SymInt": "aten.as_strided.default",
    "aten.empty.SymInt": "aten.empty.memory_format",
    "aten.expand.SymInt": "aten.expand.default",
    "aten.narrow_copy.SymInt": "aten.narrow_copy.default",
    "aten.new_empty.SymInt": "aten.new_empty.default",
    "aten.new_empty_strided.SymInt": "aten.new_empty_strided.default",
    "aten.sum.SymInt": "aten.sum.dim_IntList",
    "aten.view.SymInt": "aten.view.default",
    "aten.zeros.SymInt": "aten.zeros.default",
}
"""Overloads of the months before torch 1.13 that were merged into others with the same arguments.
Most public files of this form were recorded then."""

_COUNT = re.compile(r"cnt:\s*(\d{1,19})\s*,\s*(.*)")
_OPERATOR = re.compile(r"Operator:\s*(.*?)\s*")


def read_cnt(path: str | os.PathLike[str]) -> Trace:
    """The calls in a file of this form."""
    file = Path(path)
    reader = _Reader()
    unseen = []
    for line in lines_of(file):
        try:
            reader.take(line)
        except WrongValueError as error:
            if line.is_whole:
                raise TraceFileError(f"{file}, line {line.number}: {error}") from error
            unseen.append(
                f"the file is cut off after line {line.number - 1}: what came then is missing"
            )
    unseen += [
        f"{old} is called {new} by torch since 1.13: its calls are under that name"
        for old, new in reader.renamed.items()
    ]
    return Trace(
        source="cnt",
        calls=tuple(reader.calls),
        places=(Place(phase="unknown"),),
        counts={(call, 0): count for call, count in reader.counts.items()},
        unseen=tuple(unseen),
    )


class _Reader:
    """What the lines so far have said."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self.counts: Counter[int] = Counter()
        self.renamed: dict[str, str] = {}
        """Operators that torch calls otherwise today."""

        self._numbers: dict[str, int] = {}
        self._op: str | None = None
        self._bytes = 0

    def take(self, line: Line) -> None:
        if len(line.content) > _LONGEST_LINE:
            _fail(f"is longer than {_LONGEST_LINE // 2**20} MiB")
        try:
            text = line.content.decode()
        except UnicodeDecodeError as error:
            raise WrongValueError(f"is not text ({error.reason})") from error
        if not text.strip():
            return
        operator = _OPERATOR.fullmatch(text)
        if operator is not None:
            named = _check_operator(operator[1])
            self._op = _RENAMED.get(named, named)
            if named != self._op:
                self.renamed[named] = self._op
            return
        count = _COUNT.fullmatch(text)
        if count is None:
            _fail("is neither an Operator: line nor a cnt: line")
        if self._op is None:
            _fail("comes before the first Operator: line")
        self._add(self._op, count[2], convert(int(count[1]), Count, "count"))

    def _add(self, op: str, arguments: str, count: int) -> None:
        args, kwargs = parse_arguments(arguments.strip())
        call: dict[str, Any] = {"op": op, "args": args, "kwargs": kwargs}
        key = json.dumps(call, sort_keys=True)
        if key not in self._numbers:
            self._bytes += len(key)
            if self._bytes > _LARGEST_RECORDS:
                _fail(f"makes more than {_LARGEST_RECORDS // 2**20} MiB of distinct calls")
            self._numbers[key] = len(self.calls)
            self.calls.append(check_call(call))
        self.counts[self._numbers[key]] += count


def _check_operator(name: str) -> str:
    """The operator with its overload, which files may leave out where there is one alone."""
    full = f"{name}.default" if name.count(".") == 1 else name
    if not is_operator(full):
        _fail(f"names the operator {sanitize(repr(name), 80)}; it must be like aten.add.Tensor")
    return full


def _fail(what: str) -> NoReturn:
    raise WrongValueError(what)

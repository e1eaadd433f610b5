"""Read a callgrind output file into a `Profile`, line by line, without callgrind's Perl scripts.

The format in short: a header (`events:`, `positions:`) is followed by cost lines, `position…
cost…`. They belong to the function and the file that were last named by `ob=`, `fl=`, `fi=`, `fe=`
or `fn=`. After `cob=`, `cfi=` and `cfn=` for the callee, a `calls=` line makes the next cost line
the inclusive cost of that call. Names are compressed: `(id) name` at first, then `(id)`. Positions
are not needed here. A part ends with `totals:`, and a file may have several parts.

The exclusive costs of a part must add up to its `totals:` line exactly, otherwise the file is
damaged. A part without that line was cut off. `summary:` is not used, because callgrind takes it
from another counter, which differs by a few instructions when caches are simulated. A call with the
count 0 was already running when counting began. Its cost counts as that of a call here, while
callgrind_annotate counts it as the function's own.
"""

from __future__ import annotations

import io
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from torchmark.callgrind.profile import (
    Call,
    Profile,
    ProfiledFunction,
    SourceShare,
    inclusive_costs,
)
from torchmark.errors import CallgrindFileError

EVENT = b"Ir"
"""Instructions read: the event that is used."""

_FIRST_OF_POSITIONS, _LAST_OF_POSITIONS = ord("*"), ord("9")
"""A cost line begins with `*`, `+`, `-` or a digit. No other valid line begins in this range."""


def parse_file(path: str | os.PathLike[str]) -> Profile:
    """The profile in a callgrind output file. Raise a `CallgrindFileError` if it is damaged."""
    with Path(path).open("rb") as lines:
        return _parse(lines, str(path))


def parse_text(text: str, name: str = "<callgrind.out>") -> Profile:
    """The profile in the text of a callgrind output file; `name` is its name in errors."""
    return _parse(io.BytesIO(text.encode("utf-8", "surrogatepass")), name)


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a callgrind output file, to store it; bytes that are not UTF-8 are escaped."""
    return Path(path).read_bytes().decode("utf-8", "backslashreplace")


def _parse(lines: Iterable[bytes], name: str) -> Profile:
    reader = _Reader()
    try:
        reader.read(lines)
        reader.end()
    except (_DamageError, ValueError, IndexError) as error:
        reason = error if isinstance(error, _DamageError) else f"this line cannot be read ({error})"
        raise CallgrindFileError(
            f"{name}, line {reader.line_number}: {reason}; "
            "the callgrind file is damaged or incomplete, so count again"
        ) from error
    return reader.profile()


class _DamageError(Exception):
    """What is wrong with the current line."""


class _Reader:
    """The state after the lines so far, and their costs."""

    def __init__(self) -> None:
        self.line_number = 0
        self._total = 0
        self._indices: dict[tuple[str, str, str], int] = {}
        self._exclusive: dict[tuple[int, str], int] = defaultdict(int)
        self._called: dict[tuple[int, str], int] = defaultdict(int)
        self._calls: dict[tuple[int, int], tuple[int, int]] = {}
        self._position_columns = 1
        self._cost_column: int | None = None
        self._known_costs: dict[bytes, int] = {}
        self._total_at_part_start = 0
        self._in_part = False
        self._parts = 0
        self._objects: dict[bytes, str] = {}
        self._files: dict[bytes, str] = {}
        self._functions: dict[bytes, str] = {}
        self._object = self._file = ""
        self._function: int | None = None
        self._callee_object: str | None = None
        self._callee_file: str | None = None
        self._callee: int | None = None
        self._call_count: int | None = None

    def read(self, lines: Iterable[bytes]) -> None:
        """The hot loop. Most lines are cost lines, and most of these equal an earlier line."""
        number = exclusive = 0
        known = self._known_costs
        try:
            for number, raw in enumerate(lines, 1):  # noqa: B007 - read when a line is bad
                cost = known.get(raw)
                if cost is None:
                    if not _FIRST_OF_POSITIONS <= raw[0] <= _LAST_OF_POSITIONS:
                        if exclusive:
                            self._end_costs(exclusive)
                            exclusive = 0
                        self._read_other(raw.strip())
                        continue
                    cost = known[raw] = self._read_cost(raw)
                if self._call_count is not None:
                    self._end_call(cost)
                else:
                    exclusive += cost
        finally:
            self.line_number = number
        if exclusive:
            self._end_costs(exclusive)

    def _read_cost(self, raw: bytes) -> int:
        if self._cost_column is None:
            raise _DamageError("a cost comes before 'events:'")
        fields = raw.split()
        # Zeros at the end of a line are left out.
        cost = int(fields[self._cost_column]) if len(fields) > self._cost_column else 0
        if cost < 0:
            raise _DamageError(f"the cost {cost} is negative")
        return cost

    def end(self) -> None:
        if self._in_part or not self._parts:
            is_cut = "the file ends without a 'totals:' line"
            raise _DamageError(is_cut if self.line_number else "the file is empty")

    def _end_costs(self, exclusive: int) -> None:
        if self._function is None:
            raise _DamageError("a cost comes before the first 'fn='")
        self._exclusive[self._function, self._file] += exclusive
        self._total += exclusive
        self._in_part = True

    def _end_call(self, cost: int) -> None:
        assert self._function is not None
        assert self._callee is not None
        assert self._call_count is not None
        arc = (self._function, self._callee)
        count, inclusive = self._calls.get(arc, (0, 0))
        self._calls[arc] = (count + self._call_count, inclusive + cost)
        self._called[self._function, self._file] += cost
        self._callee = self._call_count = None

    def _read_other(self, text: bytes) -> None:
        if self._call_count is not None:
            raise _DamageError("a 'calls=' line is not followed by its cost")
        key, equals, value = text.partition(b"=")
        match key if equals else b"":
            case b"fn":
                name = _name(self._functions, value)
                self._function = self._index_of(self._object, self._file, name)
            case b"cfn":
                self._set_callee(_name(self._functions, value))
            case b"calls":
                self._begin_call(value)
            case b"fl" | b"fi" | b"fe":
                self._file = _name(self._files, value)
            case b"cfl" | b"cfi":
                self._callee_file = _name(self._files, value)
            case b"ob":
                self._object = _name(self._objects, value)
            case b"cob":
                self._callee_object = _name(self._objects, value)
            # Jumps have no cost, but a name may be defined at their targets.
            case b"jfi":
                _name(self._files, value)
            case b"jfn":
                _name(self._functions, value)
            case b"jump" | b"jcnd":
                pass
            case _:
                self._read_header(text)

    def _set_callee(self, name: str) -> None:
        """Set the callee. Its object and file are the caller's, unless named for this call."""
        object_file = self._object if self._callee_object is None else self._callee_object
        source_file = self._file if self._callee_file is None else self._callee_file
        self._callee = self._index_of(object_file, source_file, name)
        self._callee_object = self._callee_file = None

    def _index_of(self, object_file: str, source_file: str, name: str) -> int:
        """The index of a function, which may be a new one."""
        return self._indices.setdefault((object_file, source_file, name), len(self._indices))

    def _begin_call(self, value: bytes) -> None:
        if self._callee is None or self._function is None:
            raise _DamageError("'calls=' comes before 'fn=' or 'cfn='")
        count = int(value.split()[0])
        if count < 0:
            raise _DamageError(f"the number of calls is {count}")
        self._call_count = count

    def _read_header(self, text: bytes) -> None:
        """Read the keys that say what costs mean. Other keys describe the run, and are skipped."""
        if not text or text.startswith(b"#"):
            return
        key, colon, value = text.partition(b":")
        if not colon or not key.isalpha():
            raise _DamageError(f"{_show(text)} is not a line of the format")
        values = value.split()
        if key == b"version" and values != [b"1"]:
            raise _DamageError("only version 1 of the format can be read")
        if key == b"positions":
            self._position_columns = len(values)
        elif key == b"events":
            if EVENT not in values:
                raise _DamageError("the events have no 'Ir', so instructions were not counted")
            self._cost_column = self._position_columns + values.index(EVENT)
            self._known_costs.clear()
            self._in_part = True
        elif key == b"totals":
            self._end_part(values)

    def _end_part(self, values: list[bytes]) -> None:
        if self._cost_column is None:
            raise _DamageError("'totals:' comes before 'events:'")
        column = self._cost_column - self._position_columns
        expected = int(values[column]) if len(values) > column else 0
        found = self._total - self._total_at_part_start
        if found != expected:
            raise _DamageError(f"the costs add up to {found}, and the totals say {expected}")
        self._total_at_part_start = self._total
        self._in_part = False
        self._parts += 1

    def profile(self) -> Profile:
        calls = tuple(Call(*arc, *costs) for arc, costs in self._calls.items())
        exclusive = [0] * len(self._indices)
        for (function, _), cost in self._exclusive.items():
            exclusive[function] += cost
        inclusive = inclusive_costs(exclusive, calls)
        return Profile(
            total=self._total,
            functions=tuple(
                ProfiledFunction(*key, exclusive[function], inclusive[function])
                for key, function in self._indices.items()
            ),
            shares=tuple(
                SourceShare(*key, self._exclusive.get(key, 0), self._called.get(key, 0))
                for key in dict.fromkeys((*self._exclusive, *self._called))
            ),
            calls=calls,
        )


def _name(known: dict[bytes, str], value: bytes) -> str:
    """`(id) name` defines a name, `(id)` uses it, and any other text is the name itself."""
    name = known.get(value)
    if name is not None:
        return name
    number, bracket, rest = value.partition(b")")
    if not (bracket and number[:1] == b"(" and number[1:].isdigit()):
        return value.decode("utf-8", "backslashreplace")
    if not rest:
        raise _DamageError(f"the name {_show(value)} is used before it is defined")
    name = known[number + bracket] = rest.strip().decode("utf-8", "backslashreplace")
    return name


def _show(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "backslashreplace"))

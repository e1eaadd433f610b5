"""What a replay says: the time of every call and operator, its share, and what the time is for.

The time of a distinct call is its median times how often the trace has it. A share is one of all
that was measured: what could not be replayed is in none, and is listed. Where no times were taken,
shares are those of the instructions.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from torchmark.analyse.traffic import bytes_moved
from torchmark.model.result import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from torchmark.model.replay_record import (
        Backend,
        CallPlace,
        CallTime,
        MachineSpeeds,
        Replay,
        Replayed,
        ReplayedCall,
    )
    from torchmark.model.trace import RecordedCall

WORK_FROM = 0.5
"""A call is work from the point at which the machine's best speed explains half of its time."""

MOST_OVERHEAD = 20
"""Times what the smallest call takes: no operator's fixed costs are seen to be longer. What is
longer, and not explained by bytes or FLOPs either, computes something that this does not count."""


_PHASES = ("forward", "backward", "optimizer")


class Nature(enum.Enum):
    """What the time of a call goes into."""

    WORK = "work"
    """At least half is what its bytes or FLOPs need at the machine's best speed."""

    OVERHEAD = "overhead"
    """Less than half is, and the call is short: dispatch, checks, allocation."""

    SLOW = "slow"
    """Less than half is, and the call is long: it computes more than is counted (sines, sorting),
    or does so below the speed of a plain copy or matrix product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One distinct call."""

    replayed: ReplayedCall
    bytes: int | None
    """That one call has to move; None where the record does not tell."""

    seconds: float | None
    """Of all its calls with the first backend, in the whole trace; None where it has no time."""

    share: float | None
    """Of all time that was measured; without times, of all instructions that were counted."""

    explained: float | None
    """Part of the time that bytes or FLOPs need at the machine's best speed; at most 1."""

    nature: Nature | None
    """None where there is no time, or nothing is known of what it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """All calls of one operator."""

    op: str
    calls: tuple[CallRow, ...]
    """Those that take the most first."""

    count: int
    """How often the trace has them."""

    seconds: float | None
    """Of all of them with the first backend; None where none has a time."""

    share: float | None
    flops: int | None
    """Of all calls in the trace; None where one is not known."""

    bytes: int | None
    """Of all calls in the trace; None where one is not known."""

    nature: Nature | None
    """That of most of its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstoodReplay:
    """A replay as a table."""

    replay: Replay
    operators: tuple[OperatorRow, ...]
    """Those that take the most first, then those without a time."""

    seconds: float
    """Of all calls that have a time with the first backend, in the whole trace."""

    by_nature: Mapping[Nature, float]
    """Shares of the time."""

    @property
    def backend(self) -> Backend:
        """The first one: shares are of its time, and speed-ups are against it."""
        return self.replay.backends[0]

    @property
    def step_seconds(self) -> float:
        return self.seconds / max(1, self.replay.steps)

    def speedup(self, rows: Iterable[CallRow], backend: Backend) -> float | None:
        """How much faster than the first backend, over those calls that both have timed."""
        first = other = 0.0
        for row in rows:
            mine, its = (time_of(row.replayed, each) for each in (self.backend, backend))
            if mine is not None and its is not None:
                first += mine.seconds * row.replayed.count
                other += its.seconds * row.replayed.count
        return first / other if other else None

    def failures(self) -> list[tuple[CallRow, Replayed]]:
        """What could not be replayed."""
        return [
            (row, result)
            for operator in self.operators
            for row in operator.calls
            for result in row.replayed.by
            if result.status is not Status.DONE
        ]

    def missing(self) -> int:
        """Calls and backends that nobody came to."""
        wanted = len(self.replay.calls) * len(self.replay.backends)
        return wanted - sum(len(call.by) for call in self.replay.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A phase, or a module with all that is inside of it."""

    name: str
    depth: int
    """How many modules it is inside of."""

    count: int
    """Calls in the trace."""

    share: float
    """Of all that was measured."""


def by_phase(table: UnderstoodReplay) -> list[PartRow]:
    """The phases that there are, in the order of a step."""
    found: dict[str, list[tuple[int, float]]] = {phase: [] for phase in _PHASES}
    for place, share in _shares_by_place(table):
        found.setdefault(place.phase, []).append((place.count, share))
    return [_part(name, 0, parts) for name, parts in found.items() if parts]


def by_module(table: UnderstoodReplay) -> list[PartRow]:
    """Every module under the one that it is inside of; a module has the shares of its parts."""
    found: dict[str, list[tuple[int, float]]] = {}
    for place, share in _shares_by_place(table):
        for path in _paths_to(place.module):
            found.setdefault(path, []).append((place.count, share))
    in_order = sorted(found, key=lambda path: [*map(_as_number, path.split("."))] if path else [])
    return [_part(path, path.count(".") + 1 if path else 0, found[path]) for path in in_order]


def _part(name: str, depth: int, parts: Sequence[tuple[int, float]]) -> PartRow:
    return PartRow(
        name=name,
        depth=depth,
        count=sum(count for count, _ in parts),
        share=sum(share for _, share in parts),
    )


def _shares_by_place(table: UnderstoodReplay) -> Iterator[tuple[CallPlace, float]]:
    """Every call is as long wherever it comes from, so its share divides like its count."""
    for operator in table.operators:
        for row in operator.calls:
            for place in row.replayed.places:
                yield place, (row.share or 0.0) * place.count / row.replayed.count


def _paths_to(module: str | None) -> list[str]:
    """
    >>> _paths_to("encoder.0.linear"), _paths_to(""), _paths_to(None)
    (['', 'encoder', 'encoder.0', 'encoder.0.linear'], [''], [])
    """
    if module is None:
        return []
    parts = module.split(".") if module else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def _as_number(part: str) -> tuple[int, str]:
    """Layers 2 and 10 in this order."""
    return (int(part), "") if part.isdecimal() else (-1, part)


def time_of(call: ReplayedCall, backend: Backend) -> CallTime | None:
    result = call.by_backend(backend)
    return result.time if result is not None else None


def understood(replay: Replay) -> UnderstoodReplay:
    first = replay.backends[0]
    times = {call.number: time_of(call, first) for call in replay.calls}
    has_times = any(time is not None for time in times.values())
    weights = {call.number: _weight(call, first, has_times=has_times) for call in replay.calls}
    whole = sum(weight for weight in weights.values() if weight is not None)
    rows = [
        _row(call, times[call.number], _share(weights[call.number], whole), replay.speeds)
        for call in replay.calls
    ]
    grouped: dict[str, list[CallRow]] = {}
    for row in rows:
        grouped.setdefault(row.replayed.call.op, []).append(row)
    operators = [_operator(op, each) for op, each in grouped.items()]
    return UnderstoodReplay(
        replay=replay,
        operators=tuple(sorted(operators, key=lambda each: _most_first(each.share))),
        seconds=whole if has_times else 0.0,
        by_nature={
            nature: sum(row.share or 0.0 for row in rows if row.nature is nature)
            for nature in Nature
        },
    )


def _weight(call: ReplayedCall, backend: Backend, *, has_times: bool) -> float | None:
    """What a share is one of: seconds of all its calls, or instructions."""
    result = call.by_backend(backend)
    if result is None:
        return None
    if has_times:
        return result.time.seconds * call.count if result.time is not None else None
    return result.instructions * call.count if result.instructions is not None else None


def _row(
    call: ReplayedCall, time: CallTime | None, share: float | None, speeds: MachineSpeeds | None
) -> CallRow:
    moved = bytes_moved(call.call)
    seconds = time.seconds * call.count if time is not None else None
    needed = None if speeds is None else seconds_needed(call.call, moved, call.flops, speeds)
    explained = None
    if time is not None and needed is not None:
        explained = min(1.0, needed / time.seconds) if time.seconds else 1.0
    return CallRow(
        replayed=call,
        bytes=moved,
        seconds=seconds,
        share=share,
        explained=explained,
        nature=_nature(time, explained, speeds),
    )


def _nature(
    time: CallTime | None, explained: float | None, speeds: MachineSpeeds | None
) -> Nature | None:
    if time is None or explained is None or speeds is None:
        return None
    if explained >= WORK_FROM:
        return Nature.WORK
    is_short = time.seconds <= MOST_OVERHEAD * speeds.small_call_seconds
    return Nature.OVERHEAD if is_short else Nature.SLOW


def seconds_needed(
    call: RecordedCall, moved: int | None, flops: int | None, speeds: MachineSpeeds
) -> float | None:
    """What bytes and FLOPs need at the machine's best speed, the longer of the two.

    A small copy is faster than a large one, since it stays in a cache: bytes count at the speed of
    a copy of that size.
    """
    needed = []
    if moved is not None and speeds.bytes_per_second:
        needed.append(moved / _copy_speed(moved, speeds.bytes_per_second))
    speed = speeds.flops_per_second.get(computed_type(call))
    if flops is not None and speed:
        needed.append(flops / speed)
    return max(needed, default=None)


def _copy_speed(moved: int, measured: Mapping[int, float]) -> float:
    """Bytes a second, between two sizes that were measured by the logarithm of the size.

    >>> _copy_speed(1000, {100: 8.0, 10_000: 4.0}), _copy_speed(1, {100: 8.0, 10_000: 4.0})
    (6.0, 8.0)
    """
    sizes = sorted(measured)
    if moved <= sizes[0]:
        return measured[sizes[0]]
    for low, high in pairwise(sizes):
        if moved <= high:
            place = math.log(moved / low) / math.log(high / low)
            return measured[low] + place * (measured[high] - measured[low])
    return measured[sizes[-1]]


def computed_type(call: RecordedCall) -> str:
    """The type of the elements of its first tensor, "" if it has none."""
    for value in (*call.args, *call.kwargs.values()):
        if isinstance(value, dict) and "tensor" in value:
            return str(value["tensor"]["dtype"])
    return ""


def _operator(op: str, rows: Sequence[CallRow]) -> OperatorRow:
    time_by_nature = {
        nature: sum(row.seconds or 0.0 for row in rows if row.nature is nature)
        for nature in {row.nature for row in rows if row.nature is not None}
    }
    return OperatorRow(
        op=op,
        calls=tuple(sorted(rows, key=lambda row: _most_first(row.share))),
        count=sum(row.replayed.count for row in rows),
        seconds=_sum_of_known([row.seconds for row in rows]),
        share=_sum_of_known([row.share for row in rows]),
        flops=_sum_of(rows, lambda row: row.replayed.flops),
        bytes=_sum_of(rows, lambda row: row.bytes),
        nature=max(time_by_nature, key=lambda nature: time_by_nature[nature], default=None),
    )


def _sum_of(rows: Sequence[CallRow], figure: Callable[[CallRow], int | None]) -> int | None:
    total = 0
    for row in rows:
        each = figure(row)
        if each is None:
            return None
        total += each * row.replayed.count
    return total


def _sum_of_known(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None


def _share(weight: float | None, whole: float) -> float | None:
    if weight is None:
        return None
    return weight / whole if whole else 0.0


def _most_first(share: float | None) -> float:
    return 1.0 if share is None else -share

"""A drawn call made into an `Op` of about a wanted duration, or refused with a reason.

Three ways to let B do more, in this order:

*rows*: the call's tensors are repeated along dimension 0, and B gets more rows of the same
allocation. Only where the time is proportional to the rows, and for statements so long that the
overhead of a call is little of them.

*repetitions*: the call in a loop of 100, and of 101 in B. The truth is exact for any call, but a
loop takes 100 times as long as its call.

*extra*: a small operation of Python beside the call, for what is shorter than a loop can be. How
much it adds is calibrated, so the truth is not exactly known. Work that only every hundredth run
does would be exactly known, but most blocks of a call of 50 µs would not have it, so an estimate
that leans on undisturbed blocks would not see it.

Every look and every timing is in a forked child of its own, as the comparisons will be: what an
earlier size did to the allocator decides whether a run gets its memory with page faults, and a
process that has run a backward pass cannot fork others that do.
"""

from __future__ import annotations

import math
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from drawing.children import ChildFailedError, run_in_child
from drawing.op import SEVERAL_EXTRAS, Op
from drawing.sources import Call, tensors_in
from torchmark_probe.loops.snippets import PythonLoop, garbage_collection_off

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LONGEST = 10e-3
"""Seconds of a statement."""

RUNS = 100
"""Of a loop to which 1 % is added. One of 0.5 % is twice as long."""

SHORTEST_FOR_ROWS = 300e-6
"""Seconds; the overhead of a call, some microseconds, is then about 1 % of it."""

MOST_OVERHEAD = 0.1
"""Share of a statement that may not grow with its rows. The truth allows for it; half of it wrong
would be 0.05 % in a change of 1 %."""

LONGEST_FOR_EXTRA = 300e-6
"""Seconds; from here on the truth can be known exactly."""

NEAR = 1.3
"""A fitted statement takes the wanted time within this factor."""

ROW_STEP = 200
"""0.5 % of so many rows is a whole number."""

PROPORTIONAL = 0.05
"""Twice the rows take twice the time, the overhead left out, within this share."""

PROPORTIONAL_NEAR = 0.2
"""5 % more rows take 5 % longer within this share, 1 % of the time: as good as a quick look is."""

MOST_BYTES = 48 << 20
"""Of a call's arguments: so a setup, which runs in every process, stays short."""

MOST_GROWTHS = 3
"""Tried ways to let a call grow."""

LONGEST_SETUP = 30e-3
"""Seconds."""

STEADY = 0.03
"""The share by which the time may change during STEADY_RUNS."""

STEADY_RUNS = 2000
STEADY_SECONDS = 0.4

CHILD_SECONDS = 4.0
"""What a look or a timing may take; they are meant to take a tenth of that."""

MOST_KEPT = 4 << 20
"""Bytes by which a process may grow meanwhile."""

DRIFTING_RUNS = 20_000
"""Of a call that changes its arguments: an exponential drift has come to its end by then."""


class UnfitError(Exception):
    """The call cannot be a statement of the wanted kind."""


REFUSALS = (UnfitError, ChildFailedError)


class Extra(NamedTuple):
    """A small operation, of which two add about 1 %."""

    stmt: str
    setup: str


class Rows(NamedTuple):
    """A size of a call."""

    rows: int
    seconds: float
    overhead: float
    """Seconds of the call as it is, which is small."""


class Growth(NamedTuple):
    """Tensors of a call that are repeated along dimension 0 together."""

    places: tuple[tuple[str, int], ...]
    """The expression of each, and its dimensions."""

    rows: int
    """What they have by themselves."""

    bytes_per_row: float

    def text(self, rows: int, room: int = 0, stop: str = "") -> str:
        """Lines of a setup that take so many rows of `room` allocated ones.

        `stop` is what stands there for their number.
        """
        times = math.ceil(max(rows, room) / self.rows)
        return "".join(
            f"{place} = {place}.repeat({', '.join(map(str, [times, *[1] * (dims - 1)]))})"
            f"[:{stop or rows}]\n"
            for place, dims in self.places
        )


def fit(call: Call, wanted: float) -> Op:
    """The op whose A takes about `wanted` seconds; an UnfitError if there is none."""
    growths = run_in_child(partial(inspect, call), CHILD_SECONDS)
    refusals = []
    for way in (fit_rows, fit_repetitions, fit_extra):
        try:
            op = way(call, growths, wanted)
            check_setup(op)
            check_steady(op)
        except REFUSALS as error:
            refusals.append(f"{way.__name__}: {error}")
        else:
            is_backward = " backward" if call.leaves else ""
            name = f"{call.family}{is_backward}, {told_seconds(op.seconds)}"
            return op._replace(name=name)
    raise UnfitError("; ".join(refusals))


def told_seconds(seconds: float) -> str:
    """Two digits with a unit.

    >>> told_seconds(0.00123), told_seconds(4.56e-6)
    ('1.2 ms', '4.6 us')
    """
    if seconds > 0.99e-3:
        return f"{seconds * 1e3:.2g} ms"
    return f"{float(f'{seconds * 1e6:.2g}'):g} us"


def statement(call: Call) -> str:
    made = "op(*args, **kwargs)"
    if not call.leaves:
        return made
    names = " = ".join(f"leaf{number}.grad" for number in range(len(call.leaves)))
    return f"{made}.sum().backward(); {names} = None"


def setup_of(call: Call, growing: str = "") -> str:
    """The call's setup with the lines that let it grow; a leaf is what these have made."""
    leaves = (
        f"leaf{number} = {place} = {place}.requires_grad_()\n"
        for number, place in enumerate(call.leaves)
    )
    return "".join([call.setup, growing, *leaves])


def inspect(call: Call) -> list[Growth]:
    """The ways in which the call's tensors may grow; an UnfitError if it must not be timed at all.

    Not timed is what draws random numbers, what has other arguments than plain tensors, and what
    drifts.
    """
    torch.set_num_threads(1)
    space: dict[str, Any] = {"torch": torch}
    exec(setup_of(call), space)
    tensors = tensors_in(space["args"], space["kwargs"])
    if not tensors or any(each.layout != torch.strided or each.is_quantized for _, each in tensors):
        raise UnfitError("not all arguments are plain tensors")
    growths = list(growths_of(tensors))
    before = [tensor.detach().clone() for _, tensor in tensors]
    random_state = torch.get_rng_state()
    exec(statement(call), space)
    if not torch.equal(random_state, torch.get_rng_state()):
        raise UnfitError("it draws random numbers")
    both = zip((tensor for _, tensor in tensors), before, strict=True)
    changed = [tensor for tensor, old in both if not is_same(tensor, old)]
    if changed:
        check_drift(statement(call), space, changed)
    return growths


def check_drift(stmt: str, space: dict[str, Any], changed: Sequence[torch.Tensor]) -> None:
    """Let the call run on its own results: numbers that are not normal take another time."""
    code = compile(stmt, "<drawn>", "exec")
    stop = time.perf_counter() + 1.0
    for _ in range(DRIFTING_RUNS):
        exec(code, space)
        if time.perf_counter() > stop:
            raise UnfitError("it changes its arguments, and slowly")
    if not all(is_normal(tensor) for tensor in changed):
        raise UnfitError("its arguments drift to infinity, NaN or subnormal numbers")


def is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape:
        raise UnfitError("it changes the shape of an argument")
    return torch.allclose(one.detach(), other, rtol=0, atol=0, equal_nan=True)


def is_normal(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point():
        return not tensor.is_complex()
    tiny = (tensor != 0) & (tensor.abs() < torch.finfo(tensor.dtype).tiny)
    return bool(tensor.isfinite().all()) and not bool(tiny.any())


def growths_of(tensors: Sequence[tuple[str, torch.Tensor]]) -> Iterator[Growth]:
    """All with as many rows as one of them; then single ones."""
    grown = {place: tensor for place, tensor in tensors if tensor.dim()}
    alike = [
        tuple(place for place in grown if grown[place].shape[0] == rows)
        for rows in dict.fromkeys(tensor.shape[0] for tensor in grown.values())
    ]
    for group in list(dict.fromkeys([*alike, *((place,) for place in grown)]))[:MOST_GROWTHS]:
        rows = grown[group[0]].shape[0]
        size = sum(grown[place].numel() * grown[place].element_size() for place in group)
        places = tuple((place, grown[place].dim()) for place in group)
        yield Growth(places, rows, size / rows)


def fit_rows(call: Call, growths: Sequence[Growth], wanted: float) -> Op:
    if wanted < SHORTEST_FOR_ROWS:
        raise UnfitError("too short")
    reasons = []
    for growth in growths:
        try:
            return fit_rows_of(call, growth, wanted)
        except REFUSALS as error:
            reasons.append(str(error)[:80])
    raise UnfitError(" / ".join(reasons) or "nothing can grow")


def fit_rows_of(call: Call, growth: Growth, wanted: float) -> Op:
    found = find_rows(call, growth, wanted)
    rows = round(found.rows / ROW_STEP) * ROW_STEP
    if rows < ROW_STEP:
        raise UnfitError(f"only {found.rows} rows")

    def seconds(rows: int, room: int) -> float:
        return time_of(statement(call), setup_of(call, growth.text(rows, room)))

    one = check_proportional(rows, found.overhead, seconds)
    if not (is_near(one, wanted) and one < LONGEST):
        raise UnfitError(f"takes {told_seconds(one)}")
    return Op(
        call.family,
        statement(call),
        setup_of(call, growth.text(rows, math.ceil(rows * 1.01), "{rows}")),
        rows=rows,
        growing=1 - found.overhead / one,
        source=call.source,
        seconds=one,
    )


def check_proportional(rows: int, overhead: float, seconds: Callable[[int, int], float]) -> float:
    """What so many rows take; an UnfitError if twice or 5 % more do not take so much longer.

    Twice the rows may be what they should be while 1 % more lie on a step, or the other way round.
    All are rows of allocations of one size. Most that are not proportional are so by far, mostly
    since larger results come with page faults: the first round is enough to refuse those.
    """
    numbers = (rows // 2, rows, round(rows * 1.05), 2 * rows)
    least = [math.inf] * len(numbers)
    for allowed in (3 * PROPORTIONAL, math.inf, math.inf, PROPORTIONAL):
        taken = [seconds(number, 2 * rows) for number in numbers]
        least = [min(both) for both in zip(least, taken, strict=True)]
        half, one, little, two = least
        if overhead > MOST_OVERHEAD * one:
            raise UnfitError(f"its overhead may be {overhead / one:.0%}")
        for less, more in ((half, one), (one, two)):
            grown = (more - overhead) / (less - overhead) / 2
            if abs(grown - 1) > allowed:
                raise UnfitError(f"twice the rows take {2 * grown:.2f} times as long")
    slope = (little - one) / (one - overhead) / 0.05
    if abs(slope - 1) > PROPORTIONAL_NEAR:
        raise UnfitError(f"5 % more rows take {5 * slope:.1f} % longer")
    return one


def fit_repetitions(call: Call, growths: Sequence[Growth], wanted: float) -> Op:
    if 2 * wanted > LONGEST:
        raise UnfitError("a loop for 0.5 % would be too long")
    setup, seconds = fit_size(call, growths, wanted / RUNS)
    return Op(
        call.family, statement(call), setup, runs=RUNS, source=call.source, seconds=seconds * RUNS
    )


def fit_extra(call: Call, growths: Sequence[Growth], wanted: float) -> Op:
    if wanted > LONGEST_FOR_EXTRA:
        raise UnfitError("too long")
    setup, seconds = fit_size(call, growths, wanted)
    extra = extra_for(seconds)
    stmt = statement(call)
    setup += extra.setup
    several = SEVERAL_EXTRAS
    texts = (stmt, "; ".join([stmt, *[extra.stmt] * several]))
    plain, more = map(min, *([time_of(text, setup) for text in texts] for _ in range(3)))
    if more < plain * 1.01:
        raise UnfitError("the extra work cannot be seen")
    extras = several * plain / (more - plain)
    return Op(
        call.family,
        stmt,
        setup,
        extra=extra.stmt,
        extras=extras,
        source=call.source,
        seconds=seconds,
    )


def extra_for(seconds: float) -> Extra:
    """By what they take: 3 ns, 11 ns, and 2 ns for each item that is counted.

    Several of them make half a per cent: of a single one that takes 0.37 %, that would be one too.
    """
    if seconds < 2.5e-6:
        return Extra("n", "n = 1000\n")
    if seconds < 30e-6:
        return Extra("n + 1", "n = 1000\n")
    items = round((seconds * 0.001 - 12e-9) / 2.2e-9)
    return Extra("few.count(n)", f"n = 1000\nfew = (n,) * {max(1, items)}\n")


def fit_size(call: Call, growths: Sequence[Growth], wanted: float) -> tuple[str, float]:
    """The setup with which the call takes about as long as wanted, and what it takes."""
    natural = time_of(statement(call), setup_of(call))
    if is_near(natural, wanted):
        return setup_of(call), natural
    if natural > wanted:
        raise UnfitError(f"takes {told_seconds(natural)} as it is")
    reasons = []
    for growth in growths:
        try:
            found = find_rows(call, growth, wanted)
        except REFUSALS as error:
            reasons.append(str(error)[:80])
        else:
            return setup_of(call, growth.text(found.rows)), found.seconds
    raise UnfitError(" / ".join(reasons) or "nothing can grow")


def find_rows(call: Call, growth: Growth, wanted: float) -> Rows:
    """Rows with which the call takes about as long as wanted, in a process of their own.

    They are searched in one process, which has had other sizes before.
    """
    found = run_in_child(partial(search_rows, call, growth, wanted), CHILD_SECONDS)
    for _ in range(3):
        taken = time_of(statement(call), setup_of(call, growth.text(found.rows)))
        if is_near(taken, wanted):
            return found._replace(seconds=taken)
        found = found._replace(rows=max(1, round(found.rows * wanted / taken)))
    raise UnfitError(f"takes {told_seconds(taken)}")


def search_rows(call: Call, growth: Growth, wanted: float) -> Rows:
    def seconds(rows: int) -> float:
        return time_here(statement(call), setup_of(call, growth.text(rows)), 0.02)

    rows = growth.rows
    overhead = taken = seconds(rows)
    for _ in range(7):
        if abs(math.log(taken / wanted)) < 0.1:
            break
        factor = (wanted - overhead) / (taken - overhead) if taken > overhead * 1.3 else 8.0
        rows = max(1, round(rows * min(20.0, max(0.05, factor))))
        if rows * growth.bytes_per_row > MOST_BYTES:
            raise UnfitError("it would take too much memory")
        taken = seconds(rows)
    return Rows(rows, taken, overhead)


def is_near(seconds: float, wanted: float) -> bool:
    return wanted / NEAR < seconds < wanted * NEAR


def time_of(stmt: str, setup: str) -> float:
    """Seconds of one run when nothing disturbs it, in a process of its own."""
    return run_in_child(partial(time_here, stmt, setup, 0.04), CHILD_SECONDS)


def time_here(stmt: str, setup: str, seconds: float) -> float:
    """A low quantile of blocks, in this process."""
    torch.set_num_threads(1)
    with garbage_collection_off():
        blocks = PythonLoop(stmt, setup, globals={"torch": torch}).blocks()
        blocks.run(2)
        first = blocks.run(3).wall / 3
        if first > 4 * LONGEST:
            raise UnfitError(f"takes {told_seconds(first)}")
        number = max(1, min(100_000, round(300e-6 / first)))
        stop = time.perf_counter() + seconds
        times: list[float] = []
        while len(times) < 5 or time.perf_counter() < stop:
            times.append(blocks.run(number).wall / number)
    return sorted(times)[len(times) // 5]


def check_setup(op: Op) -> None:
    case, _ = op.pair(0.01)
    taken = min(run_in_child(partial(time_setup, case.setup), CHILD_SECONDS) for _ in range(3))
    if taken > LONGEST_SETUP:
        raise UnfitError(f"its setup takes {told_seconds(taken)}")


def time_setup(setup: str) -> float:
    torch.set_num_threads(1)
    code = compile(setup, "<setup>", "exec")
    start = time.perf_counter()
    exec(code, {"torch": torch})
    return time.perf_counter() - start


def check_steady(op: Op) -> None:
    """Thousands of runs take the same at their end as at their start, in about the same memory.

    A disturbance of the machine looks like a change, but not three times.
    """
    changes = []
    for _ in range(3):
        changes.append(run_in_child(partial(change_during, op), CHILD_SECONDS))
        if abs(changes[-1]) <= STEADY:
            return
    raise UnfitError(f"its time changes by {changes[-1]:+.1%}")


def change_during(op: Op) -> float:
    """The share by which the last third of the blocks takes longer than the first."""
    torch.set_num_threads(1)
    case, _ = op.pair(0.0)
    with garbage_collection_off():
        blocks = PythonLoop(case.stmt, case.setup, globals={"torch": torch}).blocks()
        number = max(1, round(300e-6 / op.seconds))
        for _ in range(5):
            blocks.run(number)
        memory = resident_bytes()
        stop = time.perf_counter() + STEADY_SECONDS
        times: list[float] = []
        while time.perf_counter() < stop and (len(times) < 30 or len(times) * number < STEADY_RUNS):
            times.append(blocks.run(number).wall)
        grown = resident_bytes() - memory
    if grown > MOST_KEPT:
        raise UnfitError(f"it keeps {grown >> 20} MB")
    third = len(times) // 3
    first, last = (sorted(part)[third // 5] for part in (times[:third], times[-third:]))
    return last / first - 1


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

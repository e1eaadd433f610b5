"""Figures of a replay in words, the same for the terminal and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.model.replay_record import Backend, ReplayMode
from torchmark.model.result import Status
from torchmark.model.units import select_unit
from torchmark.report.figures import first_line, printable, seconds_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.replay import CallRow, Nature, UnderstoodReplay
    from torchmark.model.replay_record import CallTime, MachineSpeeds, Replayed

_PREFIXES = ("", "K", "M", "G", "T", "P")


def amount_text(number: float | None) -> str:
    """Three figures and a letter for the thousands; nothing where it is not known.

    >>> amount_text(0), amount_text(1234), amount_text(4.2e9), amount_text(None)
    ('0', '1.23K', '4.20G', '')
    """
    if number is None:
        return ""
    value, at = float(number), 0
    while value >= 999.5 and at < len(_PREFIXES) - 1:
        value, at = value / 1000, at + 1
    return f"{value:.0f}" if at == 0 else f"{value:#.3g}".rstrip(".") + _PREFIXES[at]


def share_text(share: float | None) -> str:
    """
    >>> share_text(0.1234), share_text(0.0001), share_text(None)
    ('12.3 %', '<0.1 %', '')
    """
    if share is None:
        return ""
    return "<0.1 %" if 0 < share < 0.0005 else f"{share * 100:.1f} %"


def short_seconds(seconds: float | None) -> str:
    """
    >>> short_seconds(1.2345e-6), short_seconds(0), short_seconds(None)
    ('1.23 us', '0 ns', '')
    """
    if seconds is None:
        return ""
    unit, scale = select_unit(seconds)
    return f"{f'{seconds / scale:#.3g}'.rstrip('.') if seconds else '0'} {unit}"


def interval_text(time: CallTime) -> str:
    """The median and how far its interval reaches, with a mark if it is doubtful.

    >>> from torchmark.model.replay_record import CallTime
    >>> interval_text(CallTime(seconds=2e-6, low=1.9e-6, high=2.02e-6, samples=30, doubts=("x",)))
    '2.00 us ±5 % !'
    """
    reach = max(time.high - time.seconds, time.seconds - time.low)
    share = reach / time.seconds if time.seconds else 0.0
    text = "large" if share >= 10 else "<1 %" if share < 0.01 else f"{share * 100:.0f} %"
    return f"{short_seconds(time.seconds)} ±{text}{' !' if time.doubts else ''}"


def operator_text(op: str) -> str:
    """
    >>> operator_text("aten.add.Tensor"), operator_text("aten.mm.default"), operator_text("my.op.x")
    ('add.Tensor', 'mm', 'my.op.x')
    """
    return op.removeprefix("aten.").removesuffix(".default")


def each_text(result: Replayed | None) -> str:
    """The time of one call, or the word for why there is none."""
    if result is None:
        return "–"
    if result.time is not None:
        return interval_text(result.time)
    return "" if result.status is Status.DONE else result.status.value


def calls_text(number: int, which: str = "") -> str:
    """
    >>> calls_text(1), calls_text(1234, "more ")
    ('1 call', '1,234 more calls')
    """
    return f"{number:,} {which}call{'' if number == 1 else 's'}"


def heading(table: UnderstoodReplay) -> str:
    replay = table.replay
    how = {
        ReplayMode.HOT: "each call by itself",
        ReplayMode.ORDER: "calls in their order",
    }[replay.mode]
    threads = "1 thread" if replay.threads == 1 else f"{replay.threads} threads"
    return f"{replay.trace}, {how}, {threads}, seed {replay.seed}, started {replay.started}"


def step_sentences(table: UnderstoodReplay) -> list[str]:
    """How much there is, what a step takes, and what the time is for."""
    replay = table.replay
    count = sum(call.count for call in replay.calls)
    steps = "1 step" if replay.steps == 1 else f"{replay.steps} steps"
    sentences = [f"{calls_text(count)} in {steps}, {len(replay.calls)} of them distinct."]
    if table.seconds:
        backend = "" if table.backend is Backend.EAGER else f" with {table.backend.value}"
        text = f"The calls of a step take {seconds_text(table.step_seconds)}{backend}"
        sentences.append(f"{text}{_natures(table.by_nature)}.")
    for other in replay.backends[1:]:
        rows = [row for operator in table.operators for row in operator.calls]
        speedup = table.speedup(rows, other)
        if speedup is not None:
            sentences.append(
                f"{other.value}: {speedup:.2f} times as fast as {table.backend.value}, over "
                f"{calls_text(_timed(rows, other))} that both have."
            )
    if replay.pass_seconds is not None and replay.pass_seconds.seconds:
        whole = replay.pass_seconds
        ratio = table.step_seconds / whole.seconds
        sentences.append(
            f"A pass over all of them takes {interval_text(whole)} on the clock; the sum of the "
            f"calls is {ratio:.2f} of it."
        )
    return sentences


def speed_sentence(speeds: MachineSpeeds) -> str:
    """What calls are held against."""
    copies = ", ".join(
        f"{amount_text(speed)}B/s for {size // 1024:,} KiB"
        for size, speed in sorted(speeds.bytes_per_second.items())
    )
    products = ", ".join(
        f"{amount_text(speed)}FLOP/s in {name}"
        for name, speed in sorted(speeds.flops_per_second.items())
    )
    return (
        f"This machine at its best: copies {copies}; products {products or 'not measured'}; "
        f"the smallest call takes {short_seconds(speeds.small_call_seconds)}."
    )


def failure_groups(table: UnderstoodReplay) -> list[tuple[str, list[CallRow]]]:
    """Why calls were not replayed: outcome, backend and reason, each with its calls."""
    groups: dict[str, list[CallRow]] = {}
    for row, result in table.failures():
        backend = "" if len(table.replay.backends) == 1 else f" {result.backend.value}"
        reason = printable(first_line(result.reason))
        groups.setdefault(f"{result.status.value.upper()}{backend}: {reason}", []).append(row)
    return list(groups.items())


def remark_groups(table: UnderstoodReplay) -> list[tuple[str, list[CallRow]]]:
    """What is not as recorded, each remark with its calls."""
    groups: dict[str, list[CallRow]] = {}
    for operator in table.operators:
        for row in operator.calls:
            for result in row.replayed.by:
                for remark in result.remarks:
                    groups.setdefault(printable(remark), []).append(row)
    return list(groups.items())


def name_of(row: CallRow) -> str:
    return f"{operator_text(row.replayed.call.op)}({row.replayed.signature})"


def names_of(rows: Sequence[CallRow], shown: int = 2) -> str:
    """The first of them by name, the others counted."""
    names = "; ".join(name_of(row) for row in rows[:shown])
    return names + (f"; {len(rows) - shown} more" if len(rows) > shown else "")


def summary(table: UnderstoodReplay) -> str:
    """One line that counts what came of the calls."""
    results = [result for call in table.replay.calls for result in call.by]
    parts = []
    for outcome, word in (
        (Status.DONE, "replayed"),
        (Status.FAILED, "failed"),
        (Status.SKIPPED, "cannot be replayed"),
    ):
        number = sum(result.status is outcome for result in results)
        parts += [f"{number} {word}"] if number or outcome is Status.DONE else []
    missing = table.missing()
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)


def _natures(shares: Mapping[Nature, float]) -> str:
    texts = [f"{share * 100:.0f} % {nature.value}" for nature, share in shares.items() if share]
    return f": {', '.join(texts)}" if texts else ""


def _timed(rows: Sequence[CallRow], backend: Backend) -> int:
    results = (row.replayed.by_backend(backend) for row in rows)
    return sum(result is not None and result.time is not None for result in results)

"""A replay for a terminal or a pipe: by operator, by call, then what could not be replayed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from torchmark.report.columns import blocks, lined_up
from torchmark.report.figures import environment_line, printable
from torchmark.report.replay_words import (
    amount_text,
    calls_text,
    each_text,
    failure_groups,
    heading,
    names_of,
    operator_text,
    remark_groups,
    share_text,
    short_seconds,
    speed_sentence,
    step_sentences,
    summary,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.replay import CallRow, OperatorRow, UnderstoodReplay

TOP = 20
"""Calls that are shown where nobody says how many; the CSV and the page have all."""


def render(table: UnderstoodReplay, *, top: int = TOP, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow.

    `top` is how many calls are shown, those that take the most; all operators are.
    """
    replay = table.replay
    parts = [
        _wrapped([heading(table), environment_line(replay.environment)], width),
        _wrapped(step_sentences(table), width),
        _by_operator(table, width),
        _by_call(table, top, width),
        _wrapped([speed_sentence(replay.speeds)] if replay.speeds else [], width),
        _wrapped([f"{text}: {names_of(rows)}" for text, rows in failure_groups(table)], width),
        _wrapped(
            [f"NOT AS RECORDED: {text}: {names_of(rows)}" for text, rows in remark_groups(table)],
            width,
        ),
        _wrapped([f"The trace lacks: {text}" for text in replay.unseen], width),
        [f"{summary(table)}."],
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _by_operator(table: UnderstoodReplay, width: int) -> list[str]:
    """With several backends their speed-ups stand in place of what the time is for."""
    others = [backend.value for backend in table.replay.backends[1:]]
    headings = ["calls", "total", "share", "FLOPs", "bytes", *(others or ["what"])]
    rows = [
        (operator_text(operator.op), [*_figures(operator), *_last_cells(table, operator)])
        for operator in table.operators
    ]
    return lined_up(headings, [("by operator", rows)], width) if rows else []


def _figures(operator: OperatorRow) -> list[str]:
    return [
        f"{operator.count:,}",
        short_seconds(operator.seconds),
        share_text(operator.share),
        amount_text(operator.flops),
        amount_text(operator.bytes),
    ]


def _last_cells(table: UnderstoodReplay, operator: OperatorRow) -> list[str]:
    others = table.replay.backends[1:]
    if not others:
        return [operator.nature.value if operator.nature else ""]
    speedups = [table.speedup(operator.calls, backend) for backend in others]
    return ["" if speedup is None else f"{speedup:.2f}×" for speedup in speedups]


def _by_call(table: UnderstoodReplay, top: int, width: int) -> list[str]:
    rows = [row for operator in table.operators for row in operator.calls if row.share is not None]
    rows.sort(key=lambda row: -(row.share or 0.0))
    shown, left = rows[:top], rows[top:]
    if not shown:
        return []
    headings, cells = _columns(table, shown)
    names = [
        (operator_text(row.replayed.call.op), each) for row, each in zip(shown, cells, strict=True)
    ]
    title, *lines = blocks(headings, [("by call", names)], width)
    found = list(title)
    for row, block in zip(shown, lines, strict=True):
        found += block
        found += textwrap.wrap(
            row.replayed.signature, width, initial_indent="    ", subsequent_indent="    "
        )
    if left:
        share = share_text(sum(row.share or 0.0 for row in left))
        more = calls_text(len(left), "more ")
        found += [f"  … {more}, {share} of the time: --top, --csv and --html"]
    return found


def _columns(table: UnderstoodReplay, rows: Sequence[CallRow]) -> tuple[list[str], list[list[str]]]:
    """With several backends their times stand side by side, in place of what a call does."""
    replay = table.replay
    if len(replay.backends) > 1:
        headings = [backend.value for backend in replay.backends]
        return ["share", *headings], [
            [share_text(row.share), *_side_by_side(table, row)] for row in rows
        ]
    headings = ["calls", "each", "share", "FLOPs", "bytes", "what"]
    cells = [
        [
            f"{row.replayed.count:,}",
            _each(table, row),
            share_text(row.share),
            amount_text(row.replayed.flops),
            amount_text(row.bytes),
            row.nature.value if row.nature else "",
        ]
        for row in rows
    ]
    return headings, cells


def _each(table: UnderstoodReplay, row: CallRow) -> str:
    """The time of a call; where there are counts alone, those."""
    result = row.replayed.by_backend(table.backend)
    if result is not None and result.time is None and result.instructions is not None:
        return f"{amount_text(result.instructions)} instr."
    return each_text(result)


def _side_by_side(table: UnderstoodReplay, row: CallRow) -> list[str]:
    texts = []
    for backend in table.replay.backends:
        result = row.replayed.by_backend(backend)
        speedup = None if backend is table.backend else table.speedup([row], backend)
        if speedup is not None and result is not None and result.time is not None:
            texts.append(f"{short_seconds(result.time.seconds)} {speedup:.2f}×")
        else:
            texts.append(each_text(result))
    return texts


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines

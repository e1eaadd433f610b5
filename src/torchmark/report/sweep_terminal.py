"""The rows of a sweep for a terminal: a line for each point, a column for each backend."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from torchmark.model.sweep_record import Phase, Status
from torchmark.model.units import ordered_unique
from torchmark.report.columns import lined_up
from torchmark.report.figures import printable, seconds_text
from torchmark.report.sweep_csv import dims_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.model.sweep_record import SweepRow

_MOST_LINES = 60
"""Points in the table; the CSV has all of them."""


def render(rows: Sequence[SweepRow], *, width: int = 80) -> str:
    """Medians, how many times as fast as pt the others are, and what was not measured and why."""
    backends = ordered_unique(row.backend for row in rows)
    by_line: dict[tuple[str, str], dict[str, SweepRow]] = {}
    for row in rows:
        by_line.setdefault((_section(row), _line_name(row)), {})[row.backend] = row
    shown = list(by_line.items())[:_MOST_LINES]
    sections = [
        (title, [(name, _cells(found, backends)) for (each, name), found in shown if each == title])
        for title in ordered_unique(title for (title, _), _ in shown)
    ]
    parts = [
        lined_up(backends, sections, width),
        [f"… {len(by_line) - len(shown)} more lines"] if len(by_line) > len(shown) else [],
        _speed_ups(list(by_line.values()), backends),
        _doubts(rows, width),
        _gaps(rows, width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _section(row: SweepRow) -> str:
    threads = f", {row.threads} threads" if row.threads > 1 else ""
    phase = f", {row.phase.value}" if row.phase is not Phase.FORWARD else ""
    return f"{row.model}, {row.dtype}{phase}{threads}"


def _line_name(row: SweepRow) -> str:
    return dims_text(row.dims)


def _cells(found: Mapping[str, SweepRow], backends: Sequence[str]) -> list[str]:
    return [_cell(found.get(backend), found.get("pt")) for backend in backends]


def _cell(row: SweepRow | None, eager: SweepRow | None) -> str:
    if row is None:
        return ""
    if row.median_s is None:
        return row.status.value
    mark = " (!)" if row.reason else ""
    speed_up = _speed_up(row, eager)
    beside = f" {speed_up:.2f}x" if speed_up is not None and row is not eager else ""
    return f"{seconds_text(row.median_s)}{beside}{mark}"


def _speed_up(row: SweepRow, eager: SweepRow | None) -> float | None:
    if eager is None or not eager.median_s or not row.median_s:
        return None
    return eager.median_s / row.median_s


def _speed_ups(lines: Sequence[Mapping[str, SweepRow]], backends: Sequence[str]) -> list[str]:
    """One line for each backend: how it compares with pt over all sizes."""
    texts = []
    for backend in backends:
        ratios = [
            ratio
            for found in lines
            if backend in found and backend != "pt"
            and (ratio := _speed_up(found[backend], found.get("pt"))) is not None
        ]  # fmt: skip
        if ratios:
            mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
            texts.append(
                f"{backend} is {mean:.2f} times as fast as pt (geometric mean of {len(ratios)}; "
                f"{min(ratios):.2f} to {max(ratios):.2f})"
            )
    return texts


def _doubts(rows: Sequence[SweepRow], width: int) -> list[str]:
    doubtful = [row for row in rows if row.status is Status.MEASURED and row.reason]
    return _told("DOUBT (!)", doubtful, width)


def _gaps(rows: Sequence[SweepRow], width: int) -> list[str]:
    """One paragraph for each reason why something was not measured."""
    return [
        line
        for status in (Status.FAILED, Status.SKIPPED)
        for line in _told(
            status.value.upper(), [row for row in rows if row.status is status], width
        )
    ]


def _told(word: str, rows: Sequence[SweepRow], width: int) -> list[str]:
    by_reason: dict[tuple[str, str], list[SweepRow]] = {}
    for row in rows:
        by_reason.setdefault((row.backend, row.reason), []).append(row)
    lines: list[str] = []
    for (backend, reason), same in list(by_reason.items())[:_MOST_LINES]:
        first = f"{backend} {same[0].dtype}, {dims_text(same[0].dims)}"
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        lines += textwrap.wrap(
            f"{word} {first}{more}: {printable(reason)}", width, subsequent_indent="  "
        )
    return lines

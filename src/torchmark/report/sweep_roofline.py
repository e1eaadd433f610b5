"""The roofline of a sweep: achieved FLOP/s over FLOPs per byte, under what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchmark.analyse.sweep import (
    config_of,
    dtypes_in,
    measured,
    phases_in,
    subject_of,
    subjects_in,
)
from torchmark.model.sweep_record import Phase
from torchmark.report.plot_axis import prefixed, value_axis
from torchmark.report.plot_panel import Panel, Point, Reference, Series
from torchmark.report.sweep_plots import figure_of, looks_of, title_of
from torchmark.report.sweep_words import case_hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.sweep import Subject
    from torchmark.model.sweep_record import SweepRow
    from torchmark.report.plot_axis import Axis
    from torchmark.report.plot_figure import Figure

_NAMES_APART = 0.07
"""Of the axis between two roofs that both have their name; closer ones share the upper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """What the machine can do at best."""

    flop_per_s: Mapping[str, float]
    """By dtype, as rows name it."""

    bytes_per_s: float
    origin: str = "measured on this machine"
    """Where the figures come from, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """A row with FLOPs and bytes."""

    row: SweepRow
    intensity: float
    """FLOPs per byte."""

    speed: float
    """FLOP/s."""

    bandwidth: float
    """Bytes/s."""

    ends: tuple[float, float]
    """From where to where the speed may be."""


def roofline(rows: Sequence[SweepRow], roofs: Roofs | None = None) -> Figure | None:
    """One panel a phase; None where no row has FLOPs and bytes.

    Without roofs they are the best seen; no roof is below that, for the machine has done it.
    """
    works = _works(rows)
    if not works:
        return None
    tops = _raised(roofs, _best_seen(works)) if roofs else _best_seen(works)
    panels = [_panel(together, rows, tops) for together in _by_phase(works)]
    speeds = ", ".join(f"{name} {_short(top)}FLOP/s" for name, top in tops.flop_per_s.items())
    note = (
        f"Roofs, {tops.origin}: {speeds}, {_short(tops.bytes_per_s)}B/s. "
        "Bytes are inputs, parameters and outputs, each once."
    )
    return figure_of(
        "Roofline: FLOP/s over FLOP per byte",
        note,
        panels,
        len(phases_in(work.row for work in works)),
    )


def _works(rows: Sequence[SweepRow]) -> list[_Work]:
    found = []
    for row in measured(rows):
        if row.flops and row.bytes and row.median_s:
            found.append(
                _Work(
                    row=row,
                    intensity=row.flops / row.bytes,
                    speed=row.flops / row.median_s,
                    bandwidth=row.bytes / row.median_s,
                    ends=(
                        row.flops / (row.high_s or row.median_s),
                        row.flops / (row.low_s or row.median_s),
                    ),
                )
            )
    return found


def _by_phase(works: Sequence[_Work]) -> list[list[_Work]]:
    """Those of each subject and phase, in the order of the phases."""
    found: dict[tuple[Subject, Phase], list[_Work]] = {}
    for work in works:
        found.setdefault((subject_of(work.row), work.row.phase), []).append(work)
    return [
        found[subject, phase]
        for subject in subjects_in(work.row for work in works)
        for phase in Phase
        if (subject, phase) in found
    ]


def _best_seen(works: Sequence[_Work]) -> Roofs:
    """No more than a hint at the machine's limit, and so it is called."""
    dtypes = dtypes_in(work.row for work in works)
    return Roofs(
        flop_per_s={
            dtype: max(work.speed for work in works if work.row.dtype == dtype) for dtype in dtypes
        },
        bytes_per_s=max(work.bandwidth for work in works),
        origin="the best seen in this sweep",
    )


def _raised(roofs: Roofs, seen: Roofs) -> Roofs:
    speeds = {
        dtype: max(speed, roofs.flop_per_s.get(dtype, 0.0))
        for dtype, speed in seen.flop_per_s.items()
    }
    width = max(roofs.bytes_per_s, seen.bytes_per_s)
    are_given = width == roofs.bytes_per_s and all(
        roofs.flop_per_s.get(dtype) == speed for dtype, speed in speeds.items()
    )
    more = "" if are_given else f", or {seen.origin} where that is more"
    return Roofs(flop_per_s=speeds, bytes_per_s=width, origin=f"{roofs.origin}{more}")


def _panel(works: Sequence[_Work], every: Sequence[SweepRow], roofs: Roofs) -> Panel:
    dtypes = dtypes_in(work.row for work in works)
    tops = {name: roofs.flop_per_s[name] for name in dtypes}
    ridges = [top / roofs.bytes_per_s for top in tops.values()]
    x = value_axis([*(work.intensity for work in works), *ridges], _plain, is_log=True)
    speeds = [speed for work in works for speed in (work.speed, *work.ends)]
    y = value_axis([*speeds, *tops.values()], prefixed, is_log=True)
    first = works[0].row
    return Panel(
        title=title_of(first, every, first.phase),
        detail="",
        x=x,
        y=y,
        x_name="FLOP per byte",
        series=tuple(_series(works, every)),
        references=tuple(_references(tops, roofs, x, y, dtypes_in(every))),
        is_cloud=True,
    )


def _short(value: float) -> str:
    return prefixed(float(f"{value:.3g}"))


def _plain(value: float) -> str:
    return f"{value:g}"


def _series(works: Sequence[_Work], every: Sequence[SweepRow]) -> list[Series]:
    found = []
    for config, look in looks_of(every).items():
        points = [
            Point(
                x=work.intensity,
                y=work.speed,
                low=work.ends[0],
                high=work.ends[1],
                hint=f"{case_hint(work.row)}; {_short(work.speed)}FLOP/s, "
                f"{_short(work.bandwidth)}B/s",
            )
            for work in works
            if config_of(work.row) == config
        ]
        if points:
            found.append(Series(look=look, pieces=tuple((point,) for point in points)))
    return found


def _references(
    tops: Mapping[str, float], roofs: Roofs, x: Axis, y: Axis, dtypes: Sequence[str]
) -> list[Reference]:
    """For each dtype the slope of the bandwidth up to its speed, then level."""
    found: list[Reference] = []
    named: list[float] = []
    for dtype, top in sorted(tops.items(), key=lambda item: -item[1]):
        ridge = top / roofs.bytes_per_s
        start = max(x.low, y.low / roofs.bytes_per_s)
        has_room = all(abs(y.share(top) - other) > _NAMES_APART for other in named)
        named += [y.share(top)] if has_room else []
        found.append(
            Reference(
                places=((start, start * roofs.bytes_per_s), (ridge, top), (x.high, top)),
                name=dtype if has_room else "",
                dash=dtypes.index(dtype),
            )
        )
    return found

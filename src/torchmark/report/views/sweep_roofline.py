"""The roofline of a sweep: achieved FLOP/s over FLOPs per byte, under what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.analyse.sweep import dtypes_in, measured, subject_of, subjects_in
from torchmark.model.run_settings import TORCH_DTYPES, Phase
from torchmark.report.figures import amount_text
from torchmark.report.views.sweep_axes import log_axis
from torchmark.report.views.sweep_charts import Panel, chart_of, fields_of, title_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.sweep import Subject, SweepRow
    from torchmark.model.run import MachineSpeeds
    from torchmark.report.view import Chart

_MEASURED = "products of matrices and copies in the cache, measured on this machine"
_SEEN = "the best seen in this sweep"
_SPEED_LABEL = "format(datum.value, '~s')"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roofs:
    """What the machine can do at best."""

    flop_per_s: Mapping[str, float]
    """By dtype, as rows name it."""

    bytes_per_s: float
    origin: str
    """Where the figures come from, for people."""


def roofline(rows: Sequence[SweepRow], speeds: MachineSpeeds | None) -> Chart | None:
    """One panel a phase; None where no row has FLOPs and bytes.

    Without speeds the roofs are the best seen; no roof is below that, for the machine has done it.
    """
    works = [row for row in measured(rows) if row.flop_per_s and row.bytes_per_s]
    if not works:
        return None
    roofs = _roofs(works, speeds)
    figures = ", ".join(
        f"{dtype} {amount_text(top)}FLOP/s" for dtype, top in roofs.flop_per_s.items()
    )
    note = (
        f"Roofs, {roofs.origin}: {figures}, {amount_text(roofs.bytes_per_s)}B/s. "
        "Bytes are inputs, parameters and outputs, each once."
    )
    return chart_of(
        "roofline",
        "Achieved FLOP/s over FLOP per byte",
        note,
        f"Achieved FLOP/s over FLOP per byte. {note}",
        rows,
        [_panel(together, rows, roofs) for together in _by_phase(works)],
    )


def _by_phase(works: Sequence[SweepRow]) -> list[list[SweepRow]]:
    """Those of each subject and phase, in the order of the phases."""
    found: dict[tuple[Subject, Phase], list[SweepRow]] = {}
    for row in works:
        found.setdefault((subject_of(row), row.phase), []).append(row)
    return [
        found[subject, phase]
        for subject in subjects_in(works)
        for phase in Phase
        if (subject, phase) in found
    ]


def _roofs(works: Sequence[SweepRow], speeds: MachineSpeeds | None) -> _Roofs:
    """What was measured of the machine, raised to what it did in the sweep."""
    seen = {
        dtype: max(row.flop_per_s or 0.0 for row in works if row.dtype == dtype)
        for dtype in dtypes_in(works)
    }
    width = max(row.bytes_per_s or 0.0 for row in works)
    if speeds is None or not speeds.flops_per_second:
        return _Roofs(flop_per_s=seen, bytes_per_s=width, origin=_SEEN)
    given = {
        dtype: speeds.flops_per_second.get(TORCH_DTYPES.get(dtype, dtype), 0.0) for dtype in seen
    }
    given_width = max(speeds.bytes_per_second.values(), default=0.0)
    are_given = width <= given_width and all(top <= given[dtype] for dtype, top in seen.items())
    return _Roofs(
        flop_per_s={dtype: max(top, given[dtype]) for dtype, top in seen.items()},
        bytes_per_s=max(width, given_width),
        origin=_MEASURED if are_given else f"{_MEASURED}, or {_SEEN} where that is more",
    )


def _panel(works: Sequence[SweepRow], every: Sequence[SweepRow], roofs: _Roofs) -> Panel:
    values = [_value(row) for row in works]
    tops = {dtype: roofs.flop_per_s[dtype] for dtype in dtypes_in(works)}
    ridges = [top / roofs.bytes_per_s for top in tops.values()]
    intensities = [value["intensity"] for value in values] + ridges
    speeds = [value["value"] for value in values] + list(tops.values())
    x, y = log_axis(intensities, "format(datum.value, '~r')"), log_axis(speeds, _SPEED_LABEL)
    return Panel(
        title=title_of(works[0], every, works[0].phase),
        subtitle="",
        x={"field": "intensity", "title": "FLOP per byte", **x},
        y={"title": None, **y},
        values=values,
        has_lines=False,
        references=_roof_layers(tops, roofs, x["scale"]["domain"], y["scale"]["domain"]),
    )


def _value(row: SweepRow) -> dict[str, Any]:
    flops, moved, median = row.flops or 0, row.bytes or 1, row.median_s or 1.0
    return {
        **fields_of(row),
        "rate": f"{amount_text(flops / median)}FLOP/s, {amount_text(moved / median)}B/s",
        "intensity": flops / moved,
        "value": flops / median,
        "low": flops / (row.high_s or median),
        "high": flops / (row.low_s or median),
    }


def _roof_layers(
    tops: Mapping[str, float],
    roofs: _Roofs,
    x_ends: Sequence[float],
    y_ends: Sequence[float],
) -> tuple[dict[str, Any], ...]:
    """For each dtype the slope of the bandwidth up to its speed, then level; with its name."""
    start = max(x_ends[0], y_ends[0] / roofs.bytes_per_s)
    corners = [
        {"roof": dtype, "x": x, "y": y}
        for dtype, top in tops.items()
        for x, y in (
            (start, start * roofs.bytes_per_s),
            (top / roofs.bytes_per_s, top),
            (x_ends[1], top),
        )
    ]
    names = [{"roof": dtype, "x": x_ends[1], "y": top} for dtype, top in tops.items()]
    place = {
        "x": {"field": "x", "type": "quantitative"},
        "y": {"field": "y", "type": "quantitative"},
    }
    return (
        {
            "data": {"values": corners},
            "mark": {"type": "line", "color": "var(--rule)", "strokeWidth": 1.4, "tooltip": None},
            "encoding": {**place, "detail": {"field": "roof"}, "order": {"field": "x"}},
        },
        {
            "data": {"values": names},
            "mark": {"type": "text", "align": "right", "dy": -6, "color": "var(--quiet)"},
            "encoding": {**place, "text": {"field": "roof"}},
        },
    )

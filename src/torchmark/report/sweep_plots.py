"""The pictures of a sweep: medians and speed-ups against each dimension.

A line joins points that differ in one dimension alone: the others are held at one size each, which
the panel names, because a mean over them would be the time of no input at all. What the first
pictures hold is chosen by `torchmark.analyse.sweep.slices`; `more_scaling` has the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.sweep import (
    EAGER,
    Config,
    backends_in,
    config_of,
    dims_in,
    dtypes_in,
    eager_of,
    measured,
    phases_in,
    ratio_to,
    size_of,
    slices,
    subject_of,
    subjects_in,
    varying_dims,
)
from torchmark.report.plot_axis import (
    seconds_label,
    size_axis,
    spans_a_decade,
    value_axis,
)
from torchmark.report.plot_figure import Figure
from torchmark.report.plot_panel import PLOT_WIDTH, Look, Panel, Point, Reference, Series
from torchmark.report.sweep_words import case_hint, dims_text, subject_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.analyse.sweep import Slice
    from torchmark.model.sweep_record import Phase, SweepRow
    from torchmark.report.plot_axis import Axis

    Valued = Callable[[SweepRow], tuple[float, float, float] | None]
    """The value of a row, and from where to where it may be."""

_COLOURS = {EAGER: 0, "compile": 1, "ort": 2}
"""The same in every sweep, whichever of them it has; another backend has the fourth."""

_MOST_SLICES = 5
"""Further choices of the other dimensions that a page shows for each dimension."""


def looks_of(rows: Sequence[SweepRow]) -> dict[Config, Look]:
    """A colour for each backend and a mark for each dtype, the same in all pictures of the rows."""
    backends, dtypes = backends_in(rows), dtypes_in(rows)
    present = {config_of(row) for row in rows}
    configs = [Config(backend, dtype) for backend in backends for dtype in dtypes]
    return {
        config: Look(
            number=number,
            colour=_COLOURS.get(config.backend, len(_COLOURS)),
            shape=dtypes.index(config.dtype),
            name=str(config),
        )
        for number, config in enumerate(each for each in configs if each in present)
    }


def scaling(rows: Sequence[SweepRow]) -> Figure | None:
    """Medians against each dimension; None where nothing was measured over any."""
    cuts = _first_slices(rows)
    held = " Other dimensions are held at the sizes named." if any(c.held for c in cuts) else ""
    note = f"Median of one run, with its 95 % interval.{held}"
    return _Drawn(rows, _time, _times_axis).figure("Time", note, cuts)


def more_scaling(rows: Sequence[SweepRow]) -> Figure | None:
    """The same for other sizes of the dimensions that are held there."""
    others = [
        cut
        for subject_rows in _by_subject(measured(rows))
        for dim in varying_dims(subject_rows)
        for cut in slices(subject_rows, dim)[1 : 1 + _MOST_SLICES]
        if len(cut.sizes) > 1
    ]
    return _Drawn(rows, _time, _times_axis).figure("Time at other sizes", "", others)


def speed_up(rows: Sequence[SweepRow]) -> Figure | None:
    """Every backend over eager; None where no row has eager's beside it."""
    eager = eager_of(rows)

    def valued(row: SweepRow) -> tuple[float, float, float] | None:
        ratio = ratio_to(eager, row)
        return (ratio.value, ratio.low, ratio.high) if ratio else None

    note = (
        f"How many times as fast as {EAGER} with the same dtype, phase and sizes: above 1 is "
        "faster. Intervals take both at their worst ends."
    )
    ratios = _Drawn(rows, valued, _ratios_axis, against=EAGER)
    return ratios.figure(f"Speed-up over {EAGER}", note, _first_slices(rows))


def _by_subject(rows: Sequence[SweepRow]) -> list[list[SweepRow]]:
    return [[row for row in rows if subject_of(row) == subject] for subject in subjects_in(rows)]


def figure_of(title: str, note: str, panels: Sequence[Panel], phases: int) -> Figure | None:
    """None without panels; where there are several phases each has its column."""
    if not panels:
        return None
    shown = {series.look for panel in panels for series in panel.series}
    return Figure(
        title=title,
        note=note,
        columns=phases if phases > 1 else min(3, len(panels)),
        panels=tuple(panels),
        looks=tuple(sorted(shown, key=lambda look: look.number)),
    )


def title_of(row: SweepRow, every: Sequence[SweepRow], phase: Phase) -> str:
    """The phase, and what is measured where rows are of several models or threads."""
    if len(subjects_in(every)) == 1:
        return str(phase.value)
    return f"{phase.value}: {subject_text(subject_of(row))}"


def _first_slices(rows: Sequence[SweepRow]) -> list[Slice]:
    """One for each dimension that varies; if none does, for the first, as a single point."""
    found = []
    for subject_rows in _by_subject(measured(rows)):
        dims = varying_dims(subject_rows) or dims_in(subject_rows)[:1]
        found += [slices(subject_rows, dim)[0] for dim in dims]
    return found


class _Drawn:
    """One kind of value of the rows, drawn slice by slice."""

    def __init__(
        self,
        rows: Sequence[SweepRow],
        valued: Valued,
        axis_of: Callable[[list[float]], Axis],
        against: str = "",
    ) -> None:
        self._rows = rows
        self._valued = valued
        self._axis_of = axis_of
        self._against = against
        self._looks = looks_of(rows)
        self._phases = phases_in(row for row in measured(rows) if valued(row))

    def figure(self, title: str, note: str, cuts: Sequence[Slice]) -> Figure | None:
        panels = [panel for cut in cuts for panel in self._panels(cut)]
        return figure_of(title, note, panels, len(self._phases))

    def _panels(self, cut: Slice) -> list[Panel]:
        """One for each phase, all with the same axes."""
        series = {phase: self._series(cut, phase) for phase in self._phases}
        ends = [
            end
            for several in series.values()
            for each in several
            for piece in each.pieces
            for point in piece
            for end in (point.low, point.y, point.high)
        ]
        if not ends:
            return []
        x, y = size_axis(cut.sizes, PLOT_WIDTH), self._axis_of(ends)
        line = Reference(places=((x.low, 1.0), (x.high, 1.0)), name=self._against)
        return [
            Panel(
                title=title_of(cut.rows[0], self._rows, phase),
                detail=dims_text(cut.held),
                x=x,
                y=y,
                x_name=cut.dim,
                series=tuple(series[phase]),
                references=(line,) if self._against else (),
            )
            for phase in self._phases
        ]

    def _series(self, cut: Slice, phase: Phase) -> list[Series]:
        found = []
        for config, look in self._looks.items():
            placed = {
                size_of(row, cut.dim): row
                for row in cut.rows
                if row.phase is phase and config_of(row) == config
            }
            pieces: list[list[Point]] = [[]]
            for size in cut.sizes:
                row = placed.get(size)
                value = self._valued(row) if row else None
                if row is None or value is None:
                    pieces.append([])  # a line over the gap would claim what nobody measured
                    continue
                middle, low, high = value
                pieces[-1].append(Point(x=size, y=middle, low=low, high=high, hint=case_hint(row)))
            if any(pieces):
                kept = tuple(tuple(piece) for piece in pieces if piece)
                found.append(Series(look=look, pieces=kept))
        return found


def _time(row: SweepRow) -> tuple[float, float, float] | None:
    if not row.median_s:
        return None
    return row.median_s, row.low_s or row.median_s, row.high_s or row.median_s


def _times_axis(ends: list[float]) -> Axis:
    is_log = spans_a_decade(ends)
    return value_axis(ends if is_log else [0.0, *ends], seconds_label, is_log=is_log)


def _ratios_axis(ends: list[float]) -> Axis:
    """Logarithmic always: twice and half as fast are equally far from 1, which is on it."""
    return value_axis([1.0, *ends], lambda ratio: f"{ratio:g}×", is_log=True)

"""The view of a sweep: a line for each point, speed-ups, charts, every case, and the CSV's rows."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import TYPE_CHECKING

from torchmark.analyse.sweep import (
    EAGER,
    RowStatus,
    SweepRow,
    backends_in,
    dtypes_in,
    eager_of,
    kernels_of,
    phases_in,
    ratio_to,
    rows_of,
    speed_ups,
    subject_of,
    subjects_in,
    varying_dims,
)
from torchmark.model.result import Metric
from torchmark.model.run_settings import dims_text
from torchmark.model.units import ordered_unique
from torchmark.report.figures import environment_facts, short_seconds_text
from torchmark.report.view import (
    Cell,
    Column,
    ColumnKind,
    Mark,
    Row,
    Section,
    Table,
    View,
    cells_of,
)
from torchmark.report.views.common import fact_table, lead_of, value_row
from torchmark.report.views.sweep_cases import cases_section
from torchmark.report.views.sweep_charts import more_scaling, scaling, speed_up
from torchmark.report.views.sweep_roofline import roofline
from torchmark.report.views.sweep_words import (
    error_texts,
    fixed_text,
    reason_texts,
    subject_text,
    summary_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torchmark.analyse.sweep import Subject
    from torchmark.model.run import Run
    from torchmark.model.run_settings import Dims, Phase
    from torchmark.report.view import Value

_MOST_POINTS = 60
"""Of a phase and dtype that text shows; the CSV has all, and the charts more than one can read."""

_NOTE = f"Times are medians of one run; × is how many times as fast as {EAGER}, same dtype."

_OWN_SETTINGS = ("dims", "sizes")
"""Settings that say which cases there are, rather than how they were measured."""

KERNEL_COLUMNS = (
    "case_id", "model", "dims", "dtype", "backend", "phase", "kernel", "calls", "seconds",
)  # fmt: skip
"""Calls and seconds are of one run; the seconds of a kernel do not have those that it calls."""


def make_view(run: Run) -> View:
    rows = rows_of(run)
    planned = sum(each.metric is Metric.TIME for each in run.plan)
    models = ordered_unique(each.case.label[0] for each in run.plan)
    settings = {name: value for name, value in run.settings.items() if name not in _OWN_SETTINGS}
    return View(
        title=f"Sweep of {', '.join(models) or 'nothing'} ({run.id})",
        summary=summary_of(rows, planned - len(rows)),
        lead=lead_of(run),
        warnings=reason_texts(rows, RowStatus.MEASURED),
        notes=run.notes,
        sections=(
            *_time_sections(rows),
            *_point_sections(rows),
            *_speed_up_sections(rows),
            *_roofline_sections(rows, run),
            *_reason_sections(rows, RowStatus.FAILED, Mark.BAD),
            *_reason_sections(rows, RowStatus.SKIPPED, Mark.PLAIN),
            *cases_section(rows, run),
        ),
        environments=fact_table(run.environments),
        settings=tuple(environment_facts(settings)),
        data=data_table(rows),
    )


def data_table(rows: Sequence[SweepRow]) -> Table:
    """A column for each field of a row, in its order; a row is one line of CSV."""
    names = [field.name for field in fields(SweepRow)]
    return Table(
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(value_row(_value(row, name) for name in names) for row in rows),
    )


def kernel_table(run: Run) -> Table:
    """Every kernel of every case, those of a case by the time they take."""
    by_id = {row.case_id: row for row in rows_of(run)}
    found = [(by_id[case.id], kernel) for case, kernel in kernels_of(run) if case.id in by_id]
    return Table(
        columns=tuple(Column(name=name) for name in KERNEL_COLUMNS),
        rows=tuple(
            value_row(
                [
                    *(_value(row, name) for name in KERNEL_COLUMNS[:6]),
                    kernel.kernel,
                    kernel.calls,
                    kernel.seconds,
                ]
            )
            for row, kernel in found
        ),
    )


def _value(row: SweepRow, name: str) -> Value:
    if name == "dims":
        return dims_text(row.dims)
    if name in ("phase", "status"):
        return str(getattr(row, name).value)
    value: Value = getattr(row, name)
    return value


def _time_sections(rows: Sequence[SweepRow]) -> list[Section]:
    chart, more = scaling(rows), more_scaling(rows)
    nothing = "Nothing was measured over a dimension, so there is nothing to draw."
    found = [
        Section(
            id="time",
            title="Time",
            charts=(chart,) if chart else (),
            paragraphs=() if chart else (nothing,),
            is_page_only=True,
        )
    ]
    if more:
        found.append(
            Section(
                id="time-more",
                title="Time with other sizes held",
                charts=(more,),
                is_folded=True,
                is_page_only=True,
            )
        )
    return found


def _point_sections(rows: Sequence[SweepRow]) -> list[Section]:
    """For each subject a line for each point, a column for each backend."""
    subjects = subjects_in(rows)
    found = []
    for number, subject in enumerate(subjects, start=1):
        is_last = number == len(subjects)
        found.append(_points_of(subject, rows, number, _point_notes(rows) if is_last else ()))
    return found


def _point_notes(rows: Sequence[SweepRow]) -> tuple[str, ...]:
    eager, errors = eager_of(rows), error_texts(rows)
    has_ratios = any(ratio_to(eager, row) for row in rows)
    return (
        *([_NOTE] if has_ratios else []),
        *([f"Largest difference from {EAGER}: {', '.join(errors)}."] if errors else []),
    )


def _points_of(
    subject: Subject, every: Sequence[SweepRow], number: int, notes: tuple[str, ...]
) -> Section:
    """Groups by phase and dtype, so that the columns of all backends fit a line."""
    rows = [row for row in every if subject_of(row) == subject]
    varying, backends = varying_dims(rows), backends_in(rows)
    columns = [Column(name="point")]
    for backend in backends:
        columns.append(Column(name=backend, kind=ColumnKind.SECONDS))
        if EAGER in backends and backend != EAGER:
            columns.append(Column(name="×", kind=ColumnKind.SPEEDUP))
    lines = [
        line
        for phase, dtype in itertools.product(phases_in(rows), dtypes_in(rows))
        for line in _lines(rows, phase, dtype, backends, varying)
    ]
    left_out = sum(line.is_quiet for line in lines)
    fixed = fixed_text(rows, varying) if varying else ""
    return Section(
        id=f"points-{number}",
        title=": ".join(part for part in (subject_text(subject), fixed) if part),
        table=Table(
            columns=tuple(columns),
            rows=tuple(lines),
            quiet_text=f"… {left_out:,} more points: see the CSV",
        ),
        footnotes=notes,
    )


def _lines(
    rows: Sequence[SweepRow],
    phase: Phase,
    dtype: str,
    backends: Sequence[str],
    varying: Sequence[str],
) -> list[Row]:
    here = [row for row in rows if row.phase is phase and row.dtype == dtype]
    placed = {(row.dims, row.backend): row for row in here}
    eager = eager_of(here)
    points = sorted({row.dims for row in here}, key=_sizes)
    return [
        Row(
            cells=(
                Cell(value=dims_text(dims, varying or None)),
                *_cells(placed, eager, dims, backends),
            ),
            group=f"{phase.value}, {dtype}",
            is_quiet=number >= _MOST_POINTS,
        )
        for number, dims in enumerate(points)
    ]


def _sizes(dims: Dims) -> list[int]:
    """As people read them: rows come in the order that is quickest to measure."""
    return [size for _, size in dims]


def _cells(
    placed: Mapping[tuple[Dims, str], SweepRow],
    eager: Mapping[tuple[object, ...], SweepRow],
    dims: Dims,
    backends: Sequence[str],
) -> list[Cell]:
    cells = []
    for backend in backends:
        row = placed.get((dims, backend))
        cells.append(_time_cell(row))
        if EAGER in backends and backend != EAGER:
            ratio = ratio_to(eager, row) if row else None
            cells.append(Cell(value=ratio.value if ratio else None))
    return cells


def _time_cell(row: SweepRow | None) -> Cell:
    if row is None:
        return Cell(text="–", mark=Mark.QUIET)
    if row.status is RowStatus.MEASURED and row.median_s is not None:
        mark = Mark.DOUBTFUL if row.reason else Mark.PLAIN
        return Cell(
            value=row.median_s, text=short_seconds_text(row.median_s), mark=mark, hint=row.reason
        )
    mark = Mark.BAD if row.status is RowStatus.FAILED else Mark.QUIET
    return Cell(text=row.status.value, mark=mark, hint=row.reason)


def _speed_up_sections(rows: Sequence[SweepRow]) -> list[Section]:
    """One line for each config: the mean over all points, and where it is least and most."""
    found = speed_ups(rows)
    if not found:
        return []
    is_several = len(subjects_in(rows)) > 1
    columns = [
        *([Column(name="model")] if is_several else []),
        Column(name="phase"),
        Column(name="dtype"),
        Column(name="backend"),
        Column(name="mean", kind=ColumnKind.SPEEDUP, hint="The geometric mean over all points."),
        Column(name="least", kind=ColumnKind.SPEEDUP),
        Column(name="least at", is_wide_only=True),
        Column(name="most", kind=ColumnKind.SPEEDUP),
        Column(name="most at", is_wide_only=True),
        Column(name="points", kind=ColumnKind.INTEGER),
    ]
    lines = [
        Row(
            cells=cells_of(
                [
                    *([subject_text(each.subject)] if is_several else []),
                    each.phase.value,
                    each.config.dtype,
                    each.config.backend,
                    each.mean,
                    each.least,
                    dims_text(each.least_at),
                    each.most,
                    dims_text(each.most_at),
                    each.points,
                ]
            )
        )
        for each in found
    ]
    chart = speed_up(rows)
    return [
        Section(
            id="speedups",
            title=f"Speed-up over {EAGER}",
            charts=(chart,) if chart else (),
            table=Table(columns=tuple(columns), rows=tuple(lines)),
            footnotes=("Over all sizes that both have; the mean is the geometric one.",),
        )
    ]


def _roofline_sections(rows: Sequence[SweepRow], run: Run) -> list[Section]:
    chart = roofline(rows, run.speeds)
    if chart is None:
        return []
    return [Section(id="roofline", title="Roofline", charts=(chart,), is_page_only=True)]


def _reason_sections(rows: Sequence[SweepRow], status: RowStatus, mark: Mark) -> list[Section]:
    texts = reason_texts(rows, status)
    if not texts:
        return []
    name = status.value
    return [Section(id=name, title=name.capitalize(), listing=texts, mark=mark)]

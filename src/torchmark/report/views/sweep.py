"""The view of a sweep: a line for each point, speed-ups, charts, all cases, and the CSV."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import NamedTuple

import msgspec

from torchmark.analyse.sweep import (
    EAGER,
    RowStatus,
    SpeedUp,
    SweepRow,
    backends_in,
    dims_in,
    dtypes_in,
    kernels_of,
    measured,
    phases_in,
    rows_of,
    speed_ups,
    split_by_model,
    varying_dims,
)
from torchmark.model.result import KernelCalls, Metric
from torchmark.model.run import Run
from torchmark.model.run_settings import dims_text
from torchmark.model.units import collect, first_line, ordered_unique
from torchmark.report.figures import number_text, short_seconds_text
from torchmark.report.names import name_some
from torchmark.report.view import (
    Cell,
    Column,
    Detail,
    Field,
    Kind,
    Mark,
    Row,
    Section,
    Table,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views.common import (
    fact_table,
    lead_of,
    results_in_order,
    setting_facts,
    unknown_reach_text,
    warning_texts,
)
from torchmark.report.views.sweep_charts import (
    more_scaling,
    ratios_in,
    roofline,
    scaling,
    speed_up,
    title_of_model,
)

_MOST_POINTS = 60
"""Maximum points of a phase and dtype in text; the CSV and the page have all."""

_MOST_NAMES = 3
"""Number of configs or phases that are named with a reason; more are counted."""

_NOTE = f"Times are medians of one run; × is the speed-up over {EAGER} in the same dtype."

_NOTHING = "No case with a dimension was measured, so there is nothing to draw."

_OWN_SETTINGS = ("dims", "sizes")
"""Settings that define the cases, and do not affect how they are measured."""

COLUMNS = tuple(each.name for each in fields(SweepRow))
"""Columns of the CSV, before those of the dimensions. The order is stable; new ones come last."""

KERNEL_COLUMNS = (
    "case_id", "model", "dims", "dtype", "backend", "phase", "kernel", "calls", "seconds",
)  # fmt: skip
"""Calls and seconds are for one run; the seconds of a kernel exclude the kernels that it calls."""


def make_view(run: Run) -> View:
    rows = rows_of(run)
    ratios = {case_id: ratio.value for case_id, ratio in ratios_in(rows).items()}
    planned = sum(each.metric is Metric.TIME for each in run.plan)
    models = ordered_unique(each.case.label[0] for each in run.plan)
    settings = {name: value for name, value in run.settings.items() if name not in _OWN_SETTINGS}
    names = {row.case_id: _cases_text([row]) for row in rows}
    chart = scaling(rows)
    failed = _reason_texts(rows, RowStatus.FAILED)
    skipped = _reason_texts(rows, RowStatus.SKIPPED)
    return View(
        title=f"Sweep of {', '.join(models) or 'nothing'} ({run.id})",
        summary=_summarise(rows, planned - len(rows)),
        lead=lead_of(run),
        warnings=(
            *_reason_texts(rows, RowStatus.MEASURED),
            *warning_texts(results_in_order(run), lambda each: names.get(each.case.id, "")),
        ),
        notes=run.notes,
        sections=(
            Section(
                "time",
                "Time",
                paragraphs=() if chart else (_NOTHING,),
                chart=chart,
                is_page_only=True,
            ),
            Section(
                "time-more",
                "Time at other sizes",
                chart=more_scaling(rows),
                is_folded=True,
                is_page_only=True,
            ),
            *_point_sections(rows, ratios),
            _speed_up_section(rows),
            Section("roofline", "Roofline", chart=roofline(rows, run.speeds), is_page_only=True),
            Section("failed", "Failed", listing=failed, mark=Mark.BAD),
            Section("skipped", "Skipped", listing=skipped),
            _case_section(rows, run, ratios),
        ),
        environments=fact_table(run.environments),
        settings=setting_facts(settings),
        data=case_table(rows, run.settings.get("dims", ())),
    )


def case_table(rows: Sequence[SweepRow], dims: Iterable[str]) -> Table:
    """The CSV: a column for each field of a row, then one for each dimension."""
    own = dim_columns(dims)
    values = ({**_values(row), **{own[dim]: size for dim, size in row.dims}} for row in rows)
    return data_table([*COLUMNS, *own.values()], values)


def dim_columns(dims: Iterable[str]) -> dict[str, str]:
    """The column of each dimension: its name, with the prefix `dim_` if that name is taken.

    >>> dim_columns(["batch", "samples"])
    {'batch': 'batch', 'samples': 'dim_samples'}
    """
    taken, found = set(COLUMNS), {}
    for dim in dims:
        name = dim
        while name in taken:
            name = f"dim_{name}"
        taken.add(name)
        found[dim] = name
    return found


def kernel_table(run: Run) -> Table:
    """All kernels of all cases; the kernels of a case are sorted by their time."""
    by_id = {row.case_id: row for row in rows_of(run)}
    found = (
        {**_values(by_id[case.id]), **msgspec.structs.asdict(kernel)}
        for case, kernel in kernels_of(run)
        if case.id in by_id
    )
    return data_table(KERNEL_COLUMNS, found)


def _values(row: SweepRow) -> dict[str, Value]:
    plain = {each.name: getattr(row, each.name) for each in fields(row)}
    words = {"dims": dims_text(row.dims), "phase": row.phase.value, "status": row.status.value}
    return {**plain, **words}


class _Point(NamedTuple):
    """The rows of all backends at one point."""

    number: int
    """Its index among the points of its phase and dtype, sorted by size."""

    rows: Mapping[str, SweepRow]
    """Rows by backend."""

    @property
    def first(self) -> SweepRow:
        return next(iter(self.rows.values()))


def _points_in(rows: Sequence[SweepRow]) -> list[_Point]:
    """The points by phase and dtype, so that the columns of all backends fit in a line."""
    found = []
    for phase, dtype in itertools.product(phases_in(rows), dtypes_in(rows)):
        here = collect(
            (row.place, row) for row in rows if row.phase is phase and row.dtype == dtype
        )
        for number, at in enumerate(sorted(here, key=lambda place: [size for _, size in place])):
            found.append(_Point(number, {row.backend: row for row in here[at]}))
    return found


def _point_sections(rows: Sequence[SweepRow], ratios: Mapping[str, float]) -> list[Section]:
    """A section for each model: a line for each point, a column for each backend."""
    errors, models, found = _error_texts(rows), split_by_model(rows), []
    prepared = _prepared_texts(rows)
    notes = [
        _NOTE if ratios else "",
        f"Largest difference from {EAGER}: {', '.join(errors)}." if errors else "",
        f"Preparing a point took: {', '.join(prepared)}." if prepared else "",
    ]
    for number, of_model in enumerate(models.values(), start=1):
        varying = varying_dims(of_model)
        sizes = {name: size for row in of_model for name, size in row.dims if name not in varying}
        fixed = dims_text(tuple(sizes.items())) if varying else ""
        found.append(
            Section(
                f"points-{number}",
                ": ".join(filter(None, [title_of_model(of_model), fixed])),
                table=_point_table(of_model, varying, ratios),
                footnotes=tuple(filter(None, notes)) if number == len(models) else (),
            )
        )
    return found


def _prepared_texts(rows: Iterable[SweepRow]) -> list[str]:
    """The shortest and the longest time to compile or export, by backend."""
    found = collect(
        (row.backend, row.prepare_s) for row in measured(rows) if row.prepare_s is not None
    )
    return [
        f"{backend} " + " to ".join(ordered_unique(map(short_seconds_text, (min(took), max(took)))))
        for backend, took in found.items()
    ]


def _point_table(
    rows: Sequence[SweepRow], varying: Sequence[str], ratios: Mapping[str, float]
) -> Table:
    def show_time(backend: str, point: _Point) -> Cell:
        return _time_cell(point.rows.get(backend))

    def show_ratio(backend: str, point: _Point) -> Value:
        return ratios.get(point.rows[backend].case_id) if backend in point.rows else None

    points, backends = _points_in(rows), backends_in(rows)
    columns: list[Field[_Point]] = [field("point", lambda point: _point_text(point.first, varying))]
    for backend in backends:
        columns.append(field(backend, partial(show_time, backend), Kind.SECONDS))
        if EAGER in backends and backend != EAGER:
            columns.append(field("×", partial(show_ratio, backend), Kind.SPEEDUP))
    left_out = sum(point.number >= _MOST_POINTS for point in points)
    return make_table(
        points,
        columns,
        lambda point: Row(
            group=f"{point.first.phase.value}, {point.first.dtype}",
            is_quiet=point.number >= _MOST_POINTS,
        ),
        quiet_text=f"… {left_out:,} more points: see the CSV",
    )


def _point_text(row: SweepRow, varying: Sequence[str]) -> str:
    return dims_text(row.place, varying) if varying else dims_text(row.dims)


def _time_cell(row: SweepRow | None) -> Cell:
    if row is None:
        return Cell(text="–", mark=Mark.QUIET)
    if row.median_s is None:
        return Cell(text=row.status.value, mark=_mark_of(row), hint=row.reason)
    text = short_seconds_text(row.median_s)
    return Cell(row.median_s, text, mark=_mark_of(row), hint=_warning_text(row))


def _warning_text(row: SweepRow) -> str:
    return "; ".join(filter(None, (row.reason, row.warnings)))


def _mark_of(row: SweepRow) -> Mark:
    measured = Mark.DOUBTFUL if _warning_text(row) else Mark.PLAIN
    marks = {
        RowStatus.MEASURED: measured,
        RowStatus.FAILED: Mark.BAD,
        RowStatus.SKIPPED: Mark.QUIET,
    }
    return marks[row.status]


def _speed_up_section(rows: Sequence[SweepRow]) -> Section:
    """A line for each config: the mean over all points, the least and the most."""
    found = speed_ups(rows)
    hint = "The geometric mean over all points."
    model: Field[SpeedUp] = field("model", lambda each: each.model)
    columns: list[Field[SpeedUp]] = [
        *([model] if len(split_by_model(rows)) > 1 else []),
        field("phase", lambda each: each.phase.value),
        field("dtype", lambda each: each.config.dtype),
        field("backend", lambda each: each.config.backend),
        field("mean", lambda each: each.mean, Kind.SPEEDUP, hint),
        field("least", lambda each: each.least[0], Kind.SPEEDUP),
        field("least at", lambda each: each.least[1], is_wide_only=True),
        field("most", lambda each: each.most[0], Kind.SPEEDUP),
        field("most at", lambda each: each.most[1], is_wide_only=True),
        field("points", lambda each: each.points, Kind.INTEGER),
    ]
    return Section(
        "speedups",
        f"Speed-up over {EAGER}",
        chart=speed_up(rows),
        table=make_table(found, columns) if found else None,
        footnotes=("Over all points that both have; mean is the geometric mean.",),
    )


def _case_section(rows: Sequence[SweepRow], run: Run, ratios: Mapping[str, float]) -> Section:
    """The table of all cases for pages: parameters, figures and kernels."""
    kernels = collect((case.id, kernel) for case, kernel in kernels_of(run))
    has_models = len({row.model for row in rows}) > 1
    has_threads = len({row.threads for row in rows}) > 1
    model: Field[SweepRow] = field("model", lambda row: row.model)
    threads: Field[SweepRow] = field("threads", lambda row: row.threads, Kind.INTEGER)
    columns: list[Field[SweepRow]] = [
        *([model] if has_models else []),
        *(field(dim, partial(_size, dim), Kind.INTEGER) for dim in dims_in(rows)),
        field("dtype", lambda row: row.dtype),
        field("backend", lambda row: row.backend),
        field("phase", lambda row: row.phase.value),
        *([threads] if has_threads else []),
        (_MEDIAN, _median_cell),
        (_SPEEDUP, lambda row: ratios.get(row.case_id)),
        *((column, partial(_figure, name)) for name, column in _FIGURES.items()),
        field("samples", lambda row: row.samples or None, Kind.INTEGER),
        field("warnings", lambda row: row.warnings or None),
    ]
    table = make_table(
        rows, columns, lambda row: Row(details=_kernel_details(kernels.get(row.case_id, ())))
    )
    return Section("cases", "Cases", table=table if rows else None, is_page_only=True)


_MEDIAN = Column("median", Kind.SECONDS, "Median of one run, with its 95 % interval.")
_SPEEDUP = Column(f"× {EAGER}", Kind.SPEEDUP, "Speed-up over eager.")
_FIGURES = {
    "min_s": Column("min", Kind.SECONDS),
    "p95_s": Column("p95", Kind.SECONDS, "95 % of the samples are faster."),
    "flop_per_s": Column("FLOP/s", Kind.RATE),
    "bytes_per_s": Column("B/s", Kind.RATE, "Inputs, parameters and outputs, each counted once."),
    "peak_memory_bytes": Column("peak bytes", Kind.BYTES, "Peak memory that torch allocated."),
    "max_error": Column("max error", Kind.NUMBER, "The largest difference from eager."),
    "prepare_s": Column("prepare", Kind.SECONDS, "Time to compile or export."),
}
"""Columns for fields of a row; they are empty if the case was not measured."""


def _size(dim: str, row: SweepRow) -> Value:
    return dict(row.dims).get(dim)


def _figure(name: str, row: SweepRow) -> Value:
    return getattr(row, name) if row.status is RowStatus.MEASURED else None


def _median_cell(row: SweepRow) -> Cell:
    if row.status is not RowStatus.MEASURED:
        text = ": ".join(filter(None, (row.status.value, row.reason)))
        return Cell(text=text, mark=_mark_of(row), hint=row.reason)
    interval = None if row.low_s is None or row.high_s is None else (row.low_s, row.high_s)
    few = None if interval or row.median_s is None else unknown_reach_text(row.median_s)
    return Cell(row.median_s, few, interval, mark=_mark_of(row), hint=_warning_text(row))


_KERNEL_FIELDS: tuple[Field[KernelCalls], ...] = (
    field("kernel", lambda each: each.kernel, Kind.CODE),
    field("calls", lambda each: each.calls, Kind.NUMBER),
    field("time", lambda each: each.seconds, Kind.SECONDS),
)


def _kernel_details(kernels: Sequence[KernelCalls]) -> tuple[Detail, ...]:
    if not kernels:
        return ()
    table = make_table(kernels, _KERNEL_FIELDS)
    return (Detail(title="Kernels of one run", table=table, is_page_only=True),)


def _summarise(rows: Sequence[SweepRow], missing: int) -> str:
    """The number of cases by status."""
    counts = [(sum(row.status is status for row in rows), status.value) for status in RowStatus]
    told = [f"{count:,} {word}" for count, word in [*counts, (missing, "not measured")] if count]
    return (
        f"{number_text(len(rows) + missing, 'case')}: {', '.join(told)}." if told else "No cases."
    )


def _reason_texts(rows: Iterable[SweepRow], status: RowStatus) -> tuple[str, ...]:
    """A line for each reason with its cases; for measured rows, reasons why they are doubtful."""
    found = collect(
        (first_line(row.reason) or "no reason was given", row)
        for row in rows
        if row.status is status and (row.reason or status is not RowStatus.MEASURED)
    )
    return tuple(f"{_cases_text(members)}: {reason}" for reason, members in found.items())


def _cases_text(rows: Sequence[SweepRow]) -> str:
    configs = name_some(ordered_unique(str(row.config) for row in rows), _MOST_NAMES)
    phases = name_some(ordered_unique(row.phase.value for row in rows), _MOST_NAMES)
    if len(rows) == 1:
        return " ".join(filter(None, (configs, phases, rows[0].sizes_text)))
    return f"{len(rows)} cases ({configs}; {phases})"


def _error_texts(rows: Iterable[SweepRow]) -> list[str]:
    """The largest difference from eager for each other config."""
    errors = collect(
        (str(row.config), row.max_error)
        for row in measured(rows)
        if row.max_error is not None and row.backend != EAGER
    )
    return [f"{name} {max(found):.2g}" for name, found in errors.items()]

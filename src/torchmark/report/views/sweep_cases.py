"""Every case of a sweep as a table for pages: what defines it, its figures, its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.sweep import (
    EAGER,
    RowStatus,
    dims_in,
    eager_of,
    kernels_of,
    ratio_to,
    subjects_in,
)
from torchmark.report.figures import first_line
from torchmark.report.view import (
    Cell,
    Column,
    ColumnKind,
    Detail,
    Mark,
    Row,
    Section,
    Table,
    cells_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.sweep import SweepRow
    from torchmark.model.result import KernelCalls
    from torchmark.model.run import Run

_FIGURES = (
    Column(name="median", kind=ColumnKind.SECONDS, hint="Of one run, with its 95 % interval."),
    Column(name=f"× {EAGER}", kind=ColumnKind.SPEEDUP, hint="How many times as fast as eager."),
    Column(name="min", kind=ColumnKind.SECONDS),
    Column(name="p95", kind=ColumnKind.SECONDS, hint="95 % of the samples are faster."),
    Column(name="FLOP/s", kind=ColumnKind.RATE),
    Column(name="B/s", kind=ColumnKind.RATE, hint="Inputs, parameters and outputs, each once."),
    Column(name="peak bytes", kind=ColumnKind.BYTES, hint="What torch had allocated at most."),
    Column(name="max error", kind=ColumnKind.NUMBER, hint="The largest difference from eager."),
    Column(name="prepare", kind=ColumnKind.SECONDS, hint="Compiling or exporting."),
    Column(name="samples", kind=ColumnKind.INTEGER),
)

_KERNEL_COLUMNS = (
    Column(name="kernel", kind=ColumnKind.CODE),
    Column(name="calls", kind=ColumnKind.NUMBER),
    Column(name="time", kind=ColumnKind.SECONDS),
)


def cases_section(rows: Sequence[SweepRow], run: Run) -> list[Section]:
    """One section, or none where there are no rows."""
    if not rows:
        return []
    kernels: dict[str, list[KernelCalls]] = {}
    for case, kernel in kernels_of(run):
        kernels.setdefault(case.id, []).append(kernel)
    subjects = subjects_in(rows)
    has_models = len({subject.model for subject in subjects}) > 1
    has_threads = len({subject.threads for subject in subjects}) > 1
    dims, eager = dims_in(rows), eager_of(rows)
    columns = (
        *([Column(name="model")] if has_models else []),
        *(Column(name=dim, kind=ColumnKind.INTEGER) for dim in dims),
        Column(name="dtype"),
        Column(name="backend"),
        Column(name="phase"),
        *([Column(name="threads", kind=ColumnKind.INTEGER)] if has_threads else []),
        *_FIGURES,
    )
    lines = []
    for row in rows:
        ratio = ratio_to(eager, row)
        sizes = dict(row.dims)
        defining = cells_of(
            [
                *([row.model] if has_models else []),
                *(sizes.get(dim) for dim in dims),
                row.dtype,
                row.backend,
                row.phase.value,
                *([row.threads] if has_threads else []),
            ]
        )
        figures = _figures(row, ratio.value if ratio else None)
        details = _kernel_details(kernels.get(row.case_id, ()))
        lines.append(Row(cells=(*defining, *figures), details=details))
    table = Table(columns=columns, rows=tuple(lines))
    return [Section(id="cases", title="Cases", table=table, is_page_only=True)]


def _figures(row: SweepRow, ratio: float | None) -> tuple[Cell, ...]:
    if row.status is not RowStatus.MEASURED:
        reason = first_line(row.reason)
        text = f"{row.status.value}: {reason}" if reason else row.status.value
        mark = Mark.BAD if row.status is RowStatus.FAILED else Mark.QUIET
        return (Cell(text=text, mark=mark, hint=row.reason), *cells_of([None] * 9))
    has_interval = row.low_s is not None and row.high_s is not None
    median = Cell(
        value=row.median_s,
        interval=(row.low_s or 0.0, row.high_s or 0.0) if has_interval else None,
        mark=Mark.DOUBTFUL if row.reason else Mark.PLAIN,
        hint=row.reason,
    )
    others = cells_of(
        [
            ratio,
            row.min_s,
            row.p95_s,
            row.flop_per_s,
            row.bytes_per_s,
            row.peak_memory_bytes,
            row.max_error,
            row.prepare_s,
            row.samples or None,
        ]
    )
    return (median, *others)


def _kernel_details(kernels: Sequence[KernelCalls]) -> tuple[Detail, ...]:
    if not kernels:
        return ()
    rows = (Row(cells=cells_of([each.kernel, each.calls, each.seconds])) for each in kernels)
    table = Table(columns=_KERNEL_COLUMNS, rows=tuple(rows))
    return (Detail(title="Kernels of one run", table=table, is_page_only=True),)

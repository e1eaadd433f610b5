"""Which run a sweep belongs to, and its CSV files: renderings of the run.

The path of the CSV names the run. It goes on if it wants the same cases, and nothing else that is
not done. Otherwise a new run begins with the rows that the file has, so that one file may hold
several choices of sizes.

The store has every row, so a file is only read to see whether it holds rows that nobody else has:
those of another machine or another store, or of another model. Such a file is left as it is.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from torchmark.analyse.sweep import RowStatus, rows_of
from torchmark.commands.spine import begin_run
from torchmark.define.sweep.points import SweepCase
from torchmark.define.sweep.spec import SweepSpec
from torchmark.engine.files import check_free
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.files import write_whole
from torchmark.model.result import Metric, PlannedResult, Status
from torchmark.model.run import TIME_LIMIT, Effort, Environment, Run, RunKind
from torchmark.model.run_settings import dims_text, point_of, sizes_setting
from torchmark.report.formats.data import render_csv
from torchmark.report.views.sweep import COLUMNS, case_table, dim_columns, kernel_table
from torchmark.store import Store

_OLDER_COLUMNS = COLUMNS[: COLUMNS.index("warnings")]
"""All that files of earlier versions have: no warnings, and no column for each dimension."""

_REMEDY = "name another --csv, or remove it to measure anew"


def find_or_begin(
    store: Store,
    spec: SweepSpec,
    cases: Sequence[SweepCase],
    here: Environment,
    file: Path | None,
    *,
    kernels: bool,
    timeout: float | None,
    options: Mapping[str, Any],
    tags: Sequence[str],
) -> Run:
    """The run of this sweep; an error if the file has rows that would be lost.

    A run that goes on keeps its time limit unless another is given.
    """
    metrics = (Metric.TIME, Metric.PROFILE) if kernels else (Metric.TIME,)
    wanted = [PlannedResult(case=case, metric=metric) for metric in metrics for case, _ in cases]
    settings = {
        **options,
        "spec": None if spec.file is None else str(spec.file.resolve()),
        "csv": None if file is None else str(file.resolve()),
    }
    known = _run_of_file(store, here, settings["csv"])
    in_file = check_file(file, known, cases, here.id) if file is not None else frozenset()
    if known is not None and _goes_on(known, wanted, settings["spec"]):
        for tag in tags:
            store.tag(known.id, tag)
        if timeout is not None:
            effort = {**known.settings["effort"], "timeout": timeout}
            store.update(replace(known, settings={**known.settings, "effort": effort}))
        return store.run(known.id)
    done = [] if known is None else [
        each
        for each in known.results
        if each.status is Status.DONE and each.case.id in in_file
    ]  # fmt: skip
    there = {each.key for each in done}
    points = [(each.case, point_of(each.case, known.settings)) for each in done if known]
    return begin_run(
        store,
        RunKind.SWEEP,
        [
            *(PlannedResult(case=each.case, metric=each.metric) for each in done),
            *(each for each in wanted if each.key not in there),
        ],
        environments=[here],
        settings={**settings, **sizes_setting([*points, *cases])},
        effort=Effort(timeout=TIME_LIMIT if timeout is None else timeout),
        tags=tags,
        results=done,
    )


def _run_of_file(store: Store, here: Environment, file: str | None) -> Run | None:
    """The latest sweep that was written there in this environment."""
    for summary in reversed(store.runs()):
        is_here = any(each.id == here.id for each in summary.environments)
        if file is None or summary.kind is not RunKind.SWEEP or not is_here:
            continue
        run = store.run(summary.id)
        if run.settings.get("csv") == file:
            check_free(run.id)
            return run
    return None


def _goes_on(run: Run, wanted: Sequence[PlannedResult], spec: str | None) -> bool:
    """Whether all that is wanted is planned there, and all else that is planned is done."""
    keys = {each.key for each in wanted}
    done = {each.key for each in run.results if each.status is Status.DONE}
    planned = {each.key for each in run.plan}
    return run.settings.get("spec", "") == spec and keys <= planned and planned - keys <= done


def kernels_file(file: Path) -> Path:
    """Where the kernels of a sweep stand: beside its rows."""
    return file.with_name(f"{file.name.removesuffix('.csv')}.kernels.csv")


def write_files(run: Run, file: Path) -> None:
    """Write the rows of the run, and its kernels where they were asked for."""
    contents = {file: render_csv(case_table(rows_of(run), run.settings["dims"]))}
    if any(each.metric is Metric.PROFILE for each in run.plan):
        contents[kernels_file(file)] = render_csv(kernel_table(run))
    for path, text in contents.items():
        try:
            write_whole(path, text.encode())
        except OSError as error:
            raise OutputFileError(
                f"{path} cannot be written: {error.strerror}; the store has all rows, and the "
                "same command writes them again"
            ) from error


def check_file(
    file: Path, known: Run | None, cases: Sequence[SweepCase], environment: str
) -> frozenset[str]:
    """The ids of the cases whose rows the file has; an error if it has rows that `known` lacks.

    `known` is the run whose rows the file should hold. Rows without a measurement, and the end of a
    line that was cut short, are no loss.
    """
    rows = [row for row in _rows_in(file) if row["status"] == RowStatus.MEASURED.value]
    medians = {row.case_id: repr(row.median_s) for row in rows_of(known)} if known else {}
    model = cases[0].case.label[0]
    names = {name for name, _ in cases[0].point.dims}
    ids = {_place_of(each): each.case.id for each in cases}
    for row in rows:
        if row["model"] != model or set(_dims_in(row)) != names:
            raise InvalidArgumentError(
                f"{file} has rows of {row['model']} over {', '.join(sorted(_dims_in(row)))}, and "
                f"this is {model} over {', '.join(sorted(names))}; name another --csv"
            )
        if ids.get(_place_in(row), row["case_id"]) != row["case_id"]:
            raise InvalidArgumentError(
                f"{file} has rows of another {model}: its code or its inputs have changed since; "
                f"{_REMEDY}"
            )
        if row["environment"] != environment:
            raise InvalidArgumentError(
                f"{file} was measured in another environment ({row['environment']}, and this is "
                f"{environment}): another torch, Python or processor; name another --csv"
            )
        if medians.get(row["case_id"]) != row["median_s"]:
            raise InvalidArgumentError(
                f"{file} has rows that the store does not have: they come from another store or "
                f"were changed; name that store with --store, {_REMEDY}"
            )
    return frozenset(row["case_id"] for row in rows)


def _rows_in(file: Path) -> list[dict[str, str]]:
    """The lines of a file by column; none if there is no file, or it ends within its heading."""
    if not file.exists():
        return []
    if not file.is_file():
        raise InvalidArgumentError(
            f"{file} is no ordinary file: rows are kept in it while they come; name another --csv"
        )
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{file} is no CSV of a sweep: {error}; {_REMEDY}") from error
    if "\n" not in text and _is_beginning(text):
        return []
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    heading, *rows = csv.reader(lines) if lines else [[]]
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(heading):
            raise InvalidArgumentError(
                f"{file}, line {number} is no row: it has {len(cells)} cells in place of "
                f"{len(heading)}; {_REMEDY}"
            )
    found = [dict(zip(heading, cells, strict=True)) for cells in rows]
    if not _is_heading(heading, found):
        raise InvalidArgumentError(
            f"{file} is there and has other columns than a sweep; name another --csv, or remove it"
        )
    return found


def _is_beginning(text: str) -> bool:
    """Whether it may be all that there is of a heading."""
    start = ",".join(_OLDER_COLUMNS)
    return start.startswith(text) or text.startswith(start)


def _is_heading(names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> bool:
    """Whether these are the columns of a sweep over the dimensions of its rows."""
    if "dims" not in names:
        return False
    dims = _dims_in(rows[0]) if rows else []
    return tuple(names) in (_OLDER_COLUMNS, (*COLUMNS, *dim_columns(dims).values())) or (
        not rows and tuple(names[: len(COLUMNS)]) == COLUMNS
    )


def _dims_in(row: Mapping[str, str]) -> list[str]:
    return [pair.partition("=")[0] for pair in row["dims"].split()]


def _place_in(row: Mapping[str, str]) -> tuple[str, ...]:
    sizes = " ".join(sorted(row["dims"].split()))
    return sizes, row["dtype"], row["backend"], row["phase"], row["threads"]


def _place_of(each: SweepCase) -> tuple[str, ...]:
    point = each.point
    sizes = dims_text(tuple(sorted(point.dims)))
    return sizes, point.dtype, point.backend, point.phase.value, str(point.threads)

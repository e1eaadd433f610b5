"""Find the run that a sweep continues, and write the CSV files from a run.

The path of the CSV file identifies the run. The run continues if the sweep wants the same cases,
and all other results in the plan of the run are done. Otherwise a new run starts with the rows of
the file, so one file can hold several choices of sizes.

The store has every row. The file is read only to find rows that the store does not have: of another
machine, another store or another model. Such a file is not overwritten.
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
"""The columns of files of earlier versions: no warnings, and no column for each dimension."""

_REMEDY = "use another --csv, or remove the file to measure again"


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
    """The run of this sweep. Raise if the file has rows that would be lost.

    A run that continues keeps its time limit unless `timeout` is given.
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
    """The latest sweep in this environment that was written to this file."""
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
    """Whether all wanted results are in the plan, and all other planned results are done."""
    keys = {each.key for each in wanted}
    done = {each.key for each in run.results if each.status is Status.DONE}
    planned = {each.key for each in run.plan}
    return run.settings.get("spec", "") == spec and keys <= planned and planned - keys <= done


def kernels_file(file: Path) -> Path:
    """The file for the kernels of a sweep, next to its rows."""
    return file.with_name(f"{file.name.removesuffix('.csv')}.kernels.csv")


def write_files(run: Run, file: Path) -> None:
    """Write the rows of the run, and the kernels if the run measures them."""
    contents = {file: render_csv(case_table(rows_of(run), run.settings["dims"]))}
    if any(each.metric is Metric.PROFILE for each in run.plan):
        contents[kernels_file(file)] = render_csv(kernel_table(run))
    for path, text in contents.items():
        try:
            write_whole(path, text.encode())
        except OSError as error:
            raise OutputFileError(
                f"{path} cannot be written: {error.strerror}; the store has all rows, and running "
                "the same command writes them again"
            ) from error


def check_file(
    file: Path, known: Run | None, cases: Sequence[SweepCase], environment: str
) -> frozenset[str]:
    """The ids of the cases whose rows the file has. Raise if it has rows that `known` lacks.

    `known` is the run whose rows the file should hold. Rows without a measurement and an incomplete
    last line may be lost.
    """
    rows = [row for row in _rows_in(file) if row["status"] == RowStatus.MEASURED.value]
    medians = {row.case_id: repr(row.median_s) for row in rows_of(known)} if known else {}
    model = cases[0].case.label[0]
    names = {name for name, _ in cases[0].point.dims}
    ids = {_place_of(each): each.case.id for each in cases}
    for row in rows:
        if row["model"] != model or set(_dims_in(row)) != names:
            raise InvalidArgumentError(
                f"{file} has rows of {row['model']} over {', '.join(sorted(_dims_in(row)))}, but "
                f"this is {model} over {', '.join(sorted(names))}; use another --csv"
            )
        if ids.get(_place_in(row), row["case_id"]) != row["case_id"]:
            raise InvalidArgumentError(
                f"{file} has rows of another {model}, whose code or inputs have changed since; "
                f"{_REMEDY}"
            )
        if row["environment"] != environment:
            raise InvalidArgumentError(
                f"{file} was measured in another environment ({row['environment']}, but this is "
                f"{environment}): another torch, Python or processor; use another --csv"
            )
        if medians.get(row["case_id"]) != row["median_s"]:
            raise InvalidArgumentError(
                f"{file} has rows that the store does not have: they come from another store or "
                f"were changed; name that store with --store, or {_REMEDY}"
            )
    return frozenset(row["case_id"] for row in rows)


def _rows_in(file: Path) -> list[dict[str, str]]:
    """The rows of a file by column; none if the file is missing or ends within its heading."""
    if not file.exists():
        return []
    if not file.is_file():
        raise InvalidArgumentError(
            f"{file} is not a regular file, so rows cannot be kept in it; use another --csv"
        )
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"{file} is not the CSV file of a sweep: {error}; {_REMEDY}"
        ) from error
    if "\n" not in text and _is_beginning(text):
        return []
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    heading, *rows = csv.reader(lines) if lines else [[]]
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(heading):
            raise InvalidArgumentError(
                f"{file}, line {number} is not a row: it has {len(cells)} cells instead of "
                f"{len(heading)}; {_REMEDY}"
            )
    found = [dict(zip(heading, cells, strict=True)) for cells in rows]
    if not _is_heading(heading, found):
        raise InvalidArgumentError(
            f"{file} has other columns than a sweep; use another --csv, or remove the file"
        )
    return found


def _is_beginning(text: str) -> bool:
    """Whether the text may be the beginning of a heading that was cut off."""
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

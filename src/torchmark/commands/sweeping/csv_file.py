"""The CSV of a sweep on the disk: rows are appended as they come, and a second call goes on.

What is there stays there, but for the end of a line that was cut short and for rows without a
measurement: those are tried again, for their cause may be gone.
"""

from __future__ import annotations

import csv
import fcntl
import os
from typing import TYPE_CHECKING

from torchmark.engine.files import write_whole
from torchmark.engine.reservations import take_lock
from torchmark.errors import InvalidArgumentError, OutputFileError, RecordFileError
from torchmark.model.sweep_record import RowStatus
from torchmark.report.sweep_csv import COLUMNS, KERNEL_COLUMNS, line_of, row_of, values_of
from torchmark.report.sweep_csv import kernel_values_of as kernel_cells

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path
    from typing import Any, Self

    from torchmark.define.sweep.points import SweepCase
    from torchmark.model.sweep_record import SweepRow


def kernels_file(file: Path) -> Path:
    """Where the kernels of a sweep stand: beside its rows."""
    return file.with_name(f"{file.name.removesuffix('.csv')}.kernels.csv")


class SweepFile:
    """A file of rows that nobody else writes meanwhile; it closes as a context."""

    def __init__(self, path: Path, cases: Sequence[SweepCase], environment: str) -> None:
        """Take up what the file has of these cases; an error if it is of something else."""
        self.path = path
        self._descriptor = _opened(path)
        try:
            rows = _rows_in(path)
            _check_fit(path, rows, cases, environment)
            self.measured = {row.case_id: row for row in rows if row.status is RowStatus.MEASURED}
            self._begin([row for row in rows if row.status is RowStatus.MEASURED])
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def append(self, row: SweepRow) -> None:
        """Add a row; it is in the file when this returns."""
        self._write(line_of(values_of(row)))

    def _begin(self, rows: Sequence[SweepRow]) -> None:
        """Keep the heading and these rows. However this ends, no measured row is lost."""
        there = self.path.read_bytes()
        text = "".join([line_of(COLUMNS), *(line_of(values_of(row)) for row in rows)])
        kept = text.encode()
        if there.startswith(kept):
            os.ftruncate(self._descriptor, len(kept))
        elif kept.startswith(there):
            self._write(kept[len(there) :].decode())
        else:
            write_whole(self.path, kept)
            os.close(self._descriptor)
            self._descriptor = _opened(self.path)

    def _write(self, text: str) -> None:
        data = memoryview(text.encode())
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise OutputFileError(
                f"{self.path} cannot be written: {error.strerror}; what is in it is kept, and the "
                "same command goes on from there"
            ) from error


class KernelsFile:
    """The kernels of the cases, one line for each of a case."""

    def __init__(self, path: Path, kept: Collection[str]) -> None:
        """Keep what the file has of the cases with these ids: those whose rows are kept too."""
        self.path = path
        try:
            content = path.read_bytes().decode() if path.exists() else ""
            lines = _kernel_lines(path, content)
            known = [line for line in lines if line.split(",")[0] in kept]
            self._known = {line.split(",")[0] for line in known}
            text = "".join([line_of(KERNEL_COLUMNS), *known])
            if text != content:
                write_whole(path, text.encode())
            self._file = path.open("a", encoding="utf-8", newline="")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"{path} cannot be written: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def has(self, case_id: str) -> bool:
        """Whether the kernels of this case were there from the beginning."""
        return case_id in self._known

    def append(self, row: SweepRow, kernels: Sequence[Mapping[str, Any]]) -> None:
        """Add the kernels of a case, those that take longest first."""
        ordered = sorted(kernels, key=lambda kernel: -kernel["seconds"])
        try:
            self._file.write("".join(line_of(kernel_cells(row, kernel)) for kernel in ordered))
            self._file.flush()
        except OSError as error:
            raise OutputFileError(f"{self.path} cannot be written: {error.strerror}") from error


def to_be_done(
    cases: Sequence[SweepCase], rows: Collection[str], kernels: KernelsFile | None
) -> list[SweepCase]:
    """What has no row yet, and what has one but not its kernels, where these are asked for."""
    return [
        case
        for case in cases
        if case.row.case_id not in rows
        or (kernels is not None and not kernels.has(case.row.case_id))
    ]


def _kernel_lines(path: Path, content: str) -> list[str]:
    """The lines below the heading; a case whose last line was cut short is left out."""
    if line_of(KERNEL_COLUMNS).startswith(content):
        return []
    heading, *lines = content.splitlines(keepends=True)
    if heading != line_of(KERNEL_COLUMNS):
        raise InvalidArgumentError(_other_columns(path))
    if lines and not lines[-1].endswith("\n"):
        cut = lines[-1].split(",")[0]
        return [line for line in lines if not line.startswith(cut)]
    return lines


def _opened(path: Path) -> int:
    if path.exists() and not path.is_file():
        raise InvalidArgumentError(
            f"{path} is no ordinary file: rows are appended to it, and read again by a second call "
            "that goes on; name another --csv"
        )
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        raise InvalidArgumentError(
            f"{path} cannot be written: {error.strerror}; is its folder there?"
        ) from error
    os.close(descriptor)
    held = take_lock(path)
    if held is None:
        raise InvalidArgumentError(
            f"another process writes {path} now; wait until it has ended, or name another --csv"
        )
    fcntl.fcntl(held, fcntl.F_SETFL, os.O_APPEND)
    return held


def _rows_in(path: Path) -> list[SweepRow]:
    """The rows of a file; the end of a line that was cut short is left out."""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path} is no CSV of a sweep: {error}") from error
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        del lines[-1]
    if not lines:
        if text and not line_of(COLUMNS).startswith(text):
            raise InvalidArgumentError(_other_columns(path))
        return []
    if lines[0] != line_of(COLUMNS):
        raise InvalidArgumentError(_other_columns(path))
    rows = []
    for number, cells in enumerate(csv.reader(lines[1:]), start=2):
        try:
            rows.append(row_of(cells))
        except RecordFileError as error:
            raise InvalidArgumentError(f"{path}, line {number} is no row: {error}") from error
    return rows


def _other_columns(path: Path) -> str:
    return f"{path} is there and has other columns than a sweep; name another --csv, or remove it"


def _check_fit(
    path: Path, rows: Sequence[SweepRow], cases: Sequence[SweepCase], environment: str
) -> None:
    """Rows of the same model may stand together, whatever their sizes; others may not."""
    ids = {_place(case.row): case.row.case_id for case in cases}
    names = {name for case in cases for name, _ in case.dims}
    model = cases[0].row.model
    for row in rows:
        if row.model != model or {name for name, _ in row.dims} != names:
            raise InvalidArgumentError(
                f"{path} has rows of {row.model} over {', '.join(n for n, _ in row.dims)}, and "
                f"this is {model} over {', '.join(sorted(names))}; name another --csv"
            )
        if ids.get(_place(row), row.case_id) != row.case_id:
            raise InvalidArgumentError(
                f"{path} has rows of another {model}: its code or its inputs have changed since; "
                "name another --csv, or remove it to measure anew"
            )
        if row.environment != environment:
            raise InvalidArgumentError(
                f"{path} was measured in another environment ({row.environment}, and this is "
                f"{environment}): another torch, Python or processor; name another --csv"
            )


def _place(row: SweepRow) -> tuple[object, ...]:
    return frozenset(row.dims), row.dtype, row.backend, row.phase, row.threads

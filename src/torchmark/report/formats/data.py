"""Render the data of a view for programs, as CSV or JSON: a record for each row, with raw values.

CSV is quoted as in RFC 4180, with the line ends of Unix, which all readers accept. JSON has the
record of the run, which `torchmark.model.codec` can read, and its figures as a table:
{"torchmark": "run", "version": 2, "record": …, "summary": "…", "table": [{"case": …}, …]}
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import msgspec

from torchmark.model.codec import encode_run
from torchmark.model.run import Run
from torchmark.printable import printable, printable_json
from torchmark.report.view import Table, Value, View

_FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""A spreadsheet reads text that begins like this as a formula, which may run programs."""


def render_csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_field(column.name) for column in table.columns])
    writer.writerows([_field(cell.value) for cell in row.cells] for row in table.rows)
    return text.getvalue()


def _field(value: Value) -> str:
    """
    >>> _field(0.1), _field(None), _field(True), _field("=1+1"), _field(-2)
    ('0.1', '', 'true', "'=1+1", '-2')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def render_json(run: Run, view: View) -> str:
    """JSON with the record of the run and the figures of its view."""
    return render_figures(view, msgspec.json.decode(encode_run(run), type=dict[str, msgspec.Raw]))


def render_figures(view: View, heading: Mapping[str, Any]) -> str:
    """JSON text; times are in seconds, and numbers that are not finite are null in the table."""
    names = [column.name for column in view.data.columns]
    table = [
        dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in view.data.rows
    ]
    text = msgspec.json.encode({**heading, "summary": view.summary, "table": table})
    return printable_json(f"{text.decode()}\n")

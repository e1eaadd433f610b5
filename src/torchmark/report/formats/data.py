"""The data of a view for programs: a record for each row, values raw, as CSV and as JSON.

CSV is quoted as RFC 4180 says; lines end as those of Unix do, which every reader takes. JSON has
the record of the run, which `torchmark.model.codec` reads back, and its figures as a table:
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
"""A spreadsheet takes text that begins like this for a formula, which may call programs."""


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
    """The whole record of the run, and the figures of its view."""
    return render_figures(view, msgspec.json.decode(encode_run(run), type=dict[str, msgspec.Raw]))


def render_figures(view: View, heading: Mapping[str, Any]) -> str:
    """JSON text; times are in seconds, and what is not finite is null in the table."""
    names = [column.name for column in view.data.columns]
    table = [
        dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in view.data.rows
    ]
    text = msgspec.json.encode({**heading, "summary": view.summary, "table": table})
    return printable_json(f"{text.decode()}\n")

"""The results of a view as CSV: one record for each row of its data, values raw.

Quoted as RFC 4180 says; lines end as those of Unix do, which every reader takes.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from torchmark.report.figures import printable

if TYPE_CHECKING:
    from torchmark.report.view import Table, Value, View

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes text that begins like this for a formula, which may call programs."""


def render(view: View) -> str:
    return table_text(view.data)


def table_text(table: Table) -> str:
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

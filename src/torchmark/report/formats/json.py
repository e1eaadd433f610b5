"""A run as JSON: its record, which `torchmark.model.codec` reads back, and its figures as a table.

{"torchmark": "run", "version": 2, "record": …, "summary": "…", "table": [{"case": …}, …]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from torchmark.model.codec import encode_run

if TYPE_CHECKING:
    from torchmark.model.run import Run
    from torchmark.report.view import View


def render(run: Run, view: View) -> str:
    """JSON text; times are in seconds, and what is not finite is null in the table."""
    envelope = msgspec.json.decode(encode_run(run), type=dict[str, msgspec.Raw])
    names = [column.name for column in view.data.columns]
    table = [
        dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in view.data.rows
    ]
    text = msgspec.json.encode({**envelope, "summary": view.summary, "table": table})
    return f"{text.decode()}\n"

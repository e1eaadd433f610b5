"""A run as JSON: its record, which `torchmark.model.codec` reads back, and its figures as a table.

{"torchmark": "run", "version": 2, "record": …, "summary": "…", "table": [{"case": …}, …]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from torchmark.model.codec import encode_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchmark.model.run import Run
    from torchmark.report.view import View


def render(run: Run, view: View) -> str:
    """The whole record of the run, and the figures of its view."""
    return render_figures(view, msgspec.json.decode(encode_run(run), type=dict[str, msgspec.Raw]))


def render_figures(view: View, heading: Mapping[str, Any]) -> str:
    """JSON text; times are in seconds, and what is not finite is null in the table."""
    names = [column.name for column in view.data.columns]
    table = [
        dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in view.data.rows
    ]
    text = msgspec.json.encode({**heading, "summary": view.summary, "table": table})
    return f"{text.decode()}\n"

"""Tables as one HTML page with everything inside it: nothing is fetched."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from torchmark.report.cells import cell_texts, row_titles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.report.table import Baseline, Table

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1f24; background: #fff; }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .5rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .8rem; border-bottom: 1px solid #d8dee4; text-align: right; }}
th:first-child, td:first-child {{ text-align: left; font-family: ui-monospace, monospace; }}
td {{ font-variant-numeric: tabular-nums; }}
td.best {{ color: #116329; font-weight: 600; }}
p {{ color: #57606a; font-size: .85rem; }}
</style>
</head>
<body>
{tables}
</body>
</html>
"""


def render(tables: Sequence[Table], baseline: Baseline | None) -> str:
    title = ", ".join(table.label for table in tables if table.label) or "torchmark"
    body = "\n".join(_table(table, baseline) for table in tables)
    return _PAGE.format(title=escape(title), tables=body)


def _table(table: Table, baseline: Baseline | None) -> str:
    header = "".join(f"<th>{escape(title)}</th>" for title in ("", *table.columns))
    texts = cell_texts(table, baseline)
    rows = []
    for index, title in enumerate(row_titles(table)):
        cells = "".join(
            f"<td{_best(table, index, column)}>{escape(text)}</td>"
            for column, text in enumerate(texts[index])
        )
        rows.append(f"<tr><td>{escape(title)}</td>{cells}</tr>")
    return "\n".join(
        [
            f"<h2>{escape(table.label or 'Results')}</h2>",
            f'<div class="wide"><table>\n<thead><tr>{header}</tr></thead>\n<tbody>',
            *rows,
            f"</tbody>\n</table></div>\n<p>{escape(_legend(table, baseline))}</p>",
        ]
    )


def _best(table: Table, row: int, column: int) -> str:
    cell = table.rows[row].cells[column]
    if cell is None or cell.median > table.fastest(table.rows[row], column) * 1.01:
        return ""
    return ' class="best"'


def _legend(table: Table, baseline: Baseline | None) -> str:
    bold = "Bold: within 1 % of the fastest."
    if baseline is not None:
        return f"Ratios of medians to {baseline.row}; below 1 is faster. {bold}"
    return f"Medians in {table.unit}. {bold} (!): high variance."

"""What the page of a sweep adds to the looks of a run's page, and the sorting of its table."""

from __future__ import annotations

from torchmark.report.plot_style import PAGE
from torchmark.report.run_page_style import STYLE as RUN_STYLE

STYLE = (
    RUN_STYLE
    + PAGE
    + """
.summary { font-size: 1.05rem; color: var(--ink); }
.keys { position: sticky; top: 0; z-index: 1; background: var(--paper); display: flex;
  flex-wrap: wrap; gap: .15rem 1.1rem; padding: .5rem 0; border-bottom: 1px solid var(--line);
  font-size: .85rem; }
.keys label { display: flex; align-items: center; gap: .35rem; cursor: pointer; }
.keys input { margin: 0; }
.keys svg { margin: 0; }
.panels { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr));
  max-width: calc(var(--columns) * 27rem); gap: .25rem .5rem; }
.panel { width: 100%; height: auto; margin: .25rem 0 0; }
.panel .mark:hover { stroke: var(--ink); stroke-width: 2; }
.cases { font-size: .85rem; }
.cases th, .cases td { padding-right: .9rem; }
.cases th.number, .speedups th.number { width: auto; }
.cases th button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-align: inherit; white-space: nowrap; }
.cases th[aria-sort=ascending] button::after { content: " ▲"; }
.cases th[aria-sort=descending] button::after { content: " ▼"; }
.cases td { white-space: nowrap; }
.cases td.reason { white-space: normal; min-width: 16rem; overflow-wrap: anywhere; }
li, h1, h2, dd { overflow-wrap: anywhere; }
@media (max-width: 50rem) { main { padding: 1rem; }
  .panels { grid-template-columns: 1fr; } .keys { position: static; } }
"""
)


def hiding(count: int) -> str:
    """Rules by which the boxes of the legend take configs out of all plots, without a script."""
    return "".join(
        f"main:has(#show-{number}:not(:checked)) .panel .config-{number} {{ display: none; }}\n"
        for number in range(count)
    )


SORTING = """
for (const table of document.querySelectorAll("table.cases")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const numeric = head.classList.contains("number");
    const valueOf = row => {
      const value = row.cells[column]?.dataset.value;
      return value === undefined || value === "" ? null : numeric ? Number(value) : value;
    };
    const compared = (one, other) => numeric ? one - other : one.localeCompare(other);
    const rows = [...body.rows].map(row => [valueOf(row), row]);
    rows.sort(([one], [other]) => {
      if (one === null || other === null) return (one === null) - (other === null);
      return down ? compared(other, one) : compared(one, other);
    });
    body.append(...rows.map(([, row]) => row));
  }));
}
"""
"""A click on a heading sorts by its column, a second one backwards; what has no figure is last."""

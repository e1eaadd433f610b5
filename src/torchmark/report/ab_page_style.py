"""What the page of an A/B comparison adds to the looks of a run's page."""

from __future__ import annotations

from torchmark.report.run_page_style import STYLE as RUN_STYLE

STYLE = (
    RUN_STYLE
    + """
:root { --slower: #b3261e; --faster: #0a5dc2; --same: #59636e; --unclear: #8a5a00;
  --band: #eaf0f6; --mark: #fff4d6; }
@media (prefers-color-scheme: dark) { :root { --slower: #ff8a80; --faster: #6cb0ff;
  --same: #9aa5b1; --unclear: #f0b849; --band: #222c37; --mark: #3a3115; } }
section.comparison + section.comparison { border-top: 2px solid var(--line); margin-top: 3rem; }
header .summary, section .summary { font-size: 1.05rem; color: var(--ink); margin: .5rem 0; }
h2, h3, li, p, .cases summary, .environments td, td.function { overflow-wrap: anywhere; }
.cases td:first-child { min-width: 11rem; }
.cases details[open] { min-width: 30rem; }  /* names of functions are long */
.cases details td:first-child { min-width: 0; }
.cases th.number { width: 6rem; }
.slower, .more { color: var(--slower); }
.faster, .fewer { color: var(--faster); }
.same { color: var(--same); }
.unclear, .close { color: var(--unclear); }
.verdict { white-space: nowrap; font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; color: var(--quiet);
  font-size: .85rem; margin: .25rem 0 .5rem; }
.legend span { display: flex; align-items: center; gap: .35rem; }
.legend .box { width: 1.2rem; height: .9rem; background: var(--band); display: inline-block; }
.picture { border: 1px solid var(--line); border-radius: .3rem; padding: .25rem .75rem; }
.picture div { display: grid; grid-template-columns: minmax(6rem, 17rem) 1fr 10.5rem;
  column-gap: .75rem; align-items: center; line-height: 22px; font-size: .85rem; }
.picture .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.picture .figure { white-space: nowrap; font-variant-numeric: tabular-nums; }
.picture svg, .legend svg { margin: 0; overflow: visible; }
svg text { fill: var(--quiet); font-size: 11px; }
svg .band { fill: var(--band); }
svg .grid { stroke: var(--line); }
svg .zero { stroke: var(--quiet); }
svg .interval { stroke: currentColor; stroke-width: 2; opacity: .6; }
svg .mark path, svg .mark circle, svg .arrow.bold path { fill: currentColor;
  stroke: var(--paper); stroke-width: 1; }
svg .mark circle.hollow { fill: var(--paper); stroke: currentColor; stroke-width: 2; }
svg .arrow path { fill: currentColor; opacity: .6; }
svg .arrow.bold path { opacity: 1; }
.environments td { white-space: pre-wrap; padding-left: .5rem; min-width: 8rem; }
.environments th:first-child { width: 12rem; }
.environments tr.differs td { background: var(--mark); }
td.number { white-space: nowrap; }
td.function { font: 13px/1.45 ui-monospace, monospace; }
details table { font-size: .9rem; margin: .25rem 0 .5rem; }
@media (max-width: 40rem) { main { padding: 1rem; }
  .picture { padding: .25rem .5rem; }
  .picture div { grid-template-columns: 1fr max-content; row-gap: 0; padding-bottom: .3rem; }
  .picture .axis .name, .picture .axis .figure { display: none; }
  .picture svg { grid-column: 1 / -1; grid-row: 2; }
  .cases details[open] { min-width: 18rem; }
  .cases th.number, .environments th:first-child { width: auto; } }
"""
)

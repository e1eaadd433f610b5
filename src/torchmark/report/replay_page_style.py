"""What the page of a replay adds to the looks of a run's page."""

from __future__ import annotations

from torchmark.report.run_page_style import STYLE as RUN_STYLE

STYLE = (
    RUN_STYLE
    + """
:root { --work: #0a5dc2; --overhead: #c05c00; --slow: #7a3fb0; --unknown: #8b949e; }
@media (prefers-color-scheme: dark) { :root { --work: #6cb0ff; --overhead: #ffa657;
  --slow: #c9a2ff; --unknown: #7d8894; } }
header .summary { font-size: 1.05rem; color: var(--ink); margin: .3rem 0; }
h1, p, li, td, summary { overflow-wrap: anywhere; }
.work { color: var(--work); } .overhead { color: var(--overhead); }
.slow { color: var(--slow); } .unknown { color: var(--unknown); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; color: var(--quiet);
  font-size: .85rem; margin: .25rem 0 .5rem; }
.legend span { display: flex; align-items: center; gap: .35rem; }
.legend svg { margin: 0; }
.picture { border: 1px solid var(--line); border-radius: .3rem; padding: .35rem .75rem; }
.picture div { display: grid; grid-template-columns: minmax(6rem, 17rem) 1fr 4rem;
  column-gap: .75rem; align-items: center; line-height: 22px; font-size: .85rem; }
.picture .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.picture .figure { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.picture svg { margin: 0; }
.picture rect, .legend rect { fill: currentColor; }
.operators .row { display: grid; gap: 0 .75rem; align-items: baseline; padding: .3rem 0;
  border-bottom: 1px solid var(--line); grid-template-columns: minmax(12rem, 1fr) repeat(3, 5rem)
  repeat(2, 4.5rem) 5.5rem; grid-auto-flow: column; grid-auto-columns: 5.5rem; }
.operators .row > * { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.operators .row > :first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.operators summary.row > :first-child::before { content: "▸ "; color: var(--quiet); }
.operators details[open] > summary > :first-child::before { content: "▾ "; }
.operators summary { list-style: none; }
.operators summary::-webkit-details-marker { display: none; }
.operators .head { font-size: .8rem; font-weight: 600; color: var(--quiet); }
.operators details > div { background: var(--soft); padding: .25rem .75rem; overflow-x: auto; }
.operators table { font-size: .9rem; }
.operators td.arguments { min-width: 16rem; font: 13px/1.45 ui-monospace, monospace; }
.parts td:first-child { width: 24rem; }
.operators { overflow-x: auto; } .operators > * { min-width: var(--narrowest); }
@media (max-width: 40rem) { main { padding: 1rem; }
  .picture div { grid-template-columns: 1fr max-content; row-gap: 0; padding-bottom: .3rem; }
  .picture svg { grid-column: 1 / -1; grid-row: 2; } .parts td:first-child { width: auto; } }
"""
)

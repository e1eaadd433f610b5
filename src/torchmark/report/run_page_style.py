"""How the page of a run looks: one column of tables, in light and dark as the reader prefers."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #59636e; --paper: #fff; --line: #d8dee4;
  --soft: #f5f7f9; --accent: #0a5dc2; --bad: #b3261e; --doubt: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaee; --quiet: #9aa5b1; --paper: #14181d;
  --line: #313a44; --soft: #1c2229; --accent: #6cb0ff; --bad: #ff8a80; --doubt: #f0b849; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink);
  background: var(--paper); }
main { max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .25rem 0; }
header p, small, .quiet { color: var(--quiet); }
a { color: var(--accent); }
.bad { color: var(--bad); }
.doubt { color: var(--doubt); text-decoration: none; }
.tag { font-size: .8rem; font-weight: 400; padding: .1rem .5rem; border: 1px solid var(--line);
  border-radius: 1rem; vertical-align: middle; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1rem; padding: 0;
  margin: .5rem 0 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
th.number { width: 8rem; }  /* the same in every group, so that columns stand below each other */
th.time { width: 12rem; }
th { font-size: .8rem; font-weight: 600; color: var(--quiet); }
.number { text-align: right; white-space: nowrap; }
.plot { width: 190px; }
td.number { font-variant-numeric: tabular-nums; }
summary { cursor: pointer; }
pre { font: 13px/1.45 ui-monospace, monospace; background: var(--soft); padding: .5rem .75rem;
  border-radius: .3rem; margin: .25rem 0 .5rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
details p { font-size: .8rem; color: var(--quiet); }
details p.doubt { color: var(--doubt); font-size: .9rem; }
svg { display: block; margin-top: .25rem; }
svg .axis { stroke: var(--line); }
svg .interval { stroke: var(--accent); stroke-width: 3; opacity: .55; }
svg circle { fill: var(--accent); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); }
dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
@media (max-width: 40rem) { .plot { display: none; }
  dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; } }
"""

"""How plots look: in a page, light or dark as the reader prefers, and in a picture by itself."""

from __future__ import annotations

import re

# Colours that people with any kind of colour vision tell apart, at a contrast that lines need.
_LIGHT = {
    "ink": "#1b1f24",
    "quiet": "#59636e",
    "paper": "#ffffff",
    "line": "#d8dee4",
    "plot-0": "#0072b2",
    "plot-1": "#d55e00",
    "plot-2": "#009e73",
    "plot-3": "#aa4499",
}
_DARK = {"plot-0": "#56b4e9", "plot-1": "#f28e4b", "plot-2": "#3fcf9f", "plot-3": "#dd88cc"}

_SHARED = """
.panel text { fill: var(--quiet); font-size: 11px; }
.panel text.title { fill: var(--ink); font-size: 12px; font-weight: 600; }
.panel text.name { fill: var(--ink); }
.panel .grid { stroke: var(--line); stroke-width: 1; fill: none; opacity: .7; }
.panel .frame { stroke: var(--quiet); stroke-width: 1; fill: none; }
.panel text.halo { stroke: var(--paper); stroke-width: 3px; paint-order: stroke; }
.line { fill: none; stroke: currentColor; stroke-width: 1.6; }
.reference { color: var(--quiet); }
.reference .line { stroke-width: 1.2; }
.band { fill: currentColor; opacity: .1; }
.whisker { stroke: currentColor; stroke-width: 1.2; fill: none; }
.mark { fill: currentColor; stroke: var(--paper); stroke-width: .8; }
.mark circle { fill: currentColor; }
.mark .cross { stroke: currentColor; stroke-width: 1.8; fill: none; }
.dash-1 .line { stroke-dasharray: 6 3; }
.dash-2 .line { stroke-dasharray: 1.5 3; }
.dash-3 .line { stroke-dasharray: 8 3 1.5 3; }
.dash-4 .line { stroke-dasharray: 12 4; }
.colour-0 { color: var(--plot-0); }
.colour-1 { color: var(--plot-1); }
.colour-2 { color: var(--plot-2); }
.colour-3 { color: var(--plot-3); }
"""


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items() if "plot" in name)


PAGE = f"""
:root {{ {_variables(_LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK)} }} }}
{_SHARED}"""
"""For a page, whose own style has the other variables."""

PICTURE = re.sub(
    r"var\(--([\w-]+)\)", lambda found: _LIGHT[found[1]], _SHARED.replace(".panel ", "")
)
"""For an SVG that is drawn without a page: the drawing program knows no variables."""

"""The picture of a replay: how much of the time each operator takes, coloured by what it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.analyse.call_natures import Nature
from torchmark.report.figures import share_text
from torchmark.report.view import Chart

if TYPE_CHECKING:
    from torchmark.analyse.replay import ReplayAnalysis

_DRAWN = 20
"""Operators in the picture; the table has all."""

_UNKNOWN = "not known"
_COLOURS = {
    Nature.WORK.value: "var(--plot-1)",
    Nature.OVERHEAD.value: "var(--plot-2)",
    Nature.SLOW.value: "var(--plot-4)",
    _UNKNOWN: "var(--quiet)",
}


def share_chart(analysis: ReplayAnalysis) -> Chart | None:
    """Bars of the operators' shares, the largest first; None where nothing was measured."""
    known = [operator for operator in analysis.operators if operator.share]
    if not known:
        return None
    values = [
        {
            "operator": operator.op,
            "share": operator.share,
            "calls": operator.count,
            "what": operator.nature.value if operator.nature else _UNKNOWN,
        }
        for operator in known[:_DRAWN]
    ]
    left = [operator.share or 0.0 for operator in known[_DRAWN:]]
    more = f"{len(left)} more operators have {share_text(sum(left))} of the time." if left else ""
    first = known[0]
    return Chart(
        id="shares",
        title="Share of the step",
        description=(
            f"Bars of {len(values)} operators, the largest first: {first.op} has "
            f"{share_text(first.share or 0.0)} of the time."
        ),
        spec={
            "data": {"values": values},
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "y": {"field": "operator", "type": "ordinal", "sort": None, "title": None},
                "x": {
                    "field": "share",
                    "type": "quantitative",
                    "axis": {"format": ".0%"},
                    "title": "share of the time",
                },
                "color": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": list(_COLOURS), "range": list(_COLOURS.values())},
                },
                "tooltip": [
                    {"field": "operator", "type": "nominal"},
                    {"field": "share", "type": "quantitative", "format": ".1%"},
                    {"field": "calls", "type": "quantitative", "format": ","},
                    {"field": "what", "type": "nominal"},
                ],
            },
        },
        note=more,
    )

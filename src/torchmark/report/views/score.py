"""The section with the score of a comparison: the geometric mean of its ratios, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from torchmark.analyse.score import SHARED, CaseRatio, Score, score_of, scores_by_group
from torchmark.report.figures import number_text, ratio_text
from torchmark.report.view import Cell, Field, Kind, Row, Section, field, make_table

_FEWEST = 2
"""A single case needs no mean."""

_Line: TypeAlias = tuple[str, Score]


def score_section(
    ratios: Sequence[CaseRatio],
    title: str,
    section_id: str,
    *,
    shared: float = SHARED,
    footnotes: tuple[str, ...] = (),
) -> Section:
    """The score of all cases and of each group; without content if there are fewer than two."""
    total = score_of(ratios, shared=shared)
    if total is None or total.cases < _FEWEST:
        return Section(section_id, title)
    groups = scores_by_group(ratios, shared=shared)
    lines: list[_Line] = [("all", total)]
    lines += [(name or "without a label", score) for name, score in groups if len(groups) > 1]
    fields: list[Field[_Line]] = [
        field("group", lambda line: line[0]),
        field("cases", lambda line: line[1].cases, Kind.INTEGER),
        field(
            "ratio" if total.interval is None else "ratio [95 %]",
            lambda line: Cell(line[1].ratio, interval=line[1].interval),
            Kind.RATIO,
            "Geometric mean of the ratios of these cases; below 1 is better",
        ),
    ]
    return Section(
        section_id,
        title,
        table=make_table(lines, fields, lambda line: Row(is_quiet=line[0] != "all")),
        footnotes=footnotes,
    )


def score_text(score: Score) -> str:
    """
    >>> from torchmark_probe.loops.intervals import Interval
    >>> score_text(Score(ratio=0.98, interval=Interval(0.97, 0.99), cases=31))
    'score 0.980 [0.970, 0.990] over 31 cases'
    """
    ends = "" if score.interval is None else " [{}, {}]".format(*map(ratio_text, score.interval))
    return f"score {ratio_text(score.ratio)}{ends} over {number_text(score.cases, 'case')}"

"""Words for what differs between the runs of a history: commits, dates, versions of torch.

If one commit was measured with several versions of torch, the versions are what matters: they
stand in place of the dates, which are all the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torchmark.model.run import DECISIVE
from torchmark.model.series import Origin
from torchmark.report.figures import cut_line, number_text

Distances: TypeAlias = Mapping[tuple[str, str], int | None]
"""The number of commits from one commit to another; None if the first is not an ancestor."""

LONGEST_FACT = 60
"""A version or the name of a processor is cut to so many characters."""

_DIGITS = 10
"""Digits of a commit that are shown."""

_MOST_NAMED = 12
"""With more runs than this, a chart has no room for the version of each."""


def span_text(origins: Sequence[Origin]) -> str:
    """How many runs there are, and from when to when; or the versions, if all have one commit."""
    runs = number_text(len(origins), "run")
    versions = versions_of(origins)
    if versions:
        return f"{runs}, torch {versions[0]} to {versions[-1]}"
    first, last = origins[0].when[:10], origins[-1].when[:10]
    return f"{runs}, {first}" if first == last else f"{runs}, {first} to {last}"


def versions_of(origins: Sequence[Origin]) -> tuple[str, ...]:
    """The version of torch of each run; empty unless one commit was measured with several."""
    versions = tuple(cut_line(each.torch or "unknown", LONGEST_FACT) for each in origins)
    is_one_commit = len({each.commit for each in origins}) == 1 and origins[0].commit is not None
    return versions if is_one_commit and len(set(versions)) > 1 else ()


def facts_text(before: Origin, after: Origin) -> str:
    """The decisive facts that differ. A new version of torch has a new commit, too."""
    differing = {
        name: (_fact_text(before, path), _fact_text(after, path))
        for name, path in DECISIVE.items()
        if before.environment.fact(*path) != after.environment.fact(*path)
    }
    if "torch" in differing:
        differing.pop("torch's commit", None)
    return "; ".join(f"{name} {old} → {new}" for name, (old, new) in differing.items())


def _fact_text(origin: Origin, path: tuple[str, ...]) -> str:
    fact = origin.environment.fact(*path)
    return cut_line(str(fact), LONGEST_FACT) if fact else "unknown"


def short_commit(commit: str) -> str:
    """Enough digits to find it; what a store has may be any text."""
    return cut_line(commit)[:_DIGITS]


def commits_text(before: Origin, after: Origin, known: Distances) -> str:
    if before.commit is None or after.commit is None:
        return f"runs {before.run} and {after.run}"
    old, new = short_commit(before.commit), short_commit(after.commit)
    changed = " with uncommitted changes" if after.is_dirty else ""
    if before.commit == after.commit:
        return f"within commit {new}{changed}"
    span = f"{old}..{new}{changed}"
    if (before.commit, after.commit) not in known:
        return span
    distance = known[before.commit, after.commit]
    if distance is None:
        return f"{span}, which are not on one line of commits"
    return f"{span}, {number_text(distance, 'commit')}"


def run_axis(origins: Sequence[Origin]) -> dict[str, Any]:
    """Numbers of runs; or the versions of torch, if one commit was measured with several."""
    versions = versions_of(origins)
    if not versions or len(versions) > _MOST_NAMED:
        axis = {"tickMinStep": 1, "format": "d"}
        return {"title": "run, in the order of the commits", "axis": axis}
    # As JSON, the names are strings of the expression, whatever characters they have.
    axis = {
        "values": list(range(1, len(versions) + 1)),
        "labelExpr": f"{json.dumps(versions)}[datum.value - 1]",
    }
    return {"title": "version of torch", "axis": axis}

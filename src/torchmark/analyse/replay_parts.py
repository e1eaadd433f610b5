"""The shares of a replay by the parts of the model: phases of a step, and modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.analyse.replay import ReplayAnalysis
    from torchmark.model.replay_record import CallPlace

_PHASES = ("forward", "backward", "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A phase, or a module with all that is inside of it."""

    name: str
    depth: int
    """How many modules it is inside of."""

    count: int
    """Calls in the trace."""

    share: float
    """Of all that was measured."""


def split_by_phase(analysis: ReplayAnalysis) -> list[PartRow]:
    """The phases that there are, in the order of a step."""
    found: dict[str, list[tuple[int, float]]] = {phase: [] for phase in _PHASES}
    for place, share in _shares_by_place(analysis):
        found.setdefault(place.phase, []).append((place.count, share))
    return [_part(name, 0, parts) for name, parts in found.items() if parts]


def split_by_module(analysis: ReplayAnalysis) -> list[PartRow]:
    """Every module under the one that it is inside of; a module has the shares of its parts."""
    found: dict[str, list[tuple[int, float]]] = {}
    for place, share in _shares_by_place(analysis):
        for path in _paths_to(place.module):
            found.setdefault(path, []).append((place.count, share))
    in_order = sorted(found, key=lambda path: [*map(_as_number, path.split("."))] if path else [])
    return [_part(path, path.count(".") + 1 if path else 0, found[path]) for path in in_order]


def _part(name: str, depth: int, parts: Sequence[tuple[int, float]]) -> PartRow:
    return PartRow(
        name=name,
        depth=depth,
        count=sum(count for count, _ in parts),
        share=sum(share for _, share in parts),
    )


def _shares_by_place(analysis: ReplayAnalysis) -> Iterator[tuple[CallPlace, float]]:
    """Every call is as long wherever it comes from, so its share divides like its count."""
    for row in analysis.calls:
        for place in row.call.places:
            yield place, (row.share or 0.0) * place.count / row.call.count


def _paths_to(module: str | None) -> list[str]:
    """
    >>> _paths_to("encoder.0.linear"), _paths_to(""), _paths_to(None)
    (['', 'encoder', 'encoder.0', 'encoder.0.linear'], [''], [])
    """
    if module is None:
        return []
    parts = module.split(".") if module else []
    return [".".join(parts[:length]) for length in range(len(parts) + 1)]


def _as_number(part: str) -> tuple[int, str]:
    """Layers 2 and 10 in this order."""
    return (int(part), "") if part.isdecimal() else (-1, part)

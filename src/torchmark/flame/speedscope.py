"""Stacks for https://www.speedscope.app, in the format of `torchmark.callgrind.speedscope`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.callgrind.speedscope import document
from torchmark.flame.stacks import merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchmark.flame.stacks import Stack


def speedscope(stacks: Iterable[Stack], *, name: str, unit: str) -> str:
    """JSON text; `name` is the title that speedscope shows, with the unit behind it.

    speedscope's own units are those of time and of bytes, so to it the weights are plain numbers.
    """
    weights = sorted(merged(stacks).items())
    names = dict.fromkeys(frame for frames, _ in weights for frame in frames)
    places = {frame: place for place, frame in enumerate(names)}
    return document(
        f"{name} ({unit})",
        frames=[{"name": frame} for frame in names],
        samples=[[places[frame] for frame in frames] for frames, _ in weights],
        weights=[weight for _, weight in weights],
    )

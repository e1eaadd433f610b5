"""Stacks merged into a tree of frames, and the difference of two.

Both grow from sorted stacks, so a frame's children are sorted by name and nothing here recurses: a
recorded stack may be deeper than Python's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchmark.flame.stacks import count_common_frames, merge_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchmark.flame.stacks import Stack

ROOT = "all"
"""The name of the frame that holds every stack."""


@dataclass(slots=True)
class Frame:
    """All stacks that begin alike, up to this frame."""

    name: str

    own: int = 0
    """Weight of the stacks that end here."""

    total: int = 0
    """Weight of the stacks that pass here or end here."""

    children: list[Frame] = field(default_factory=list)
    """What it called, by name."""

    def end_here(self, weight: int) -> None:
        self.own += weight
        self.total += weight

    def include(self, child: Frame) -> None:
        self.total += child.total


class Weights(NamedTuple):
    """Of one stack, or of the stacks that end in one frame, on both sides."""

    base: int
    branch: int

    base_share: float
    """Of the whole base; of the larger whole of the two where the weights are comparable."""

    branch_share: float


@dataclass(slots=True)
class Change:
    """A frame of two trees; a side that does not have it has weights of zero."""

    name: str

    base_own: int = 0
    base: int = 0
    """Weight of all its stacks in the base."""

    branch_own: int = 0
    branch: int = 0
    """Weight of all its stacks in the branch."""

    change: float = 0.0
    """What its own weight grew by, as a share of the whole; negative if it shrank."""

    room: float = 0.0
    """What it takes in a picture where neither side vanishes: of its own share and of that of every
    frame below it the larger of both sides, added up."""

    children: list[Change] = field(default_factory=list)
    """What it called on either side, by name."""

    def end_here(self, weights: Weights) -> None:
        self.base_own += weights.base
        self.base += weights.base
        self.branch_own += weights.branch
        self.branch += weights.branch
        self.change += weights.branch_share - weights.base_share
        self.room += max(weights.base_share, weights.branch_share)

    def include(self, child: Change) -> None:
        self.base += child.base
        self.branch += child.branch
        self.room += child.room


def build_tree(stacks: Iterable[Stack]) -> Frame:
    """The frame that holds all of them.

    >>> from torchmark.flame.stacks import Stack
    >>> build_tree([Stack(("main", "f"), 2), Stack(("main",), 1)]).children
    [Frame(name='main', own=1, total=3, children=[Frame(name='f', own=2, total=2, children=[])])]
    """
    return _grown(Frame(ROOT), sorted(merge_stacks(stacks).items()))


def build_difference(base: Iterable[Stack], branch: Iterable[Stack], *, normalise: bool) -> Change:
    """The frame that holds the stacks of both, each with its weight on either side.

    With `normalise` shares are compared: right for samples, of which a longer recording has more.
    Without it the weights themselves are: right for instructions per run, where a larger total is
    part of the difference.
    """
    before, after = merge_stacks(base), merge_stacks(branch)
    base_total, branch_total = sum(before.values()), sum(after.values())
    if not normalise:
        base_total = branch_total = max(base_total, branch_total)
    weights = [
        (
            frames,
            Weights(
                before.get(frames, 0),
                after.get(frames, 0),
                before.get(frames, 0) / (base_total or 1),
                after.get(frames, 0) / (branch_total or 1),
            ),
        )
        for frames in sorted({*before, *after})
    ]
    return _grown(Change(ROOT), weights)


_Node = TypeVar("_Node", Frame, Change)


def _grown(root: _Node, stacks: Iterable[tuple[tuple[str, ...], Any]]) -> _Node:
    """The root, with the sorted stacks below it: what two neighbours share is there already."""
    node = type(root)
    path = [root]
    previous: tuple[str, ...] = ()
    for frames, weight in stacks:
        shared = count_common_frames(previous, frames)
        _close(path, shared + 1)
        for name in frames[shared:]:
            child = node(name)
            path[-1].children.append(child)
            path.append(child)
        path[-1].end_here(weight)
        previous = frames
    _close(path, 1)
    return root


def _close(path: list[_Node], length: int) -> None:
    """Frames that no later stack passes give their weight to those above them."""
    while len(path) > length:
        closed = path.pop()
        path[-1].include(closed)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flame.samples import LOOP, stacks
from torchmark.flame.stacks import Frame, Stack, build_difference, build_tree

if TYPE_CHECKING:
    from collections.abc import Iterator


def every(node: Frame) -> Iterator[Frame]:
    yield node
    for child in node.children:
        yield from every(child)


def every_change(
    node: Frame, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Frame]]:
    path = (*above, node.name)
    yield path, node
    for child in node.children:
        yield from every_change(child, path)


def test_stacks_that_begin_alike_share_their_frames() -> None:
    (main,) = build_tree(LOOP).children
    assert (main.name, main.own.branch, main.total.branch) == ("main", 0, 100)
    assert [(child.name, child.own.branch, child.total.branch) for child in main.children] == [
        ("leave", 5, 5),
        ("run (loop.py:3)", 10, 95),
    ]


@given(stacks())
def test_no_weight_is_lost(drawn: list[Stack]) -> None:
    root = build_tree(drawn)
    assert root.total.branch == sum(stack.weight for stack in drawn)
    for frame in every(root):
        below = sum(child.total.branch for child in frame.children)
        assert frame.total.branch == frame.own.branch + below
        names = [child.name for child in frame.children]
        assert names == sorted(set(names))


@given(stacks())
def test_the_stacks_can_be_read_off_the_tree(drawn: list[Stack]) -> None:
    root = build_tree(drawn)
    for stack in drawn:
        node = root
        for name in stack.frames:
            (node,) = (child for child in node.children if child.name == name)
        own = sum(other.weight for other in drawn if other.frames == stack.frames)
        assert node.own.branch == own


def test_a_stack_deeper_than_pythons_own_has_its_tree() -> None:
    root = build_tree([Stack(("f",) * 5000, 7)])
    assert root.total.branch == 7
    assert build_difference([Stack(("f",) * 5000, 7)], [], normalise=True).total.base == 7


@given(stacks(), stacks(), st.booleans())
def test_the_difference_the_other_way_round_has_the_other_sign(
    base: list[Stack], branch: list[Stack], normalise: bool
) -> None:
    forth = dict(every_change(build_difference(base, branch, normalise=normalise)))
    back = dict(every_change(build_difference(branch, base, normalise=normalise)))
    assert forth.keys() == back.keys()
    for path, change in forth.items():
        assert change.own.change == -back[path].own.change
        assert change.total.room == back[path].total.room
        assert change.total.base == back[path].total.branch
        assert change.own.base == back[path].own.branch


@given(stacks(), stacks(), st.booleans())
def test_both_sides_of_a_difference_are_the_two_trees(
    base: list[Stack], branch: list[Stack], normalise: bool
) -> None:
    root = build_difference(base, branch, normalise=normalise)
    assert root.total.base == build_tree(base).total.branch
    assert root.total.branch == build_tree(branch).total.branch
    for _, change in every_change(root):
        below = [child.total for child in change.children]
        assert change.total.base == change.own.base + sum(each.base for each in below)
        assert change.total.branch == change.own.branch + sum(each.branch for each in below)
        assert change.total.room >= sum(each.room for each in below)


@given(stacks(), st.integers(2, 50), st.booleans())
def test_a_longer_recording_of_the_same_is_no_change_of_shares(
    drawn: list[Stack], times: int, normalise: bool
) -> None:
    longer = [Stack(frames, times * weight) for frames, weight in drawn]
    changes = [
        change for _, change in every_change(build_difference(drawn, longer, normalise=normalise))
    ]
    if normalise:
        assert [node.own.change for node in changes] == pytest.approx([0] * len(changes))
    else:
        grew = {node.name for node in changes if node.own.change > 0}
        assert grew == {node.name for node in changes if node.own.base > 0}


def test_without_shares_the_larger_whole_is_the_measure() -> None:
    base, branch = [Stack(("f",), 100)], [Stack(("f",), 100), Stack(("g",), 100)]
    changes = {
        path[-1]: node.own.change
        for path, node in every_change(build_difference(base, branch, normalise=False))
    }
    assert changes == {"all": 0, "f": 0, "g": 0.5}
    shares = {
        path[-1]: node.own.change
        for path, node in every_change(build_difference(base, branch, normalise=True))
    }
    assert shares == {"all": 0, "f": -0.5, "g": 0.5}


def test_what_vanished_keeps_its_room() -> None:
    root = build_difference(
        [Stack(("f", "gone"), 40), Stack(("f",), 60)], [Stack(("f",), 60)], normalise=False
    )
    ((_, _), (_, f), (_, gone)) = every_change(root)
    assert (gone.total.room, gone.own.change, gone.total.branch) == (0.4, -0.4, 0)
    assert f.total.room == 1.0

"""Callgrind's stacks become ours: from the statement on, per run, without addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.callgrind.test_folded import profiles
from torchmark.callgrind.parse import parse_text
from torchmark.flame.counted import from_profile
from torchmark.flame.stacks import Stack
from torchmark.flame.tree import tree

if TYPE_CHECKING:
    from torchmark.callgrind.profile import Profile

COUNTED = """\
events: Ir
ob=/usr/lib/libpython.so
fl=???
fn=builtin_exec
cfn=eval
calls=1 0
0 1000
fn=eval
0 300
cob=/usr/lib/libtorch.so
cfn=add
calls=100 0
0 500
cob=???
cfn=0x4936718
calls=100 0
0 200
ob=/usr/lib/libtorch.so
fn=add
0 450
cfn=0x7f01
calls=100 0
0 50
fn=0x7f01
0 50
ob=???
fn=0x4936718
0 2
cob=/usr/lib/libc.so
cfn=free
calls=100 0
0 198
ob=/usr/lib/libc.so
fn=free
0 198
totals: 1000
"""
"""What a count looks like: `exec` above all, the evaluation of the statement, and what it calls,
some of it through a jump between libraries."""


def test_what_starts_the_statement_is_not_in_the_picture() -> None:
    stacks = from_profile(parse_text(COUNTED), 1)
    assert {stack.frames[0] for stack in stacks} == {"eval"}


def test_nameless_code_is_called_after_its_library_and_jumps_are_left_out() -> None:
    assert from_profile(parse_text(COUNTED), 1) == [
        Stack(("eval",), 300),
        Stack(("eval", "[code without a name]"), 2),
        Stack(("eval", "add"), 450),
        Stack(("eval", "add", "[libtorch.so]"), 50),
        Stack(("eval", "free"), 198),
    ]


def test_instructions_are_per_run_and_add_up() -> None:
    stacks = from_profile(parse_text(COUNTED), 100)
    assert {stack.frames[-1]: stack.weight for stack in stacks} == {
        "eval": 3, "add": 4, "[libtorch.so]": 1, "free": 2,
    }  # fmt: skip
    assert sum(stack.weight for stack in stacks) == 10


@given(profiles(), st.integers(1, 1000))
def test_every_frame_is_within_an_instruction_of_the_exact_figure(
    profile: Profile, number: int
) -> None:
    exact, rounded = tree(from_profile(profile, 1)), tree(from_profile(profile, number))
    assert exact.total == profile.total
    assert rounded.total == profile.total // number
    waiting = [(exact, rounded)]
    while waiting:
        whole, part = waiting.pop()
        assert abs(part.total - whole.total / number) < 1
        children = {child.name: child for child in part.children}
        for child in whole.children:
            if child.name in children:
                waiting.append((child, children[child.name]))
            else:
                assert child.total < number


def test_a_profile_without_costs_has_no_stacks() -> None:
    assert from_profile(parse_text("events: Ir\ntotals: 0\n"), 100) == []

from __future__ import annotations

import pytest
from hypothesis import given

from tests.flame.samples import HOSTILE, stacks
from torchmark.errors import StacksFileError, TorchmarkError
from torchmark.flame.stacks import Stack, folded, merged, parsed


@given(stacks())
def test_what_was_folded_is_read_back(drawn: list[Stack]) -> None:
    text = folded(drawn)
    assert dict(merged(parsed(text))) == dict(merged(drawn))
    assert folded(parsed(text)) == text


@given(stacks())
def test_the_order_of_stacks_does_not_matter(drawn: list[Stack]) -> None:
    assert folded(reversed(drawn)) == folded(drawn)


def test_hostile_names_are_kept_as_they_are() -> None:
    stack = Stack(tuple(name.replace(";", ",") for name in HOSTILE), 3)
    assert parsed(folded([stack])) == [stack]


def test_separators_in_a_name_cannot_make_other_stacks() -> None:
    assert folded([Stack(("f(a;b)", "g\nh 9"), 2)]) == "f(a,b);g h 9 2\n"


def test_lines_of_other_systems_and_empty_lines_are_read() -> None:
    assert parsed("a;b 1\r\n\r\na;c d 2\r\n") == [Stack(("a", "b"), 1), Stack(("a", "c d"), 2)]


def test_a_line_break_is_only_what_ends_a_line() -> None:
    assert parsed("a\u2028b\x85c\x0bd 1\n") == [Stack(("a\u2028b\x85c\x0bd",), 1)]


def test_a_name_is_in_memory_once() -> None:
    first, second = parsed("main;f 1\nmain;g 1\n")
    assert first.frames[0] is second.frames[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("main;f", "'main;f' is no number of samples"),
        ("main;f 1.5", "'1.5' is no number"),
        ("main;f -3", "'-3' is no number"),
        ("main;f ٣", "is no number"),
        ("main;f ", "is no number"),
        ("main;;f 3", "frame 2 has no name"),
        (" 3", "frame 1 has no name"),
        ("main 1" + "0" * 5000, "5001 digits"),
        ("x" * 500, "'" + "x" * 40 + "…'"),
    ],
)
def test_a_damaged_line_is_named_with_what_is_wrong(line: str, words: str) -> None:
    with pytest.raises(StacksFileError) as caught:
        parsed(f"main;good 1\n\n{line}\nmain;good 2\n", "a.folded")
    assert str(caught.value).startswith("a.folded, line 3: ")
    assert words in str(caught.value)
    assert isinstance(caught.value, TorchmarkError)
    assert len(str(caught.value)) < 250

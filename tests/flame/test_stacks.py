from __future__ import annotations

import json

import pytest
from hypothesis import given

from tests.flame.samples import HOSTILE, stacks
from torchmark.errors import StacksFileError, TorchmarkError
from torchmark.flame.stacks import Stack, fold_stacks, merge_stacks, parse_stacks, render_speedscope


@given(stacks())
def test_what_was_folded_is_read_back(drawn: list[Stack]) -> None:
    text = fold_stacks(drawn)
    assert dict(merge_stacks(parse_stacks(text))) == dict(merge_stacks(drawn))
    assert fold_stacks(parse_stacks(text)) == text


@given(stacks())
def test_the_order_of_stacks_does_not_matter(drawn: list[Stack]) -> None:
    assert fold_stacks(reversed(drawn)) == fold_stacks(drawn)


def test_hostile_names_are_kept_as_they_are() -> None:
    stack = Stack(tuple(name.replace(";", ",") for name in HOSTILE), 3)
    assert parse_stacks(fold_stacks([stack])) == [stack]


def test_separators_in_a_name_cannot_make_other_stacks() -> None:
    assert fold_stacks([Stack(("f(a;b)", "g\nh 9"), 2)]) == "f(a,b);g h 9 2\n"


def test_lines_of_other_systems_and_empty_lines_are_read() -> None:
    assert parse_stacks("a;b 1\r\n\r\na;c d 2\r\n") == [
        Stack(("a", "b"), 1),
        Stack(("a", "c d"), 2),
    ]


def test_a_line_break_is_only_what_ends_a_line() -> None:
    assert parse_stacks("a\u2028b\x85c\x0bd 1\n") == [Stack(("a\u2028b\x85c\x0bd",), 1)]


def test_a_name_is_in_memory_once() -> None:
    first, second = parse_stacks("main;f 1\nmain;g 1\n")
    assert first.frames[0] is second.frames[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("main;f", "'main;f' is not a number of samples"),
        ("main;f 1.5", "'1.5' is not a number"),
        ("main;f -3", "'-3' is not a number"),
        ("main;f ٣", "is not a number"),
        ("main;f ", "is not a number"),
        ("main;;f 3", "frame 2 has no name"),
        (" 3", "frame 1 has no name"),
        ("main 1" + "0" * 5000, "5001 digits"),
        ("x" * 500, "'" + "x" * 40 + "…'"),
    ],
)
def test_a_damaged_line_is_named_with_what_is_wrong(line: str, words: str) -> None:
    with pytest.raises(StacksFileError) as caught:
        parse_stacks(f"main;good 1\n\n{line}\nmain;good 2\n", "a.folded")
    assert str(caught.value).startswith("a.folded, line 3: ")
    assert words in str(caught.value)
    assert isinstance(caught.value, TorchmarkError)
    assert len(str(caught.value)) < 250


@given(stacks())
def test_speedscope_gets_the_stacks_as_samples(drawn: list[Stack]) -> None:
    document = json.loads(render_speedscope(drawn, name="torch.add"))
    (profile,) = document["profiles"]
    names = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(names) == len(set(names))
    read = {
        tuple(names[frame] for frame in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert read == dict(merge_stacks(drawn))
    assert profile["endValue"] - profile["startValue"] == sum(read.values())


def test_speedscope_finds_what_its_schema_asks_for() -> None:
    document = json.loads(render_speedscope([Stack(("f",), 3)], name="torch.add"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert document["name"] == "torch.add"
    assert document["shared"] == {"frames": [{"name": "f"}]}
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"]) == ("sampled", "none")
    assert (profile["samples"], profile["weights"]) == ([[0]], [3])

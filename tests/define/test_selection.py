"""`-k` means what it says, and a pattern that means nothing is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.selection import selected
from torchmark.errors import PatternError
from torchmark.model.case import Autograd, Case, Language, Runtime

CASES = tuple(
    Case(label=("Pointwise", name), stmt="x", language=language, runtime=Runtime.EAGER,
         autograd=Autograd.FORWARD)
    for name in ("add", "add in place", "multiply", "or (odd)")
    for language in Language
)  # fmt: skip


def titles(pattern: str) -> list[str]:
    return [
        f"{case.label[1]} {'C++' if case.language is Language.CPP else 'Py'}"
        for case in selected(CASES, pattern)
    ]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("multiply", ["multiply Py", "multiply C++"]),
        ("MULTIPLY python", ["multiply Py"]),
        ("add not place", ["add Py", "add C++"]),
        ("add and not c++", ["add Py", "add in place Py"]),
        ("(multiply or place) C++", ["add in place C++", "multiply C++"]),
        ("multiply or add and place", ["add in place Py", "add in place C++", "multiply Py",
                                       "multiply C++"]),
        ("not (add or multiply) and not not C++", ["or (odd) C++"]),
        ("'or (odd)' python", ["or (odd) Py"]),
        ('"add in"', ["add in place Py", "add in place C++"]),
        ("nothing", []),
    ],
)  # fmt: skip
def test_words_are_joined_as_in_pytest(pattern: str, expected: list[str]) -> None:
    assert titles(pattern) == expected


def test_an_empty_pattern_means_all() -> None:
    assert selected(CASES, "") == selected(CASES, "  ") == CASES


def test_an_id_is_meant_as_a_whole() -> None:
    """A part of it can be a word: `add` are three hexadecimal digits."""
    assert selected(CASES, CASES[3].id.upper()) == (CASES[3],)
    for case in CASES:
        parts = {case.id[start : start + 3] for start in range(len(case.id) - 2)} - {"add"}
        assert all(selected(CASES, part) == () for part in parts)


@pytest.mark.parametrize("pattern", ["(" * 5000 + "add" + ")" * 5000, "not " * 5001 + "add"])
def test_what_nobody_writes_by_hand_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="nested"):
        selected(CASES, pattern)
    assert selected(CASES, "(" * 50 + "add" + ")" * 50)


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("(add", 4), ("add)", 3), ("not", 3), ("or add", 0), ("add and", 7), ("add or or x", 7),
     ("()", 1)],
)  # fmt: skip
def test_a_bad_pattern_is_pointed_at(pattern: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        selected(CASES, pattern)
    assert caught.value.position == position
    assert f"\n    {pattern}\n    {' ' * position}^\n" in str(caught.value)


WORDS = st.sampled_from(["add", "multiply", "c++", "place"])


@given(st.recursive(
    WORDS,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner) | st.tuples(inner),
))  # fmt: skip
def test_a_pattern_agrees_with_pythons_own_reading(tree: object) -> None:
    def written(tree: object) -> tuple[str, str]:
        """The pattern, and what Python evaluates."""
        if isinstance(tree, str):
            return tree, f"({tree!r} in text)"
        assert isinstance(tree, tuple)
        if len(tree) == 1:
            ours, pythons = written(tree[0])
            return f"not ({ours})", f"(not {pythons})"
        left, right = written(tree[1]), written(tree[2])
        return f"({left[0]}) {tree[0]} ({right[0]})", f"({left[1]} {tree[0]} {right[1]})"

    ours, pythons = written(tree)
    assert selected(CASES, ours) == tuple(
        case for case in CASES if eval(pythons, {"text": case.title.lower()})
    )


@given(st.text(alphabet="ab ()'\"notrd", max_size=15))
def test_any_text_is_a_pattern_or_an_error_inside_of_it(text: str) -> None:
    position = 0
    try:
        selected(CASES, text)
    except PatternError as error:
        position = error.position
    assert 0 <= position <= len(text)

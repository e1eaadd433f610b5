"""Signatures are read as Python would read them, and complaints point at the character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.signature import OUTPUT_TYPES, Output, Signature, Variable
from torchmark.errors import SignatureError

NAMES = st.sampled_from(["x", "y", "z", "w0", "_", "größe", "hidden_1", "f"])
ARGUMENT_TYPES = st.sampled_from(["Tensor", "int", "List[int]", "Dict[str, List[Tensor]]"])


def output_of(tree: list[object] | str, types: list[str]) -> Output:
    if isinstance(tree, str):
        return Variable(name=tree, type=types[ord(tree[0]) % len(types)])
    return tuple(output_of(part, types) for part in tree)  # type: ignore[arg-type]


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    arguments = draw(st.lists(NAMES, unique=True, max_size=4))
    names = iter(draw(st.permutations(["x", "y", "z", "w0", "h", "c"])))
    shape = draw(st.sampled_from([["a"], ["a", "b"], ["a", ["b", "c"]], [["a"], "b"], "a", None]))
    types = draw(st.permutations(OUTPUT_TYPES))

    def named(tree: object) -> object:
        return [named(part) for part in tree] if isinstance(tree, list) else next(names)

    return Signature(
        name=draw(NAMES),
        args=tuple(Variable(name=name, type=draw(ARGUMENT_TYPES)) for name in arguments),
        output=None if shape is None else output_of(named(shape), list(types)),  # type: ignore[arg-type]
    )


@given(signatures())
def test_a_signature_that_is_written_and_read_is_the_same(signature: Signature) -> None:
    assert Signature.parse(str(signature)) == signature


@given(signatures(), st.sampled_from(["", " ", "  ", "\n\t"]))
def test_blanks_mean_nothing(signature: Signature, blanks: str) -> None:
    spread = str(signature)
    for mark in ("->", "(", ")", ",", ":"):
        spread = spread.replace(mark, f"{blanks}{mark}{blanks}")
    assert Signature.parse(spread) == signature


@given(st.text(alphabet="fxy ,()->:[]None.1é", max_size=20))
def test_any_text_is_a_signature_or_an_error_inside_of_the_text(text: str) -> None:
    position = 0
    try:
        Signature.parse(text)
    except SignatureError as error:
        position = error.position
    assert 0 <= position <= len(text)


def test_the_signature_of_the_seed() -> None:
    signature = Signature.parse("f(x, w) -> y")
    assert signature == Signature(
        name="f", args=(Variable(name="x"), Variable(name="w")), output=Variable(name="y")
    )


@pytest.mark.parametrize(
    ("text", "outputs", "assigned"),
    [
        ("f() -> None", [], "None"),
        ("f(x) -> y", ["y"], "y"),
        ("f(x) -> (y)", ["y"], "y"),
        ("f(x) -> (y,)", ["y"], "(y,)"),
        ("f(x) -> y, z", ["y", "z"], "y, z"),
        ("f(x) -> (y, z)", ["y", "z"], "y, z"),
        ("f(x,) -> y, (h, c)", ["y", "h", "c"], "y, (h, c)"),
    ],
)
def test_outputs_may_be_several_and_nested(text: str, outputs: list[str], assigned: str) -> None:
    signature = Signature.parse(text)
    assert [output.name for output in signature.outputs] == outputs
    assert signature.py_output == assigned


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 0, "expected the name of a function, but the text ends"),
        ("f", 1, "expected '(', but the text ends"),
        ("f(x, w -> y", 7, "expected ')', got '->'"),
        ("f(x w) -> y", 4, "expected ')', got 'w'"),
        ("f(x, 1) -> y", 5, "expected a variable, got '1'"),
        ("f(x)", 4, "expected '->'"),
        ("f(x) => y", 5, "expected '->', got '='"),
        ("f(x) ->", 7, "expected a variable, but the text ends"),
        ("f(x) -> y z", 10, "expected the end, got 'z'"),
        ("f(x) -> (y, z", 13, "expected ')'"),
        ("f(x) -> ()", 9, "expected a variable"),
        ("f(x) -> y, None", 11, "None is not a variable"),
        ("f(x, x) -> y", 5, "duplicate variable x"),
        ("f(x) -> y, (z, y)", 15, "duplicate variable y"),
        ("f(lambda) -> y", 2, "lambda is a Python keyword"),
        ("f(jit_model) -> y", 2, "the name jit_model is reserved by torchmark"),
        ("f(x) -> torch", 8, "the name torch is reserved"),
        ("f(x: ) -> y", 5, "expected a type"),
        ("f(x) -> y: List[int]", 11, "an output must be one of Tensor, int, float, bool"),
        ("f(x: List[int) -> y", 13, "expected ']'"),
        ("f(*x) -> y", 2, "expected a variable, got '*'"),
    ],
)
def test_the_error_points_at_the_character(text: str, position: int, says: str) -> None:
    with pytest.raises(SignatureError) as caught:
        Signature.parse(text)
    assert caught.value.position == position
    message, line, caret, remedy = str(caught.value).split("\n")
    assert says in message
    assert line == f"    {text}"
    assert caret == " " * (4 + position) + "^"
    assert "f(x, w) -> y" in remedy


def test_a_signature_over_several_lines_is_shown_on_one() -> None:
    with pytest.raises(SignatureError) as caught:
        Signature.parse("f(x,\n  w -> y")
    assert "    f(x,   w -> y\n             ^\n" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "f(x) -> " + "(" * 5_000 + "y" + ")" * 5_000,
        "f(x: " + "List[" * 5_000 + "int" + "]" * 5_000 + ") -> y",
    ],
)
def test_what_nobody_writes_by_hand_is_refused(text: str) -> None:
    with pytest.raises(SignatureError, match="more than 100 nested brackets") as raised:
        Signature.parse(text)
    assert len(str(raised.value)) < 500


def test_brackets_side_by_side_are_not_within_each_other() -> None:
    outputs = ", ".join(f"(y{number},)" for number in range(200))
    assert len(Signature.parse(f"f(x) -> {outputs}").outputs) == 200

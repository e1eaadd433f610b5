"""Names that stand in a trace: which of them may be what they claim, and how text is shown.

A trace may come from anybody. A name that becomes part of a look-up must have the form of such a
name, or the file is refused; text that is only shown is made harmless.
"""

from __future__ import annotations

import re

_LONGEST_NAME = 200
"""The longest of torch's own operators has 61 characters."""

_LONGEST_TEXT = 2_000
"""Of what is only shown: paths of modules, commands, sentences."""

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_OPERATOR = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})\.({_IDENTIFIER})")
_KEYWORD = re.compile(_IDENTIFIER)
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_DEVICE = re.compile(r"[a-z][a-z_]*(:[0-9]{1,4})?")

_OPERATORS_IN_UNDERSCORES = frozenset(
    f"__{name}__"
    for name in (
        "and", "iand", "or", "ior", "xor", "ixor", "lshift", "ilshift", "rshift", "irshift",
        "contains", "getitem", "is", "isnot", "not", "round_to_zero_floordiv",
    )
)  # fmt: skip
"""aten's own; every other name of this form is an attribute of Python."""

_UNPRINTABLE = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff]"
)
"""Control characters, marks that turn the direction of writing, halves of characters."""


def is_operator(name: str) -> bool:
    """Whether it has the form of an operator with its overload.

    >>> is_operator("aten.add.Tensor"), is_operator("aten.__and__.Scalar")
    (True, True)
    >>> is_operator("os.system"), is_operator("aten.__class__.default")
    (False, False)
    """
    match = _OPERATOR.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if match is None:
        return False
    namespace, operator, overload = match.groups()
    return not (
        _is_of_python(namespace)
        or _is_of_python(overload)
        or (_is_of_python(operator) and operator not in _OPERATORS_IN_UNDERSCORES)
    )


def is_keyword(name: str) -> bool:
    """Whether it can be the name of an operator's argument."""
    return (
        len(name) <= _LONGEST_NAME
        and _KEYWORD.fullmatch(name) is not None
        and not _is_of_python(name)
    )


def is_word(name: str) -> bool:
    """Whether it can be the name of a dtype, a layout or a memory format."""
    return len(name) <= _LONGEST_NAME and _WORD.fullmatch(name) is not None


def is_device(name: str) -> bool:
    """
    >>> is_device("cuda:0"), is_device("cuda:x")
    (True, False)
    """
    return len(name) <= _LONGEST_NAME and _DEVICE.fullmatch(name) is not None


def harmless(text: str, longest: int = _LONGEST_TEXT) -> str:
    r"""Text for people: nothing in it moves a cursor or turns a line around, and it has an end.

    >>> harmless("a\x1b[31m\nb"), harmless("abcdef", longest=4)
    ('a?[31m?b', 'abc…')
    """
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return _UNPRINTABLE.sub("?", shown)


def _is_of_python(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")

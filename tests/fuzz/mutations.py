"""Valid texts and what damage, mistakes and malice make of them.

A change is drawn as numbers and odd pieces and applied by a pure function, so hypothesis shrinks a
finding to the few changes that matter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_ASKED = os.environ.get("TORCHMARK_FUZZ")

fuzz = settings(
    max_examples=int(_ASKED or 150),
    derandomize=_ASKED is None,  # CI sees the same examples every time; a longer run sees others
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ODD_TEXTS = (
    "", " ", "\n", "\0", "\x1b[31m", "\r\n", "\t", "\ufeff", "\u202e", "é", "𝔸", "٣", "²", "\ud800",
    "-", "+", "--", "(", ")", "[", "]", "{", "}", '"', "'", "`", "\\", ",", ";", ":", ".", "=", "<",
    "*", "**", "@", "#", "%", "->", "not", "and", "or", "None", "True", "lambda", "inf", "nan",
    "NaN", "Infinity", "1e999", "-1e999", "1e-999", "0", "-0", "-1", "1_0", "0x10", "1j",
    "9223372036854775808", "-9223372036854775809", "9" * 30, "9" * 400, "9" * 5_000,
    "0x" + "f" * 5_000, "null", "true", "__class__", "__import__", "(" * 300, "[" * 3_000,
    "not " * 2_000, "-" * 9_000, "{" * 3_000, "a" * 10_000, "1e" + "9" * 50, "0" * 5_000,
)  # fmt: skip
"""Pieces that break parsers."""

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, float("inf"),
    float("-inf"), float("nan"), "", "a", "inf", "\0", "\ud800", "9" * 5_000, "a" * 10_000, [], {},
    [[]], [None], {"": None}, {"tensor": {}}, {"float": "nan"}, {"a": {"a": {"a": {}}}},
    [0] * 2_000,
)  # fmt: skip
"""In place of any part of a JSON document."""

_TOKENS = re.compile(r"\w+|\s+|.", re.DOTALL)


class Change(NamedTuple):
    kind: str
    place: int
    other: int
    odd: str


_CHANGES = st.lists(
    st.builds(
        Change,
        kind=st.sampled_from(["drop", "double", "replace", "insert", "swap", "cut", "repeat"]),
        place=st.integers(0, 10_000),
        other=st.integers(0, 10_000),
        odd=st.sampled_from(ODD_TEXTS) | st.text(max_size=6),
    ),
    max_size=5,
)


def texts_like(*examples: str) -> st.SearchStrategy[str]:
    """The examples with pieces dropped, doubled, replaced; and text of any kind."""
    return st.builds(_change_text, st.sampled_from(examples), _CHANGES) | st.text(max_size=80)


def _change_text(text: str, changes: Sequence[Change]) -> str:
    tokens = _TOKENS.findall(text)
    for change in changes:
        at, to = (place % (len(tokens) or 1) for place in (change.place, change.other))
        if change.kind == "insert":
            tokens.insert(at, change.odd)
        elif not tokens:
            continue
        elif change.kind == "drop":
            del tokens[at]
        elif change.kind == "double":
            tokens.insert(at, tokens[at])
        elif change.kind == "replace":
            tokens[at] = change.odd
        elif change.kind == "swap":
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif change.kind == "cut":
            del tokens[at:]
        else:
            tokens[at:to] = tokens[at:to] * 20
    return "".join(tokens)


def values_like(*examples: Any) -> st.SearchStrategy[Any]:
    """The JSON documents with parts of other types, without parts, or deep within themselves."""
    changes = st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from([*ODD_VALUES, "drop", "nest"])),
        min_size=1,
        max_size=4,
    )
    return st.builds(_change_value, st.sampled_from(examples), changes)


def _change_value(value: Any, changes: Sequence[tuple[int, Any]]) -> Any:
    for place, odd in changes:
        paths = list(_paths(value))
        value = _replaced(value, paths[place % len(paths)], odd)
    return value


def _paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part, the whole first; of long lists to the first parts alone."""
    yield above
    keys: Iterable[Any] = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(min(len(value), 50))
    for key in keys if len(above) < 50 else ():
        yield from _paths(value[key], (*above, key))


def _replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        if odd != "nest":
            return odd
        for _ in range(200):
            value = [value]
        return value
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if odd == "drop" and not rest:
        del copy[key]
    else:
        copy[key] = _replaced(value[key], tuple(rest), odd)
    return copy

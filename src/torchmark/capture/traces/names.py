"""Names that stand in a trace: which of them may be what they claim, and what torch calls them.

A trace may come from anybody. A name that becomes part of a look-up must have the form of such a
name, or the file is refused; text that is only shown is sanitized. Some traces name dtypes, layouts
and memory formats otherwise, by numbers or short names.
"""

from __future__ import annotations

import re
from typing import Any

_LONGEST_NAME = 200
"""The longest of torch's own operators has 61 characters."""

_LONGEST_TEXT = 2_000
"""Of what is only shown: paths of modules, commands, sentences."""

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_OPERATOR = re.compile(rf"({_IDENTIFIER})\.({_IDENTIFIER})\.({_IDENTIFIER})")
_KEYWORD = re.compile(_IDENTIFIER)

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


def sanitize(text: str, longest: int = _LONGEST_TEXT) -> str:
    r"""Text for people: nothing in it moves a cursor or turns a line around, and it has an end.

    >>> sanitize("a\x1b[31m\nb"), sanitize("abcdef", longest=4)
    ('a?[31m?b', 'abc…')
    """
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return _UNPRINTABLE.sub("?", shown)


def _is_of_python(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


DTYPES_BY_NUMBER = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
    "complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16",
    "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8", "bits16",
    "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz",
    "uint16", "uint32", "uint64",
    "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7",
    "int1", "int2", "int3", "int4", "int5", "int6", "int7",
    "float8_e8m0fnu", "float4_e2m1fn_x2",
)  # fmt: skip
"""The numbers that dtypes have where C++ passes them; new ones were only ever added at the end."""

LAYOUTS_BY_NUMBER = (
    "strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc",
    "jagged",
)  # fmt: skip

MEMORY_FORMATS_BY_NUMBER = (
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d",
)  # fmt: skip

DTYPES_BY_SHORT_NAME = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu", "f4e2m1fnx2": "float4_e2m1fn_x2",
    "c32": "complex32", "c64": "complex64", "c128": "complex128",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "b8": "bool", "b16": "bits16", "b1x8": "bits1x8",
}  # fmt: skip

DEVICES = frozenset({
    "cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla", "mtia", "ipu", "hip", "vulkan", "maia",
    "privateuseone",
})  # fmt: skip

_OTHER_DTYPES = {
    "half": "float16", "float": "float32", "double": "float64",
    "cfloat": "complex64", "cdouble": "complex128",
    "short": "int16", "int": "int32", "long": "int64",
}  # fmt: skip


def tagged_attribute(name: str) -> dict[str, Any]:
    """What `torch.NAME` is, as a tagged value; opaque if a trace has nothing of that kind.

    >>> tagged_attribute("bool"), tagged_attribute("strided"), tagged_attribute("load")
    ({'dtype': 'bool'}, {'layout': 'strided'}, {'opaque': 'torch.load'})
    """
    if name in DTYPES_BY_NUMBER or name in _OTHER_DTYPES:
        return {"dtype": _OTHER_DTYPES.get(name, name)}
    if name in LAYOUTS_BY_NUMBER:
        return {"layout": name}
    if name in MEMORY_FORMATS_BY_NUMBER:
        return {"memory_format": name}
    return {"opaque": f"torch.{name}"}

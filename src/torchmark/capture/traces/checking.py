"""Values of a call, checked: tagged JSON as docs/trace-format.md has it, and nothing beside it.

A trace is data that anybody may have written. What passes here has the types, signs and names that
the form promises; how large a tensor is does not matter here, as none is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from torchmark.capture.traces.names import is_device, is_word, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable

_DEEPEST = 32
"""Values within values; torch's own operators have lists of lists at most."""

_LARGEST = 2**63 - 1
"""Sizes, strides and counts are signed numbers of 64 bits everywhere in torch."""

_MOST_LISTED = 64
"""Elements of a small tensor that a record may hold."""

_ORDERS = ("ascending", "descending", "none")


class WrongValueError(ValueError):
    """Something in a line that the form does not allow; whoever knows the line catches it."""


def check_value(value: Any, depth: int = 0) -> Any:
    """The value itself, if it is tagged JSON."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth >= _DEEPEST:
        _fail(f"has values nested deeper than {_DEEPEST}")
    if isinstance(value, list):
        for part in value:
            check_value(part, depth + 1)
        return value
    tag, content = _tagged(value)
    check = _BY_TAG.get(tag)
    if check is None:
        _fail(f"has a value of the unknown kind {_show(tag)}")
    check(content, depth + 1)
    return value


def check_number(value: Any, what: str, *, smallest: int = 0) -> int:
    """A whole number from `smallest` on that fits into 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        _fail(f"has {what} {_show(value)}; it must be a whole number")
    if not smallest <= value <= _LARGEST:
        _fail(f"has {what} {_show(value)}; it must be from {smallest} to 2**63 - 1")
    return int(value)


def check_keys(value: Any, what: str, needed: tuple[str, ...], allowed: frozenset[str]) -> None:
    """An object with the needed keys, and no other ones than those allowed."""
    if not isinstance(value, dict):
        _fail(f"has {what} {_show(value)}; it must be an object")
    missing = [key for key in needed if key not in value]
    if missing:
        _fail(f"has {what} without {' and '.join(missing)}")
    unknown = [key for key in value if key not in allowed]
    if unknown:
        _fail(f"has {what} with the unknown key {_show(unknown[0])}")


def _tensor(content: Any, depth: int) -> None:
    check_keys(content, "a tensor", ("shape", "dtype"), _TENSOR_KEYS)
    for key, value in content.items():
        _TENSOR_CHECKS[key](value, depth)
    strides = content.get("strides")
    if strides is not None and len(strides) != len(content["shape"]):
        _fail(f"has a tensor of {len(content['shape'])} sizes and {len(strides)} strides")


def _numbers(what: str) -> Callable[[Any, int], None]:
    def check(value: Any, _: int) -> None:
        if not isinstance(value, list):
            _fail(f"has {what}s {_show(value)}; they must be a list of numbers")
        for number in value:
            check_number(number, f"a {what}")

    return check


def _number(what: str) -> Callable[[Any, int], None]:
    def check(value: Any, _: int) -> None:
        check_number(value, what)

    return check


def _flag(what: str) -> Callable[[Any, int], None]:
    def check(value: Any, _: int) -> None:
        if not isinstance(value, bool):
            _fail(f"has {what} {_show(value)}; it must be true or false")

    return check


def _name(what: str, is_valid: Callable[[str], bool]) -> Callable[[Any, int], None]:
    def check(value: Any, _: int) -> None:
        if not isinstance(value, str) or not is_valid(value):
            _fail(f"has {what} {_show(value)}, which is no such name")

    return check


def _parts(value: Any, depth: int) -> None:
    if not isinstance(value, dict) or depth >= _DEEPEST:
        _fail(f"has parts of a tensor {_show(value)}; they must be tensors by name")
    for name, part in value.items():
        if not is_word(name):
            _fail(f"has a part of a tensor {_show(name)}, which is no such name")
        _tensor(part, depth + 1)


def _values(value: Any, depth: int) -> None:
    """What is known of the content: bounds, sums and flags, and a short list."""
    check_keys(value, "values of a tensor", (), frozenset(_VALUE_CHECKS))
    for key, known in value.items():
        _VALUE_CHECKS[key](known, depth)


def _bound(value: Any, depth: int) -> None:
    if isinstance(value, (bool, str)) or value is None or isinstance(value, list):
        _fail(f"has a bound {_show(value)}; it must be a number")
    if not isinstance(value, (int, float)):
        tag, content = _tagged(value)
        if tag not in ("float", "complex"):
            _fail(f"has a bound {_show(value)}; it must be a number")
        _BY_TAG[tag](content, depth)


def _order(value: Any, _: int) -> None:
    if value not in _ORDERS:
        _fail(f"has an order {_show(value)}; it is one of {', '.join(_ORDERS)}")


def _listed(value: Any, _: int) -> None:
    if not isinstance(value, list) or len(value) > _MOST_LISTED:
        _fail(f"has values of a tensor that are no list of at most {_MOST_LISTED}")
    for element in value:
        if not isinstance(element, int):  # a bool is one too
            _fail(f"has {_show(element)} among the values of a tensor")


def _tuple(content: Any, depth: int) -> None:
    if not isinstance(content, list):
        _fail(f"has a tuple {_show(content)}; it must be a list")
    check_value(content, depth)


def _pairs(content: Any, depth: int) -> None:
    if not isinstance(content, list) or any(
        not isinstance(pair, list) or len(pair) != 2 for pair in content
    ):
        _fail(f"has a dict {_show(content)}; it must be a list of pairs")
    check_value(content, depth)


def _float(content: Any, _: int) -> None:
    if content not in ("inf", "-inf", "nan"):
        _fail(f"has a float {_show(content)}; it is one of inf, -inf, nan")


def _complex(content: Any, depth: int) -> None:
    if not isinstance(content, list) or len(content) != 2:
        _fail(f"has a complex {_show(content)}; it must be two numbers")
    for part in content:
        if isinstance(part, bool) or not isinstance(part, (int, float)):
            tag, inner = _tagged(part)
            if tag != "float":
                _fail(f"has a complex {_show(content)}; it must be two numbers")
            _float(inner, depth)


def _text(content: Any, _: int) -> None:
    if not isinstance(content, str):
        _fail(f"has the name of a type {_show(content)}; it must be text")


_BY_TAG: dict[str, Callable[[Any, int], None]] = {
    "tensor": _tensor,
    "tuple": _tuple,
    "dict": _pairs,
    "float": _float,
    "complex": _complex,
    "dtype": _name("a dtype", is_word),
    "device": _name("a device", is_device),
    "layout": _name("a layout", is_word),
    "memory_format": _name("a memory format", is_word),
    "generator": _name("a generator's device", is_device),
    "opaque": _text,
}

_TENSOR_CHECKS: dict[str, Callable[[Any, int], None]] = {
    "shape": _numbers("size"),
    "dtype": _name("a dtype", is_word),
    "device": _name("a device", is_device),
    "strides": _numbers("stride"),
    "offset": _number("an offset"),
    "storage": _number("a number of storage"),
    "storage_bytes": _number("a size of storage"),
    "requires_grad": _flag("requires_grad"),
    "parameter": _flag("parameter"),
    "conj": _flag("conj"),
    "neg": _flag("neg"),
    "layout": _name("a layout", is_word),
    "parts": _parts,
    "coalesced": _flag("coalesced"),
    "values": _values,
    "exact": _name("exact content", lambda name: name.replace(".", "", 1).isdecimal()),
}
_TENSOR_KEYS = frozenset(_TENSOR_CHECKS)

_VALUE_CHECKS: dict[str, Callable[[Any, int], None]] = {
    "min": _bound,
    "max": _bound,
    "sum": _bound,
    "distinct": _number("a number of different elements"),
    "true": _number("a number of true elements"),
    "nonfinite": _flag("nonfinite"),
    "symmetric": _flag("symmetric"),
    "offsets": _flag("offsets"),
    "order": _order,
    "list": _listed,
}


def _tagged(value: Any) -> tuple[str, Any]:
    if not isinstance(value, dict) or len(value) != 1:
        _fail(f"has a value {_show(value)}; it must be an object with one key")
    return next(iter(value.items()))


def _show(value: Any) -> str:
    return sanitize(repr(value) if not isinstance(value, (list, dict)) else f"{value!r:.80}", 80)


def _fail(what: str) -> NoReturn:
    raise WrongValueError(what)

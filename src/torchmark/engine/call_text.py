"""A call, as the text under which a report shows it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_LONGEST = 40


def describe_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """`torch.add(float32[4, 4], 1)`: the name as people write it, tensors by type and shape.

    >>> describe_call(max, (1, 2.5), {"key": None})
    'max(1, 2.5, key=None)'
    """
    passed = [_describe(value) for value in args]
    passed += [f"{name}={_describe(value)}" for name, value in kwargs.items()]
    return f"{_name_of(function)}({', '.join(passed)})"


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    if name is None:
        return _number(function, type(function).__name__)
    # torch's builtins name private classes; people know them as torch.add and Tensor.add.
    for private, public in (("_VariableFunctionsClass.", "torch."), ("TensorBase.", "Tensor.")):
        if name.startswith(private):
            return public + str(name.removeprefix(private))
    if (getattr(function, "__module__", None) or "").startswith("torch.nn.functional"):
        return f"F.{name}"
    return _number(function, str(name).rpartition("<locals>.")[2])


_namesakes: dict[str, list[weakref.ref[Any]]] = {}


def _number(function: Callable[..., Any], name: str) -> str:
    """Tell functions of one name apart: results of equal text are taken for replicates."""
    known = [ref for ref in _namesakes.get(name, []) if ref() is not None]
    _namesakes[name] = known
    for number, ref in enumerate(known, start=1):
        if ref() == function:
            return name if number == 1 else f"{name} #{number}"
    try:
        known.append(weakref.ref(function))
    except TypeError:  # a kind of callable that cannot be referred to so
        return name
    return name if len(known) == 1 else f"{name} #{len(known)}"


def _describe(value: Any) -> str:
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            dtype = str(value.dtype).removeprefix("torch.")
            return f"{dtype}[{', '.join(map(str, value.shape))}]"
        text = repr(value)
    except Exception:
        return type(value).__name__
    return text if len(text) <= _LONGEST and "\n" not in text else type(value).__name__

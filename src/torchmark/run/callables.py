"""A call, as the text under which a report shows it."""

from __future__ import annotations

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
        return type(function).__name__
    module = getattr(function, "__module__", None) or ""
    # torch's builtins name private classes; people know them as torch.add and Tensor.add.
    for private, public in (("_VariableFunctionsClass.", "torch."), ("TensorBase.", "Tensor.")):
        if name.startswith(private):
            return public + str(name.removeprefix(private))
    if module.startswith("torch.nn.functional"):
        return f"F.{name}"
    return str(name).rpartition("<locals>.")[2]


def _describe(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{dtype}[{', '.join(map(str, value.shape))}]"
    text = repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else type(value).__name__

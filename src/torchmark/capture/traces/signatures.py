"""Show a call in one line: `float32[64, 128], float32[128, 32], alpha=2`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchmark.capture.traces.checking import sanitize
from torchmark.model.trace import RecordedCall

_LONGEST = 200
"""Characters of a signature. Showing more of a list of hundreds of tensors would not help."""

_MOST_SHOWN = 8
"""Elements of a list that are shown. Most lists of numbers are shapes."""

_MOST_TENSORS_SHOWN = 2
_LONGEST_TEXT = 40
_LONGEST_FLOAT = 8
"""Characters. A longer float is shown with six digits."""


def signature_of(call: RecordedCall) -> str:
    """The arguments of a call as text. Equal calls have equal signatures.

    Different calls may have equal signatures, too, if they differ only in values, shared memory or
    gradients. Keyword arguments that are None are left out.

    >>> from torchmark.model.trace import RecordedCall
    >>> x = {"tensor": {"shape": [64, 128], "dtype": "float32"}}
    >>> y = {"tensor": {"shape": [64, 128], "dtype": "int64", "strides": [1, 64]}}
    >>> signature_of(RecordedCall(op="aten.add.Tensor", schema=None, args=(x, y),
    ...                           kwargs={"alpha": 2}))
    'float32[64, 128], int64[64, 128] strides (1, 64), alpha=2'
    """
    parts = [value_text(value) for value in call.args]
    given = {name: value for name, value in call.kwargs.items() if value is not None}
    parts += [f"{name}={value_text(value)}" for name, value in given.items()]
    return sanitize(", ".join(parts), _LONGEST)


def value_text(value: Any) -> str:
    """One tagged value.

    >>> value_text({"float": "-inf"}), value_text([1, 2]), value_text(None), value_text("mean")
    ('-inf', '[1, 2]', 'None', "'mean'")
    >>> value_text(1.0), value_text(0.09999999999999998)
    ('1.0', '0.1')
    """
    if isinstance(value, str):
        return repr(sanitize(value, _LONGEST_TEXT))
    if isinstance(value, list):
        return _list_text(value, "[", "]")
    if isinstance(value, float) and len(repr(value)) > _LONGEST_FLOAT:
        return f"{value:.6g}"
    if not isinstance(value, dict):
        return repr(value)
    tag, content = next(iter(value.items()))
    return _BY_TAG.get(tag, str)(content)


def tensor_text(tensor: Mapping[str, Any]) -> str:
    """
    >>> tensor_text({"shape": [], "dtype": "float32", "device": "cuda:0"})
    'float32[] on cuda:0'
    """
    text = f"{tensor['dtype']}{_list_text(tensor['shape'], '[', ']')}"
    if "layout" in tensor:
        text += f" {tensor['layout']}"
    if "strides" in tensor and not is_contiguous(tensor["shape"], tensor["strides"]):
        text += f" strides {_list_text(tensor['strides'], '(', ')')}"
    return text + (f" on {tensor['device']}" if tensor.get("device", "cpu") != "cpu" else "")


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie one after the other, row by row.

    >>> is_contiguous([2, 1, 3], [3, 99, 1]), is_contiguous([2, 3], [1, 2])
    (True, False)
    """
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _list_text(values: Sequence[Any], opening: str, closing: str) -> str:
    has_tensors = any(isinstance(value, dict) and "tensor" in value for value in values)
    shown = _MOST_TENSORS_SHOWN if has_tensors else _MOST_SHOWN
    texts = [value_text(value) for value in values[:shown]]
    if len(values) > shown:
        texts.append(f"… {len(values) - shown} more")
    return opening + ", ".join(texts) + closing


def _dict_text(pairs: Sequence[Sequence[Any]]) -> str:
    texts = [f"{value_text(key)}: {value_text(item)}" for key, item in pairs[:_MOST_SHOWN]]
    return "{" + ", ".join(texts) + (", …" if len(pairs) > _MOST_SHOWN else "") + "}"


_BY_TAG: dict[str, Callable[[Any], str]] = {
    "tensor": tensor_text,
    "tuple": lambda values: _list_text(values, "(", ")"),
    "dict": _dict_text,
    "complex": lambda parts: f"complex({value_text(parts[0])}, {value_text(parts[1])})",
    "generator": lambda device: f"generator on {device}",
    "opaque": lambda name: f"<{sanitize(name, _LONGEST_TEXT)}>",
}
"""How each kind of tagged value is shown; other kinds are names, and are shown as they are."""

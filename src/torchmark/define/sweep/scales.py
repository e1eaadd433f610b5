"""The sizes of one dimension: a list, a range, or equal steps between two ends.

Sizes are whole numbers, in the order given, each once. What is written on the command line is read
as data: a number, several with commas, or one of the forms.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torchmark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LARGEST = 2**40
"""No tensor has more elements than that along one dimension: a mistake, not a size."""

_FORMS_TEXT = (
    "a list such as [1, 2, 4], range(1, 9), linspace(1, 100, 5) or logspace(0, 10, 11, base=2)"
)


def linspace(start: float, end: float, steps: int) -> list[int]:
    """`steps` sizes from `start` to `end`, both included, equally far apart and rounded.

    >>> linspace(1, 100, 4)
    [1, 34, 67, 100]
    """
    return _rounded([start + (end - start) * at for at in _shares("linspace", steps)])


def logspace(start: float, end: float, steps: int, base: float = 10) -> list[int]:
    """`steps` sizes from base**start to base**end, as `torch.logspace` has them, rounded.

    >>> logspace(0, 10, 6, base=2)
    [1, 4, 16, 64, 256, 1024]
    """
    if base <= 0 or max(abs(start), abs(end)) * abs(math.log2(base)) > math.log2(_LARGEST):
        raise InvalidArgumentError(
            f"logspace({start}, {end}, {steps}, base={base}) goes from {base}**{start} to "
            f"{base}**{end}, as torch.logspace does; for 1 to 1024 write "
            "logspace(0, 10, 11, base=2)"
        )
    return _rounded([base ** (start + (end - start) * at) for at in _shares("logspace", steps)])


def _shares(name: str, steps: int) -> list[float]:
    if type(steps) is not int or steps < 1:
        raise InvalidArgumentError(f"the steps of {name} must be 1, 2, …, got {steps!r}")
    return [at / max(1, steps - 1) for at in range(steps)]


def _rounded(values: Iterable[float]) -> list[int]:
    return list(dict.fromkeys(round(value) for value in values))


_FORMS: dict[str, Callable[..., Iterable[int]]] = {
    "range": range,
    "linspace": linspace,
    "logspace": logspace,
}


def sizes_of(dim: str, given: Any) -> tuple[int, ...]:
    """The sizes that a spec gives for a dimension; an error names it and the value."""
    if isinstance(given, str):
        values: Iterable[Any] = _read(dim, given)
    elif isinstance(given, Mapping):
        values = _by_name(dim, given)
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        values = given
    else:
        values = [given]
    sizes = tuple(dict.fromkeys(_whole(dim, value) for value in values))
    if not sizes:
        raise InvalidArgumentError(f"the dimension {dim!r} has no sizes; give it {_FORMS_TEXT}")
    return sizes


def setting(text: str) -> tuple[str, tuple[int, ...]]:
    """What `--set` says: the name of a dimension and its sizes.

    >>> setting("batch=1,2,4"), setting("rows = range(8, 32, 8)")
    (('batch', (1, 2, 4)), ('rows', (8, 16, 24)))
    """
    name, equals, form = text.partition("=")
    if not equals or not name.strip():
        raise InvalidArgumentError(f"--set {text!r}: write it like batch=8 or batch=1,2,4")
    return name.strip(), sizes_of(name.strip(), form.strip())


def _whole(dim: str, value: Any) -> int:
    is_number = not isinstance(value, bool | str)
    if is_number and hasattr(value, "__index__"):
        number = operator.index(value)  # numpy's and torch's integers too
    elif is_number and hasattr(value, "__float__") and float(value).is_integer():
        number = int(value)
    else:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has the size {value!r}, which is no whole number"
        )
    if abs(number) > _LARGEST:
        raise InvalidArgumentError(f"the dimension {dim!r} has the size {value}: too large")
    return number


def _by_name(dim: str, given: Mapping[Any, Any]) -> Iterable[int]:
    if len(given) != 1 or next(iter(given)) not in _FORMS:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has the sizes {dict(given)!r}; write one of "
            + ", ".join(f"{{{name!r}: […]}}" for name in _FORMS)
        )
    ((name, arguments),) = given.items()
    if isinstance(arguments, Mapping):
        return _make(dim, name, (), arguments)
    return _make(dim, name, arguments if isinstance(arguments, list | tuple) else [arguments], {})


def _make(
    dim: str, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterable[int]:
    try:
        return _FORMS[name](*arguments, **keywords)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"the dimension {dim!r}: {name}: {error}; write it like {_FORMS_TEXT}"
        ) from error


def _read(dim: str, text: str) -> Iterable[Any]:
    """Sizes from text: literals and calls of the forms, nothing else."""
    mistake = InvalidArgumentError(
        f"the dimension {dim!r} has the sizes {text!r}; write a number, several with commas, "
        f"or {_FORMS_TEXT}"
    )
    try:
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call):
            value = ast.literal_eval(node)
            return value if isinstance(value, list | tuple) else [value]
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}
    except (SyntaxError, ValueError, RecursionError) as error:
        raise mistake from error
    if not isinstance(node.func, ast.Name) or node.func.id not in _FORMS:
        raise mistake
    return _make(dim, node.func.id, arguments, keywords)

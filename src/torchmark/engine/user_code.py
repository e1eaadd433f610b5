"""Handles what users pass in: calls shown as text, globals to copy, and errors of statements.

Instructions are counted in another process, so every global has to be recreated there: plain
values as literals, Python modules by name, and tensors, `nn.Module`s and TorchScript from files in
a directory that only this user can read. The statement works on the copy; its changes do not come
back.

An error shows the user's own lines, because the frames of torchmark and its probe do not explain
the mistake. An exception keeps its type; only the frames between the call of torchmark and the
statement are removed.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal

from torchmark.engine.machine import import_torch
from torchmark.engine.zygote.conversation import syntax_error
from torchmark.errors import NotTransferableError
from torchmark.model.case import trimmed
from torchmark_probe.loops.snippets import SOURCE_PREFIX, SnippetSyntaxError
from torchmark_probe.zygote.handlers import describe_error
from torchmark_probe.zygote.messages import SyntaxFailed

_LONGEST = 40
"""Arguments with a longer repr are shown by type."""

_UNDERSTOOD = (
    "plain values, Python modules, tensors, nn.Modules, and TorchScript functions and modules"
)


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
    """Number functions that share a name: results with equal text count as replicates."""
    known = [ref for ref in _namesakes.get(name, []) if ref() is not None]
    _namesakes[name] = known
    for number, ref in enumerate(known, start=1):
        if ref() == function:
            return name if number == 1 else f"{name} #{number}"
    try:
        known.append(weakref.ref(function))
    except TypeError:  # this kind of callable does not support weak references
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


@dataclass(frozen=True, slots=True, eq=False)
class CopyIfCallgrind:
    """Marks a global that may be replaced by a copy when instructions are counted.

    `setup` runs in the counting process before the copy is made, for example an import of the file
    that defines a module's class. `Timer.collect_callgrind` requires the mark, as torch's does;
    `count_together` does not.
    does; `count_together` does not.

    >>> CopyIfCallgrind(3, setup="import math").value
    3
    """

    value: Any
    setup: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _kind_of("", self.value)

    @staticmethod
    def unwrap_all(globals: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002 - torch's name
        """Return the plain values, for the process that has them."""
        return {
            name: value.value if isinstance(value, CopyIfCallgrind) else value
            for name, value in globals.items()
        }


def check_marked(globals: Mapping[str, Any]) -> None:  # noqa: A002
    """Refuse the globals that torch's `collect_callgrind` refuses, with its message."""
    free = ("torch", "__builtins__")
    plain = [
        name
        for name, value in globals.items()
        if name not in free and not isinstance(value, CopyIfCallgrind)
    ]
    if plain:
        raise NotTransferableError(
            "`collect_callgrind` requires that globals be wrapped in `CopyIfCallgrind` so that "
            f"serialization is explicit. Not wrapped: {', '.join(sorted(plain))}. "
            "`torchmark.count_together([timer])` copies them as they are"
        )


def recipes_for(globals: Mapping[str, Any], directory: Path) -> dict[str, dict[str, Any]]:  # noqa: A002
    """Describe how the probe recreates each global; files are written into `directory`."""
    return {
        name: _recipe(name, value, directory)
        for name, value in globals.items()
        if name != "__builtins__"
    }


def _recipe(name: str, given: Any, directory: Path) -> dict[str, Any]:
    marked = isinstance(given, CopyIfCallgrind)
    value = given.value if marked else given
    kind = _kind_of(name, value)
    recipe: dict[str, Any] = {"kind": kind}
    if marked and given.setup:
        recipe["setup"] = trimmed(given.setup)
    if kind == "literal":
        return recipe | {"value": repr(value)}
    if kind == "import":
        return recipe | {"value": value.__name__}
    path = directory / f"{name}.pt"
    torch = import_torch()
    if kind == "script":
        torch.jit.save(value, str(path))
    else:
        torch.save(value, path)
    return recipe | {"path": str(path)}


def _kind_of(name: str, value: Any) -> Literal["literal", "import", "torch", "pickle", "script"]:
    """Return how a value is transferred, or raise an error that names the global."""
    torch = import_torch()
    if isinstance(value, ModuleType):
        return "import"
    if isinstance(value, (torch.jit.ScriptFunction, torch.jit.ScriptModule)):
        return "script"
    if isinstance(value, torch.Tensor):
        return "torch"
    if _is_literal(value):
        return "literal"
    # Everything that torch accepts, including nan, numpy.float64 and members of an IntEnum.
    if isinstance(value, (torch.nn.Module, str, bytes, int, float, complex)):
        return "pickle"
    where = f"the global {name!r} is" if name else "got"
    raise NotTransferableError(
        f"{where} a {type(value).__name__}, which cannot be copied into the counting process. "
        f"Supported are {_UNDERSTOOD}. Create it in setup instead"
    )


def _is_literal(value: Any) -> bool:
    """Whether a Python literal can represent the value: numbers, text, bytes, and lists of them."""
    try:
        copy = ast.literal_eval(repr(value))
        return type(copy) is type(value) and bool(copy == value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False


@contextmanager
def as_user_error() -> Iterator[None]:
    """Convert the probe's syntax error into torchmark's."""
    try:
        yield
    except SnippetSyntaxError as failure:
        described = describe_error(failure)
        assert isinstance(described, SyntaxFailed)
        raise syntax_error(described) from None


class users_frames_only:  # noqa: N801 - reads as a statement in `with`
    """Removes the frames of the loop around the statement from an exception's traceback."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        while frames is not None and not _is_snippet(frames):
            frames = frames.tb_next
        if error is not None and frames is not None:
            error.__traceback__ = frames


def _is_snippet(frames: TracebackType) -> bool:
    return frames.tb_frame.f_code.co_filename.startswith(SOURCE_PREFIX)

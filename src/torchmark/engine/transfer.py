"""The globals of a statement, on their way into the process that counts it.

There is a process boundary between the caller and the statement, so every global has to be made
again on the other side: plain values as literals, modules of Python by name, tensors, `nn.Module`s
and TorchScript as files in a directory that only this user can read. A copy is not the original: a
change that the statement makes to it stays over there.
"""

from __future__ import annotations

import ast
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from torchmark.engine.local_torch import import_torch
from torchmark.errors import NotTransferableError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Kind = Literal["literal", "import", "torch", "module", "script"]

_UNDERSTOOD = (
    "plain values, Python's modules, tensors, nn.Modules, TorchScript functions and modules"
)


class CopyIfCallgrind:
    """Says that a global may be replaced by a copy when instructions are counted.

    `setup` is run in the counting process before the copy is made, for instance the import of the
    file that defines the class of a module. The mark itself is optional here; torch demands it.

    >>> CopyIfCallgrind(3, setup="import math").value
    3
    """

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        kind_of("", value)
        self._value = value
        self._setup = setup

    @property
    def value(self) -> Any:
        return self._value

    @property
    def setup(self) -> str | None:
        return self._setup

    @staticmethod
    def unwrap_all(globals: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002 - torch's name
        """The values themselves, for the process that has them."""
        return {
            name: value.value if isinstance(value, CopyIfCallgrind) else value
            for name, value in globals.items()
        }


def kind_of(name: str, value: Any) -> Kind:
    """How a value travels, or an error that names the global."""
    torch = import_torch()
    if isinstance(value, ModuleType):
        return "import"
    if isinstance(value, (torch.jit.ScriptFunction, torch.jit.ScriptModule)):
        return "script"
    if isinstance(value, torch.nn.Module):
        return "module"
    if isinstance(value, torch.Tensor):
        return "torch"
    if _is_literal(value):
        return "literal"
    where = f"the global {name!r} is" if name else "got"
    raise NotTransferableError(
        f"{where} a {type(value).__name__}, which cannot be copied into the counting process; "
        f"it takes {_UNDERSTOOD}. Make it in setup instead"
    )


def recipes_for(globals: Mapping[str, Any], directory: Path) -> dict[str, dict[str, Any]]:  # noqa: A002
    """How the probe makes each global again; files are written into `directory`."""
    return {
        name: _recipe(name, value, directory)
        for name, value in globals.items()
        if name != "__builtins__"
    }


def _recipe(name: str, given: Any, directory: Path) -> dict[str, Any]:
    marked = isinstance(given, CopyIfCallgrind)
    value = given.value if marked else given
    kind = kind_of(name, value)
    recipe: dict[str, Any] = {"kind": kind}
    if marked and given.setup:
        recipe["setup"] = given.setup
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


def _is_literal(value: Any) -> bool:
    """Whether Python's own notation holds the value: numbers, text, bytes, and lists of them."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return False

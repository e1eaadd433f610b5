"""Something to do as soon as somebody has imported a module, without importing it for them."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


@contextlib.contextmanager
def when_imported(name: str, then: Callable[[ModuleType], None]) -> Iterator[None]:
    """Calls `then` with the module: now if it is there, else right after its first import."""
    if name in sys.modules:
        then(sys.modules[name])
        yield
        return
    finder = _Finder(name, then)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds nothing itself: lets the others find the module, and waits at its loader."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,  # noqa: ARG002 - those who find it are asked by its name
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_tell(module: ModuleType) -> None:
                del loader.exec_module  # of this loader alone: the class has its own
                execute(module)
                self._then(module)

            loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec

from __future__ import annotations

import ctypes
import importlib
import platform
import sys
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, cast

import pytest

from torchmark_probe.zygote import valgrind
from torchmark_probe.zygote.valgrind import UnwatchedImports

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark_probe.zygote.valgrind import Requests


def test_without_valgrind_every_request_is_answered_with_nothing() -> None:
    requests = valgrind.requests()
    assert requests.running_on_valgrind() == 0
    assert requests.toggle_collect() == 0
    assert requests.zero_stats() == 0
    assert requests.start_instrumentation() == 0
    assert requests.stop_instrumentation() == 0
    assert requests.dump_stats() == 0


def test_the_toggle_is_a_c_function_without_arguments() -> None:
    requests = valgrind.requests()
    toggle: Any = requests.toggle_collect
    address = ctypes.cast(toggle, ctypes.c_void_p).value
    assert address
    ctypes.CFUNCTYPE(None)(address)()


def test_the_toggle_for_python_is_a_built_in_function() -> None:
    toggle = valgrind.requests().toggle_from_python
    assert isinstance(toggle, BuiltinFunctionType)
    for _ in range(1000):
        assert toggle() == 0


def test_another_machine_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        valgrind.requests()


class Callgrind:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def stop_instrumentation(self) -> int:
        self.asked.append("stop")
        return 0

    def start_instrumentation(self) -> int:
        self.asked.append("start")
        return 0


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two modules that nobody has imported; each notes nothing and needs nothing."""
    names = ["some_module_a", "some_module_b"]
    for name in names:
        (tmp_path / f"{name}.py").write_text("value = 1\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return names


def watched(callgrind: Callgrind) -> UnwatchedImports:
    return UnwatchedImports(cast("Requests", callgrind))


def test_it_looks_away_once_for_all_imports_and_back_at_the_end(modules: list[str]) -> None:
    callgrind, before = Callgrind(), list(sys.meta_path)
    imports = watched(callgrind)
    imports.begin()
    try:
        assert [importlib.import_module(name).value for name in modules] == [1, 1]
        assert callgrind.asked == ["stop"]
    finally:
        imports.end()
    assert callgrind.asked == ["stop", "start"]
    assert sys.meta_path == before


def test_a_setup_that_imports_nothing_new_is_watched_throughout() -> None:
    callgrind = Callgrind()
    imports = watched(callgrind)
    imports.begin()
    importlib.import_module("sys")
    imports.end()
    assert callgrind.asked == []


def test_what_is_imported_while_it_counts_is_counted(modules: list[str]) -> None:
    callgrind = Callgrind()
    imports = watched(callgrind)
    imports.begin()
    imports.end()
    importlib.import_module(modules[0])
    assert callgrind.asked == []

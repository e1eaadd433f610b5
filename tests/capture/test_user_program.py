"""Something happens right after somebody else's import, and leaves no trace."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from torchmark.capture.user_program import when_imported

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "torchmark_imported_late"
    (tmp_path / f"{name}.py").write_text("loaded = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_it_is_told_once_when_the_module_is_whole(module: str) -> None:
    finders, told = list(sys.meta_path), []

    def then(imported: ModuleType) -> None:
        told.append(imported.loaded)

    with when_imported(module, then):
        assert not told
        imported = importlib.import_module(module)
        importlib.import_module(module)
        assert told == [True]
    assert sys.meta_path == finders
    assert imported.__spec__ is not None
    assert "exec_module" not in vars(imported.__spec__.loader)
    del sys.modules[module]


def test_a_module_that_is_there_is_told_at_once() -> None:
    told = []
    with when_imported("json", lambda module: told.append(module.__name__)):
        assert told == ["json"]


def test_a_module_that_nobody_imports_is_not_told(module: str) -> None:
    finders: list[object] = list(sys.meta_path)
    told: list[ModuleType] = []
    with when_imported(module, told.append):
        pass
    assert (sys.meta_path, told, module in sys.modules) == (finders, [], False)


def test_a_module_that_is_missing_stays_missing() -> None:
    with (
        when_imported("torchmark_nowhere", lambda _: None),
        pytest.raises(ModuleNotFoundError, match="torchmark_nowhere"),
    ):
        importlib.import_module("torchmark_nowhere")

"""Bytecodes by function: exact, named alike in every environment, and nothing left switched on."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from torchmark_probe.loops.python_calls import by_function
from torchmark_probe.loops.snippets import PythonLoop

if TYPE_CHECKING:
    from pathlib import Path

STATEMENT = "the statement"

MODULE = """
def add(a, b):
    return a + b

def twice(a):
    return add(a, 0), add(a, 1)

class Adder:
    def __call__(self, a):
        return add(a, a)

def fails():
    raise KeyError("no")

pair = (lambda a: a, lambda a: a + 1 + 2)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in a package that lies on the path."""
    package = tmp_path / "some_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "adding.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("some_package", "some_package.adding"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "some_package.adding"


def calls_of(stmt: str, setup: str = "pass") -> dict[str, int]:
    blocks = PythonLoop(stmt, setup).blocks()
    blocks.run(20)
    return by_function(lambda: blocks.run(1))


def test_functions_are_named_with_the_file_below_the_path(module: str) -> None:
    calls = calls_of("twice(1)", f"from {module} import twice")
    assert calls["twice (some_package/adding.py)"] > 0
    assert calls["add (some_package/adding.py)"] > 0
    assert calls[STATEMENT] > 0


def test_every_bytecode_of_every_call_counts(module: str) -> None:
    once = calls_of("add(1, 2)", f"from {module} import add")
    twice = calls_of("add(1, 2); add(1, 2)", f"from {module} import add")
    name = "add (some_package/adding.py)"
    assert twice[name] == 2 * once[name]
    assert twice[STATEMENT] > once[STATEMENT]


def test_the_same_work_has_the_same_counts_every_time(module: str) -> None:
    setup = f"from {module} import Adder; adder = Adder()"
    assert calls_of("adder(1)", setup) == calls_of("adder(1)", setup)
    loops = [calls_of("for i in range(n): pass", f"n = {n}")[STATEMENT] for n in (10, 11, 12)]
    assert loops[2] - loops[1] == loops[1] - loops[0] > 0


def test_functions_of_one_name_are_told_together(module: str) -> None:
    setup, name = f"from {module} import pair; f, g = pair", "<lambda> (some_package/adding.py)"
    both, *each = (calls_of(stmt, setup)[name] for stmt in ("f(1); g(1)", "f(1)", "g(1)"))
    assert both == sum(each)
    assert each[0] < each[1]


def test_methods_are_named_with_their_class_where_python_knows_it(module: str) -> None:
    calls = calls_of("adder(1)", f"from {module} import Adder; adder = Adder()")
    name = "Adder.__call__" if sys.version_info >= (3, 11) else "__call__"
    assert f"{name} (some_package/adding.py)" in calls


def test_what_the_probe_does_itself_is_not_told() -> None:
    """It would differ from Python to Python, and be named as a cause."""
    assert list(calls_of("a = 1")) == [STATEMENT]


def test_a_run_that_raises_leaves_no_trace_function(module: str) -> None:
    adding = importlib.import_module(module)
    before = sys.gettrace()
    sys.settrace(None)
    try:
        with pytest.raises(KeyError):
            by_function(adding.fails)
        assert sys.gettrace() is None
        assert by_function(lambda: adding.add(1, 2)) == {}, "no statement calls it"
        assert sys.gettrace() is None
    finally:
        sys.settrace(before)

"""What is counted: code in torch's layout with the user's own lines, and bytecodes by function."""

from __future__ import annotations

import dis
import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from torchmark_probe.loops.counted import UnrolledCode, bytecodes_by_function
from torchmark_probe.loops.snippets import PythonLoop, SnippetSyntaxError, place_of

if TYPE_CHECKING:
    from pathlib import Path


def run(
    stmt: str, setup: str = "pass", *, number: int = 1, warmup: int = 0, **names: Any
) -> list[str]:
    """What happened, in order; the statement may say something by `seen.append`."""
    seen: list[str] = []
    UnrolledCode(stmt, setup, {}, number=number, warmup=warmup).run(
        {"seen": seen, **names},
        ready=lambda: seen.append("ready"),
        toggle=lambda: seen.append("toggle"),
    )
    return seen


def test_setup_and_warm_up_come_before_what_is_counted() -> None:
    seen = run("seen.append('run')", "seen.append('setup')", number=2, warmup=3)
    assert seen == ["setup", *["run"] * 3, "ready", "toggle", "run", "run", "toggle"]


@pytest.mark.parametrize("number", [1, 99, 100, 101, 199, 200, 250, 1000])
def test_the_statement_runs_as_often_as_was_asked(number: int) -> None:
    seen = run("seen.append('run')", number=number)
    assert seen.count("run") == number
    assert seen[-1] == "toggle"


@pytest.mark.parametrize(("number", "written"), [(5, 5), (150, 150), (200, 100), (250, 150)])
def test_the_statement_is_written_out_up_to_two_hundred_times(number: int, written: int) -> None:
    code = UnrolledCode("find_me", "pass", {}, number=number, warmup=1)._code
    in_warm_up = 1
    found = [step for step in dis.get_instructions(code) if step.argval == "find_me"]
    assert len(found) == written + in_warm_up


def test_names_of_the_setup_are_globals_of_the_statement() -> None:
    setup = "x = 'found'\ndef f():\n    return x"
    assert run("seen.append(f())", setup, number=3).count("found") == 3


@pytest.mark.parametrize(
    ("setup", "names"),
    [
        ("xs = [x for x in (1, 2)]", ["__builtins__"]),
        ("f = lambda: 1", ["__builtins__", "__name__"]),
        ("class Plain: pass", ["__builtins__", "__name__"]),
    ],
)
def test_only_what_defines_something_gets_a_name_that_look_ups_may_pay_for(
    setup: str, names: list[str]
) -> None:
    stmt = "seen += sorted(name for name in globals() if name.startswith('__'))"
    assert run(stmt, setup) == ["ready", "toggle", *names, "toggle"]


def test_an_empty_statement_and_setup_are_allowed() -> None:
    assert run("# nothing", "", number=2, warmup=1) == ["ready", "toggle", "toggle"]


def test_modules_are_imported_where_the_compiler_sees_it() -> None:
    names: dict[str, Any] = {}
    UnrolledCode("m.sep", "pass", {"m": "os.path"}, number=1, warmup=0).run(
        names, ready=lambda: None, toggle=lambda: None
    )
    assert names["m"].sep == "/"


def test_an_error_shows_the_users_own_line_whichever_copy_it_came_from() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run("n += 1\n1 / (n - 150)", "n = 0", number=199)
    innermost = caught.traceback[-1]
    place = place_of(str(innermost.path), innermost.lineno + 1)
    assert place is not None
    assert (place.part, place.line) == ("statement", 2)


@pytest.mark.parametrize(
    ("stmt", "setup", "part"), [("x = = 1", "pass", "statement"), ("pass", "1 +", "setup")]
)
def test_what_does_not_compile_is_named(stmt: str, setup: str, part: str) -> None:
    with pytest.raises(SnippetSyntaxError) as caught:
        UnrolledCode(stmt, setup, {}, number=1, warmup=0)
    assert caught.value.part == part


def test_what_the_statement_raises_passes_as_it_is() -> None:
    with pytest.raises(StopIteration):
        run("next(iter(()))")


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
    return bytecodes_by_function(lambda: blocks.run(1))


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
            bytecodes_by_function(adding.fails)
        assert sys.gettrace() is None
        assert bytecodes_by_function(lambda: adding.add(1, 2)) == {}, "no statement calls it"
        assert sys.gettrace() is None
    finally:
        sys.settrace(before)

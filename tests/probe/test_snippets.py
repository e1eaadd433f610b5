from __future__ import annotations

import ast
import dis
import gc
import itertools
import textwrap
import timeit
import traceback
from pathlib import Path
from typing import Any

import pytest

import torchmark_probe
from torchmark_probe.loops.snippets import (
    PythonLoop,
    SnippetSyntaxError,
    call_of,
    place_of,
    run_globally,
)

PROBE = Path(torchmark_probe.__file__).parent


@pytest.mark.parametrize("file", sorted(PROBE.rglob("*.py")), ids=lambda file: file.name)
def test_the_probe_is_syntax_that_python_3_8_reads(file: Path) -> None:
    assert ast.parse(file.read_text(), feature_version=(3, 8)).body


def run(stmt: str, setup: str = "pass", number: int = 3, **names: Any) -> list[Any]:
    """What the statement put into `seen`, over one call of timeit."""
    seen: list[Any] = []
    PythonLoop(stmt, setup, globals={"seen": seen, **names}).timeit(number)
    return seen


def test_the_statement_runs_as_often_as_asked() -> None:
    assert run("seen.append(x)", "x = 7", number=5) == [7] * 5


def test_no_run_at_all_still_runs_the_setup() -> None:
    assert run("seen.append('run')", "seen.append('setup')", number=0) == ["setup"]


def test_blocks_share_one_setup_and_timeit_repeats_it() -> None:
    seen: list[str] = []
    loop = PythonLoop("seen.append('run')", "seen.append('setup')", globals={"seen": seen})
    blocks = loop.blocks()
    for _ in range(3):
        blocks.run(2)
    assert seen == ["setup", *["run"] * 6]
    loop.timeit(1)
    loop.timeit(1)
    assert seen[7:] == ["setup", "run"] * 2


def test_what_the_setup_defines_is_a_local_variable_as_in_timeit() -> None:
    assert run("seen.append('x' in locals())", "x = 1", number=1) == [True]


def test_time_is_the_difference_of_two_readings_around_all_runs() -> None:
    readings = itertools.count(start=100, step=7)
    assert PythonLoop("pass", timer=lambda: float(next(readings))).timeit(1000) == 7
    assert next(readings) == 114


def test_a_multi_line_string_keeps_its_lines() -> None:
    stmt = textwrap.dedent('''
        if True:
            seen.append("""a
          b""")
    ''')
    assert run(stmt, number=1) == ["a\n  b"]


def test_an_indented_block_of_code_is_accepted() -> None:
    assert run("\n        x = 1\n        seen.append(x)\n", number=1) == [1]


@pytest.mark.parametrize("empty", ["", "# nothing", "\n\n"])
def test_an_empty_statement_does_nothing(empty: str) -> None:
    assert run(empty, empty) == []


def test_the_collector_is_off_during_a_run_and_on_after_it() -> None:
    assert run("seen.append(gc.isenabled())", gc=gc) == [False] * 3
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        run("1 / 0")
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("part", "snippet", "line", "column"),
    [
        ("statement", "x = = 1", 1, 5),
        ("setup", "x = 1\nif x\n  y", 2, 5),
        ("statement", "return 1", 1, 1),
        ("statement", "break", 1, 1),
        ("setup", "yield 3", 1, 1),
        ("statement", "x = (1,", 1, 5),
    ],
)
def test_a_snippet_that_does_not_compile_tells_the_users_line_and_column(
    part: str, snippet: str, line: int, column: int
) -> None:
    stmt, setup = (snippet, "pass") if part == "statement" else ("pass", snippet)
    with pytest.raises(SnippetSyntaxError) as caught:
        PythonLoop(stmt, setup)
    assert caught.value.part == part
    assert (caught.value.error.lineno, caught.value.error.offset) == (line, column)
    assert caught.value.error.text is not None


def test_a_nul_byte_is_a_syntax_error() -> None:
    with pytest.raises(SnippetSyntaxError):
        PythonLoop("x = 1\0")


def test_a_traceback_shows_the_users_lines() -> None:
    setup = "def f(n):\n    return n / 0"
    with pytest.raises(ZeroDivisionError) as caught:
        PythonLoop("y = 1\nf(y)", setup).timeit(1)
    frames = traceback.extract_tb(caught.value.__traceback__)
    places = [(place_of(f.filename, f.lineno or 0), f.line) for f in frames]
    assert [place for place in places if place[0]] == [
        (("statement", 2), "f(y)"),
        (("setup", 2), "return n / 0"),
    ]


def test_a_global_setup_defines_globals_and_is_run_once() -> None:
    names: dict[str, Any] = {}
    run_globally("import math\ndef f():\n    return math.pi", names)
    assert run("seen.append(f())", number=1, **names) == [names["math"].pi]
    with pytest.raises(SnippetSyntaxError, match="global setup"):
        run_globally("x = = 1", names)


def test_a_failing_global_setup_tells_its_own_line() -> None:
    with pytest.raises(KeyError) as caught:
        run_globally("x = {}\nx['a']", {})
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert place_of(last.filename, last.lineno or 0) == ("global setup", 2)


def test_a_function_is_called_with_its_arguments() -> None:
    calls: list[Any] = []

    def function(*args: Any, **kwargs: Any) -> None:
        calls.append((args, kwargs))

    setup, stmt, names = call_of(function, (1, "two"), {"key": 3})
    PythonLoop(stmt, setup, globals=names).timeit(2)
    assert calls == [((1, "two"), {"key": 3})] * 2


def opcodes_of_loop(function: Any) -> list[str]:
    """What runs again and again: from the `for` to the jump back to it."""
    names = [instruction.opname for instruction in dis.get_instructions(function)]
    start = names.index("FOR_ITER")
    stop = next(i for i in range(start, len(names)) if names[i].startswith("JUMP"))
    return names[start : stop + 1]


@pytest.mark.parametrize("stmt", ["x + 1", "f(x, y=2)", "z = [i for i in x]", "x[0] = 1; del x[0]"])
def test_the_loop_runs_the_same_bytecode_as_timeits(stmt: str) -> None:
    """So nothing is added to what a statement takes."""
    mine = PythonLoop(stmt, "x = [2]")._make
    theirs = vars(timeit.Timer(stmt, "x = [2]"))["inner"]
    assert opcodes_of_loop(mine) == opcodes_of_loop(theirs)


def test_a_stop_iteration_stays_one() -> None:
    with pytest.raises(StopIteration):
        PythonLoop("next(it)", "it = iter(range(3))").timeit(10)
    with pytest.raises(StopIteration):
        PythonLoop("pass", "next(iter(()))").timeit(1)


def test_a_runtime_error_of_the_user_is_not_taken_for_one() -> None:
    with pytest.raises(RuntimeError, match="mine"):
        PythonLoop("raise RuntimeError('mine') from StopIteration()").timeit(1)


def test_the_setup_may_switch_the_collector_on_as_in_timeit() -> None:
    assert run("seen.append(gc.isenabled())", "gc.enable()", gc=gc) == [True] * 3
    run("pass", "gc.disable()", gc=gc)
    assert gc.isenabled(), "and afterwards it is as it was"


@pytest.mark.parametrize(
    ("stmt", "setup", "part", "text"),
    [
        ("pass", "x = 1\nfrom math import *", "setup", "from math import *"),
        ("y = 1\nglobal x", "x = 2", "statement", "global x"),
    ],
)
def test_what_only_both_parts_together_get_wrong_is_told_in_its_part(
    stmt: str, setup: str, part: str, text: str
) -> None:
    with pytest.raises(SnippetSyntaxError) as caught:
        PythonLoop(stmt, setup)
    assert (caught.value.part, caught.value.error.text) == (part, text)
    assert caught.value.error.lineno == 2


def test_a_keyword_that_is_no_name_is_passed_all_the_same() -> None:
    seen: list[Any] = []
    setup, stmt, names = call_of(lambda **kwargs: seen.append(kwargs), (), {"class": 1, "x": 2})
    PythonLoop(stmt, setup, globals=names).timeit(1)
    assert seen == [{"class": 1, "x": 2}]

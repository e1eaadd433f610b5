"""Suites by name, file, folder and module; a file that fails costs itself alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from torchmark.define.skips import EnvironmentFacts
from torchmark.define.suites.loading import LoadedSuite, cases_of, load_suite
from torchmark.errors import SuiteNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "from torchmark import GroupedStmts, GroupedVariants, TimerArgs, skip_if\n"
ONE = f"{HEAD}add = GroupedStmts('x + 1')\n"


def labels(suite: LoadedSuite) -> list[tuple[str, ...]]:
    return [case.label for case in cases_of([suite])]


def test_the_standard_suite_goes_by_its_name() -> None:
    suite = load_suite("standard")
    assert suite.failures == ()
    assert len(cases_of([suite])) >= 181


def test_variables_are_labels_unless_there_is_a_suite(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{HEAD}import torchmark\nadd = GroupedStmts('x + 1'),\n"
                    "views = GroupedVariants('# @flat\\nx.view(-1)')\n"
                    "_hidden = TimerArgs('1')\nnumber = 5\n")  # fmt: skip
    assert labels(load_suite(str(file))) == [("add",), ("views", "flat")]
    file.write_text(file.read_text() + "SUITE = {'Group': {'add': add}}\n")
    assert labels(load_suite(str(file))) == [("Group", "add")]


def test_a_folder_is_all_its_bench_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "bench_b.py").write_text(ONE.replace("add", "second"))
    (tmp_path / "bench_a.py").write_text(ONE.replace("add", "first"))
    (tmp_path / "other.py").write_text("1 / 0")
    assert labels(load_suite(str(tmp_path))) == [("first",), ("second",)]


def test_a_module_is_found_where_python_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suite_package").mkdir()
    (tmp_path / "suite_package" / "__init__.py").touch()
    (tmp_path / "suite_package" / "mine.py").write_text(ONE)
    monkeypatch.syspath_prepend(tmp_path)
    assert labels(load_suite("suite_package.mine")) == [("add",)]


def test_the_id_of_a_case_survives_the_renaming_of_its_file(tmp_path: Path) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(ONE)
    first, second = (load_suite(str(tmp_path / name)) for name in ("one.py", "two.py"))
    assert cases_of([first]) == cases_of([second])
    assert len(cases_of([first, second])) == 1, "taken once"


def test_a_file_may_import_what_lies_beside_it_and_leaves_nothing_there(tmp_path: Path) -> None:
    (tmp_path / "beside_the_suite.py").write_text("STMT = 'x + 1'\n")
    file = tmp_path / "bench_it.py"
    file.write_text(f"from __future__ import annotations\n{HEAD}import dataclasses\n"
                    "from beside_the_suite import STMT\n"
                    "@dataclasses.dataclass\nclass A:\n    x: int\n"
                    "add = GroupedStmts(STMT)\n")  # fmt: skip
    before = list(sys.path)
    assert labels(load_suite(str(file))) == [("add",)]
    assert sys.path == before
    assert not list(tmp_path.glob("__pycache__/bench_it*"))


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ("x = 1\ny = = 2\n", 2, "SyntaxError: invalid syntax\n    y = = 2\n        \\^"),
        ("if True:\nx = 1\n", 2, "IndentationError|SyntaxError"),
        ("def f():\n    return 1 / 0\n\nf()\n", 2, "ZeroDivisionError: .*\n    return 1 / 0$"),
        ("import no_such_module_here\n", 1, "ModuleNotFoundError: .*no_such_module_here"),
        ("import sys\nsys.exit(5)\n", 2, "SystemExit: 5"),
        (f"{HEAD}a = GroupedStmts('y', signature='f(x -> y')\n", 2, "    f\\(x -> y\n        \\^"),
        (f"{HEAD}a = GroupedStmts()\n", 2, "needs py_stmt, cpp_stmt or both"),
        ("x = 5\n", None, "no benchmarks are defined; define a dictionary SUITE"),
        ("SUITE = {}\n", None, "no benchmarks are defined"),
        ("SUITE = {'a': 3}\n", None, "the suite at 'a' holds 3, of type int"),
        ("SUITE = 3\n", None, "the suite holds 3, of type int"),
        (f"{HEAD}a = {{'b': TimerArgs('1'), 'c': 5}}\n", None, "the suite at 'a / c' holds 5"),
        ("\0", None, "null bytes"),
    ],
)
def test_a_bad_file_is_one_failure_with_its_place_and_the_others_are_loaded(
    source: str, line: int | None, says: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bench_bad.py"
    bad.write_text(source)
    (tmp_path / "bench_good.py").write_text(ONE)
    suite = load_suite(str(tmp_path))
    assert labels(suite) == [("add",)]
    (failure,) = suite.failures
    assert (failure.file, failure.line) == (str(bad), line)
    with pytest.raises(type(failure), match=says):
        raise failure


def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "bench_folder.py").mkdir()
    (failure,) = load_suite(str(tmp_path)).failures
    assert "IsADirectoryError" in str(failure)


def test_a_module_that_raises_is_a_failure_and_one_that_is_missing_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_suite.py").write_text("import no_such_module_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    (failure,) = load_suite("raising_suite").failures
    assert failure.file == "raising_suite"
    assert "no_such_module_here" in str(failure)


@pytest.mark.parametrize("name", ["no_such_suite", "no.such.suite", "./nothing.py", "some/folder"])
def test_nothing_by_that_name_is_a_mistake_of_the_call(name: str) -> None:
    with pytest.raises(SuiteNotFoundError, match="there is no"):
        load_suite(name)


def test_a_folder_without_benchmarks_is_a_mistake_of_the_call(tmp_path: Path) -> None:
    with pytest.raises(SuiteNotFoundError, match=r"has no bench_\*\.py files"):
        load_suite(str(tmp_path))


def test_skips_are_judged_by_the_facts_that_are_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{HEAD}a = GroupedStmts('x', skip=skip_if(missing='torch.func', reason='r'))")
    suite = load_suite(str(file))
    assert suite.features_asked() == {"torch.func"}
    (case,) = cases_of([suite], facts=EnvironmentFacts(features={"torch.func": False}))
    assert case.skip == "r"

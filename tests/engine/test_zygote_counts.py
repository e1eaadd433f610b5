"""A zygote under callgrind: the same count every time, and nothing but the statement in it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.engine.zygote_cases import QUICK, c_library, case, instructions
from torchmark.engine.cores import begin
from torchmark.engine.zygote.cases import NativeCase
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import CaseFailedError, CaseTimeoutError

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.cases import PythonCase

STATEMENTS = [
    case("pass"),
    case("[str(i) for i in range(10)]"),
    case("x + x", "x = torch.ones((4, 4))"),
    case("x[0]", "x = torch.ones((4, 4))"),
    case("torch.empty((4, 4))"),
    case("torch.rand((4, 4))"),
    case("(x * y).sum().backward()", "x = torch.ones(4); y = torch.ones(4, requires_grad=True)"),
    case("m(x)", "m = torch.nn.Linear(4, 4); x = torch.ones((4, 4))"),
]


def counted(zygote: Zygote, what: PythonCase | NativeCase, number: int = 100) -> int:
    return instructions(zygote.count(what, number=number).out_file)


@pytest.fixture(scope="module")
def alone(callgrind_zygote: Zygote) -> list[int]:
    """The counts of the statements, one after the other."""
    return [counted(callgrind_zygote, what) for what in STATEMENTS]


@pytest.mark.parametrize("index", range(len(STATEMENTS)), ids=lambda n: STATEMENTS[n].stmt)
def test_repeats_give_the_same_count_to_the_instruction(
    callgrind_zygote: Zygote, alone: list[int], index: int
) -> None:
    assert alone[index] > 0
    again = {counted(callgrind_zygote, STATEMENTS[index]) for _ in range(2)}
    assert again == {alone[index]}


def test_cases_that_run_at_once_count_what_they_count_alone(
    callgrind_zygote: Zygote, alone: list[int]
) -> None:
    futures = [begin(partial(callgrind_zygote.count, what), "count") for what in STATEMENTS[:4]]
    assert [instructions(future.result().out_file) for future in futures] == alone[:4]


def test_the_count_grows_with_the_number_of_runs(callgrind_zygote: Zygote) -> None:
    one, two, three = (counted(callgrind_zygote, STATEMENTS[3], n) for n in (40, 80, 120))
    assert three - two == pytest.approx(two - one, rel=1e-3)
    assert two - one > 100_000


def test_a_count_does_not_depend_on_where_it_is_taken(
    callgrind_zygote: Zygote, alone: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / ("long" * 30)
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("SOME_VARIABLE", "x" * 3000)
    assert [counted(callgrind_zygote, what) for what in STATEMENTS] == alone


def test_a_fresh_start_elsewhere_by_somebody_else_gives_the_same_counts(
    callgrind_zygote: Zygote, alone: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "somebody-else")
    monkeypatch.setenv("SOME_VARIABLE", "x" * 3000)
    stages: list[str] = []
    with Zygote(callgrind_zygote.launch) as fresh:
        fresh.start(stages.append)
        assert [counted(fresh, what) for what in STATEMENTS] == alone
    assert stages == [
        "importing torch under valgrind",
        "warming up under valgrind",
        "starting instrumentation",
        "warming up callgrind",
    ]


def test_a_compiled_statement_is_counted_with_no_python_in_it(
    callgrind_zygote: Zygote, tmp_path: Path
) -> None:
    native = NativeCase(library=c_library(tmp_path), symbol="torchmark_run_0")
    counts = [counted(callgrind_zygote, native, number) for number in (100, 200, 300)]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 0
    assert (counts[1] - counts[0]) % 100 == 0
    assert counts[0] - (counts[1] - counts[0]) < 50
    assert "_PyEval_EvalFrame" not in callgrind_zygote.count(native).out_file.read_text()


def test_output_is_kept_beside_the_count(callgrind_zygote: Zygote) -> None:
    count = callgrind_zygote.count(case("pass", "print('hello')"), number=1)
    assert count.output.stdout == "hello\n"


@pytest.mark.parametrize(
    ("stmt", "kind"),
    [
        ("1 / 0", "raised"),
        ("import os; os._exit(3)", "exited"),
        ("import os; os.abort()", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed"),
        ("torch.empty(10**10)", "memory"),
    ],
)
def test_a_failing_case_costs_only_itself(
    callgrind_zygote: Zygote, alone: list[int], stmt: str, kind: str
) -> None:
    with pytest.raises(CaseFailedError) as caught:
        callgrind_zygote.count(case(stmt), number=1, memory_limit=2 << 30)
    assert caught.value.kind == kind
    assert counted(callgrind_zygote, STATEMENTS[0]) == alone[0]


def test_a_case_that_never_ends_is_stopped_at_its_limit(callgrind_zygote: Zygote) -> None:
    with pytest.raises(CaseTimeoutError):
        callgrind_zygote.count(case("while True: pass"), number=1, time_limit=2.0)
    assert counted(callgrind_zygote, STATEMENTS[0]) > 0


def test_a_zygote_under_callgrind_takes_times_too(callgrind_zygote: Zygote) -> None:
    assert callgrind_zygote.sample(case("pass"), limits=QUICK).sampling.wall


def test_an_import_in_the_setup_changes_nothing_in_the_count(
    callgrind_zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callgrind looks away meanwhile, and is back for the counted runs."""
    (tmp_path / "some_large_module.py").write_text("\n".join(f"v{n} = {n}" for n in range(500)))
    monkeypatch.syspath_prepend(str(tmp_path))
    setup = "x = torch.ones((4, 4))"
    with_import = counted(callgrind_zygote, case("x + x", f"import some_large_module\n{setup}"))
    assert with_import == pytest.approx(counted(callgrind_zygote, case("x + x", setup)), rel=1e-3)

"""Operators of the user's own module: `--import` of replay, run and ab, in real processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import torchmark
from tests.replay_traces import write_trace
from tests.replays import tensor
from torchmark.cli import cli
from torchmark.cli.shell import ExitCode, code_of
from torchmark.commands.ab import activate
from torchmark.engine.replaying import ReplayZygotes
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.process import Launch
from torchmark.errors import ImportFailedError, InvalidArgumentError, RunInterruptedError
from torchmark.model.result import Result, Status
from torchmark.model.run import Run
from torchmark.report import render
from torchmark.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """\
import torch
library = torch.library.Library("torchmark_tests", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
"""
REMEDY = "name the module that defines it with --import (e.g. --import torchmark_tests)"


def twice(size: int) -> dict[str, Any]:
    return {"op": "torchmark_tests.twice.default", "args": [tensor(size)], "kwargs": {}}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_operators.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return write_trace(tmp_path, twice(8), twice(9))


def statuses(run: Run) -> list[Status]:
    return [result.status for result in run.results]


def test_a_replay_runs_operators_of_a_module_that_is_named_and_resumes_with_it(
    trace: Path, tmp_path: Path
) -> None:
    def interrupt(news: object) -> None:
        if isinstance(news, Result):
            raise KeyboardInterrupt

    options: dict[str, Any] = {"store": tmp_path / "s.db", "imports": ["own_operators"]}
    with pytest.raises(RunInterruptedError) as caught:
        torchmark.replay(trace, budget=0.01, progress=interrupt, **options)
    run = torchmark.replay(resume=caught.value.run_id, store=tmp_path / "s.db")
    assert statuses(run) == [Status.DONE] * 2
    assert run.imports == ("own_operators",)
    assert "\nimported: own_operators\n" in render(run, "text")


def test_a_run_measures_them_in_processes_that_all_import_the_module(
    trace: Path, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"imports": ["own_operators"], "store": tmp_path / "s.db"}
    run = torchmark.run([str(trace)], pattern="[8]", metrics=["time"], **options)
    assert statuses(run) == [Status.DONE]
    assert "\nimported: own_operators\n" in render(run, "text")
    workers = Workers(Launch(imports=("own_operators",)))
    for each in (workers, workers.another()):
        for counts in (False, True):
            assert each.launch(2, under_callgrind=counts).imports == ("own_operators",)
    with ReplayZygotes(1, ("own_operators",)) as zygotes:
        assert zygotes.counting().launch.imports == ("own_operators",)


def test_an_operator_that_is_not_known_is_skipped_with_the_remedy(
    trace: Path, tmp_path: Path
) -> None:
    run = torchmark.run([str(trace)], metrics=["time"], store=tmp_path / "s.db")
    assert statuses(run) == [Status.SKIPPED] * 2
    assert {each.reason for each in run.results} == {
        f"torch.ops has no torchmark_tests.twice.default: {REMEDY}"
    }


def test_each_environment_of_a_comparison_imports_its_own_and_one_that_cannot_is_named(
    tmp_path: Path,
) -> None:
    commands = {side: f"export PYTHONPATH={tmp_path / side}" for side in "AB"}
    for name in commands:
        (tmp_path / name).mkdir()
        (tmp_path / name / "of_both.py").write_text(f"name = {name!r}\n")
    with activate(commands, imports=["of_both"]) as sides:
        for side in sides:
            zygote = side.workers.start(1, under_callgrind=False)
            zygote.run(PythonCase(f"assert of_both.name == {side.name!r}", "import of_both"))
    (tmp_path / "B" / "of_both.py").unlink()
    options: dict[str, Any] = {**commands, "imports": ["of_both"], "store": tmp_path / "s.db"}
    with pytest.raises(ImportFailedError, match=r"^in B: .* cannot import of_both: ModuleNotFound"):
        torchmark.ab(statements=["1"], **options)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("if", "SyntaxError: invalid syntax"),
    ],
)
def test_a_module_that_cannot_be_imported_ends_the_command_before_it_begins(
    trace: Path, tmp_path: Path, code: str, reason: str
) -> None:
    (tmp_path / "broken.py").write_text(code)
    done = CliRunner().invoke(cli, ["replay", str(trace), "--import", "broken", "--store", "s.db"])
    assert isinstance(done.exception, ImportFailedError)
    assert code_of(done.exception) is ExitCode.ENVIRONMENT
    assert f"cannot import broken: {reason}" in str(done.exception)
    with open_store(tmp_path / "s.db") as store:
        assert not store.runs()


@pytest.mark.parametrize("name", ["", ".", ".own", "own operators", "os;print", "a..b"])
def test_what_is_no_name_of_a_module_is_refused(trace: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a valid module name"):
        torchmark.replay(trace, imports=[name], store=tmp_path / "s.db")


def test_without_imports_a_zygote_hears_of_no_path() -> None:
    environment = (("PYTHONPATH", "/somewhere"),)
    assert Launch(environment=environment).import_path() == [], "counts depend on every byte"
    assert "/somewhere" in Launch(environment=environment, imports=("os",)).import_path()

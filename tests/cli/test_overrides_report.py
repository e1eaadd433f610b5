"""`torchmark overrides report`, as people call it."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests import light_torch
from tests.patched_torch import sitecustomize
from torchmark.cli import overrides_report
from torchmark.define.grouped import GroupedStmts
from torchmark.define.suites.loading import LoadedSuite
from torchmark.define.suites.overrides import SUITE
from torchmark.engine.paired.plan import Wish
from torchmark.errors import AttachDeniedError, CaseFailedError
from torchmark.model.case_flames import CaseFlames
from torchmark.model.result import Metric

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.browsing import Visit
    from torchmark.model.case import Case


FEWEST = Wish(kinds=(Metric.TIME,), budget=0.01, turns_seconds=0.01)
"""Short turns, and over with the fewest pairs."""


def test_a_slower_dispatch_is_found_drawn_and_reported(
    tmp_path: Path, visit: Callable[[Path], Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it: real torch, real py-spy, real browser; and the cases that start quickly.

    What torch.nn.functional calls for whatever overrides a function is made so much slower that
    the fewest pairs show it on any machine.
    """
    kinds = ("Tensor", "SubTensor", "WithTorchFunction")
    few = {
        call: {kind: SUITE["overrides"][call][kind] for kind in kinds}
        for call in ("torch.add", "F.relu")
    }
    suite = LoadedSuite(name="overrides", parts=({"overrides": few},))
    monkeypatch.setattr(overrides_report, "load_suite", lambda _: suite)
    monkeypatch.setattr(overrides_report, "IMPORTED_BY_DISPATCH", ())
    patch = sitecustomize(
        "torch.overrides", "handle_torch_function", more="for _ in range(10_000): pass"
    )
    monkeypatch.setattr(overrides_report, "_WISH", FEWEST)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for name, text in (("base", ""), ("patch", patch)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(text)
    commands = [f"export PYTHONPATH={tmp_path / name}:$PYTHONPATH" for name in ("base", "patch")]
    done = CliRunner().invoke(
        overrides_report.command,
        ["--base", commands[0], "--branch", commands[1], "-o", "report"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    folder = tmp_path / "report"
    text = (folder / "report.md").read_text()
    row = r"^\| +overrides / (\S+) / (\S+) .*\| +([\d.]+) \[.*\| +slower \|"
    slower = [(call, kind) for call, kind, ratio in re.findall(row, text, re.M) if float(ratio) > 5]
    assert ("F.relu", "WithTorchFunction") in slower
    assert {call for call, _ in slower} == {"F.relu"}
    assert ("F.relu", "Tensor") not in slower
    assert "handle_torch_function" in text
    pictures = [
        f"{which}-F.relu-WithTorchFunction.{ending}"
        for which in ("base", "branch", "difference")
        for ending in ("svg", "png")
    ]
    assert all((folder / name).stat().st_size > 1000 for name in pictures)
    assert "handle_torch_function" in (folder / pictures[2]).read_text()
    with zipfile.ZipFile(folder / "report.zip") as archive:
        names = {name.removeprefix("report/") for name in archive.namelist()}
    assert names == {path.name for path in folder.iterdir()} - {"report.zip"}
    _look_at(visit(folder / "report.html"))


def _look_at(seen: Visit) -> None:
    """A reader's way: the table, a flame graph, a click into it."""
    page = seen.page
    assert page.locator("table.cases > tbody > tr").count() == 6
    first = page.locator("#flames details[open] svg").first
    frame = first.locator(".frames g", has_text="handle_torch_function").first
    before = frame.locator("rect").bounding_box()
    frame.click()
    after = frame.locator("rect").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > before["width"]


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command in this process, with two small cases and environments that start in no time."""
    light = light_torch.put_into(tmp_path / "light")
    suite = LoadedSuite(
        name="overrides",
        parts=({"overrides": {"call": {"Quick": GroupedStmts("sum(range(9))"),
                                       "Other": GroupedStmts("len('abc')")}}},),
    )  # fmt: skip
    monkeypatch.setattr(overrides_report, "load_suite", lambda _: suite)
    monkeypatch.setattr(overrides_report, "_WISH", FEWEST)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def call(*args: str, base: str = light, branch: str = light) -> Result:
        arguments = ["--base", base, "--branch", branch, *args]
        return CliRunner().invoke(overrides_report.command, arguments, catch_exceptions=False)

    return call


def drawn(case: Case) -> CaseFlames:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>'
    return CaseFlames(case=case, base=svg, branch=svg, difference=svg)


def test_a_run_without_regressions_says_so_in_one_line(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchmark.analyse.pairs.FALSE_DISCOVERIES", 1e-12)  # nothing by chance
    done = report("--quiet")
    assert done.exit_code == 0
    told, where = done.stdout.splitlines()
    assert told.startswith("No regressions: ")
    assert where == f"{tmp_path / 'overrides-report'}: report.md, report.html, report.zip"
    folder = tmp_path / "overrides-report"
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html", "report.md", "report.zip",
    ]  # fmt: skip
    assert "no case has changed" in (folder / "report.md").read_text()


def test_all_flames_are_of_every_case(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        overrides_report, "flames_of", lambda _base, _branch, case, _seconds: drawn(case)
    )
    assert report("--all-flames", "-o", "out").exit_code == 0
    names = {path.name for path in (tmp_path / "out").glob("*.svg")}
    assert names == {f"{which}-call-{case}.svg" for which in ("base", "branch", "difference")
                     for case in ("Quick", "Other")}  # fmt: skip


def test_what_py_spy_needs_is_told_and_the_times_are_there(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(_base: object, _branch: object, case: Case, _seconds: object) -> CaseFlames:
        tried.append(case)
        raise AttachDeniedError("not allowed: use sudo")

    monkeypatch.setattr(overrides_report, "flames_of", refused)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert "not allowed: use sudo" in done.stderr
    assert len(tried) == 1, "the next case would be refused too"
    text = (tmp_path / "out" / "report.md").read_text()
    assert "not allowed: use sudo" in text
    assert "overrides / call / Quick" in text
    assert (tmp_path / "out" / "report.zip").exists()


def test_a_case_that_cannot_be_drawn_costs_the_others_nothing(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_fails(_base: object, _branch: object, case: Case, _seconds: object) -> CaseFlames:
        if case.label[-1] == "Quick":
            raise CaseFailedError("it raised", kind="raised")
        return drawn(case)

    monkeypatch.setattr(overrides_report, "flames_of", one_fails)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert "overrides / call / Quick: it raised" in done.stderr
    assert (tmp_path / "out" / "base-call-Other.svg").exists()


def test_a_folder_with_something_in_it_is_left_alone(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="mine has files in it"):
        report("-o", "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_folder_is_an_error_of_the_call(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("")
    assert report("-o", "taken").exit_code == 2
    with pytest.raises(ValueError, match="cannot go into"):
        report("-o", "taken/below")


def test_a_folder_that_vanishes_meanwhile_leaves_the_figures(
    report: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanishing(_base: object, _branch: object, case: Case, _seconds: object) -> CaseFlames:
        shutil.rmtree(tmp_path / "out")
        return drawn(case)

    monkeypatch.setattr(overrides_report, "flames_of", vanishing)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    (kept,) = (tmp_path / "data" / "torchmark" / "ab").iterdir()
    assert f"the figures are in {kept}" in done.stderr
    assert len(json.loads(kept.read_text())["comparisons"][0]["results"]) == 2


def test_an_environment_that_breaks_is_an_error(report: Callable[..., Result]) -> None:
    with pytest.raises(Exception, match="no-such-env"):
        report(branch="source no-such-env")

"""`torchmark overrides report`, as people call it."""

from __future__ import annotations

import re
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests import ab_records, light_torch
from tests.patched_torch import sitecustomize
from torchmark.analyse.ab import judge
from torchmark.analyse.estimates import Verdict
from torchmark.cli import overrides as cli_overrides
from torchmark.commands import overrides
from torchmark.define.expansion import expand
from torchmark.define.grouped import GroupedStmts
from torchmark.define.suites.loading import LoadedSuite
from torchmark.define.suites.overrides import SUITE
from torchmark.engine.paired import comparing
from torchmark.errors import AttachDeniedError, CaseFailedError, MissingToolError
from torchmark.model.result import Metric, PairedProfile
from torchmark.model.run import Effort, RunKind, RunState
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from click.testing import Result as Called

    from tests.browsing import Visit
    from torchmark.model.result import PlannedResult, Result
    from torchmark.model.run import Run


FEWEST = Effort(budget=0.01, pair_seconds=0.01)
"""Short blocks, and over with the fewest replicates."""


def test_a_slower_dispatch_is_found_drawn_and_reported(
    tmp_path: Path, visit: Callable[[Path], Visit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it: real torch, real py-spy, real browser; and the cases that start quickly.

    What torch.nn.functional calls for whatever overrides a function is made so much slower that
    the fewest replicates show it on any machine.
    """
    kinds = ("Tensor", "SubTensor", "WithTorchFunction")
    few = {
        call: {kind: SUITE["overrides"][call][kind] for kind in kinds}
        for call in ("torch.add", "F.relu")
    }
    suite = LoadedSuite(name="overrides", parts=(expand({"overrides": few}),))
    monkeypatch.setattr(overrides, "load_suite", lambda _: suite)
    monkeypatch.setattr(overrides, "IMPORTED_BY_DISPATCH", ())
    patch = sitecustomize(
        "torch.overrides", "handle_torch_function", more="for _ in range(10_000): pass"
    )
    monkeypatch.setattr(overrides, "EFFORT", FEWEST)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for name, text in (("base", ""), ("patch", patch)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(text)
    commands = [f"export PYTHONPATH={tmp_path / name}:$PYTHONPATH" for name in ("base", "patch")]
    done = CliRunner().invoke(
        cli_overrides.report_command,
        ["--base", commands[0], "--branch", commands[1], "-o", "report"],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    folder = tmp_path / "report"
    text = (folder / "report.md").read_text()
    rows = judge(stored(), ("base", "branch")).times
    slower = {
        row.case.label[1:] for row in rows if row.verdict is Verdict.SLOWER and row.effect.ratio > 5
    }
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
    assert page.locator("#times table.cases tr.case").count() == 6
    first = page.locator("details.picture[open] svg").first
    frame = first.locator(".frames g", has_text="handle_torch_function").first
    before = frame.locator("rect").bounding_box()
    frame.click()
    after = frame.locator("rect").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] > before["width"]


def measure_at_once(
    _sides: object, run: Run, _division: object
) -> Generator[Result, None, tuple[Run, list[Result]]]:
    """Times that are the same, without a process that takes them."""
    results = [
        ab_records.timed(planned.case, 1.0, environments=planned.environments)
        for planned in run.missing()
        if planned.metric is Metric.TIME
    ]
    yield from results
    return run, results


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Called]:
    """The command in this process, with two small cases and environments that start in no time."""
    light = light_torch.put_into(tmp_path / "light")
    suite = LoadedSuite(
        name="overrides",
        parts=(expand({"overrides": {"call": {"Quick": GroupedStmts("sum(range(9))"),
                                              "Other": GroupedStmts("len('abc')")}}}),),
    )  # fmt: skip
    monkeypatch.setattr(overrides, "load_suite", lambda _: suite)
    monkeypatch.setattr(overrides, "IMPORTED_BY_DISPATCH", ())
    monkeypatch.setattr(overrides, "EFFORT", FEWEST)
    monkeypatch.setattr(overrides, "measure_pairs", measure_at_once)
    monkeypatch.setattr("torchmark.report.formats.html.load_bundle", lambda: "")  # takes seconds
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def call(*args: str, base: str = light, branch: str = light) -> Called:
        arguments = ["--base", base, "--branch", branch, *args] if "--resume" not in args else args
        return CliRunner().invoke(cli_overrides.report_command, arguments, catch_exceptions=False)

    return call


def stored() -> Run:
    with open_store() as store:
        return store.run("latest")


def profiled(planned: PlannedResult) -> Result:
    payload = PairedProfile(a="loop;f 10\n", b="loop;f 12\n", samples=(9, 9))
    return planned.finish(payload=payload)


@pytest.fixture
def profiler(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[PlannedResult], Result]], None]:
    """Puts something in the place of py-spy."""

    def put(profile: Callable[[PlannedResult], Result]) -> None:
        monkeypatch.setattr(comparing, "_profile", lambda _a, _b, planned, *_: profile(planned))

    return put


def test_a_run_without_regressions_says_so_in_one_line(
    report: Callable[..., Called], tmp_path: Path
) -> None:
    done = report("--quiet")
    assert done.exit_code == 0
    told, where = done.stdout.splitlines()
    assert told.startswith("No regressions: ")
    assert where == f"{tmp_path / 'overrides-report'}: report.md, report.html, report.zip"
    folder = tmp_path / "overrides-report"
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html", "report.md", "report.zip",
    ]  # fmt: skip
    assert (
        "no case has changed" in (folder / "report.md").read_text()
        or "no change was found" in (folder / "report.md").read_text()
    )
    run = stored()
    assert (run.kind, run.state) == (RunKind.OVERRIDES, RunState.FINISHED)
    assert [each.environments for each in run.results] == [("base", "branch")] * 2


def test_all_flames_are_of_every_case(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
) -> None:
    profiler(profiled)
    assert report("--all-flames", "-o", "out").exit_code == 0
    names = {path.name for path in (tmp_path / "out").glob("*.svg")}
    assert names == {f"{which}-call-{case}.svg" for which in ("base", "branch", "difference")
                     for case in ("Quick", "Other")}  # fmt: skip
    text = (tmp_path / "out" / "report.md").read_text()
    assert "![difference](difference-call-Quick.png)" in text
    assert text.count("### Flame graphs: overrides / call / ") == 2


def test_a_report_that_was_cut_short_goes_on_and_is_written_again(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
) -> None:
    def interrupt(planned: PlannedResult) -> Result:
        if planned.case.label[-1] == "Other":
            raise KeyboardInterrupt
        return profiled(planned)

    profiler(interrupt)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 130
    run = stored()
    assert run.state is RunState.INTERRUPTED
    assert f"Resume with: torchmark overrides report --resume {run.id}" in done.stderr
    before = {each.key for each in run.results}
    assert {each.metric for each in run.missing()} == {Metric.PROFILE}
    assert (tmp_path / "out" / "report.md").exists()

    tried = []

    def note(planned: PlannedResult) -> Result:
        tried.append(planned.key)
        return profiled(planned)

    profiler(note)
    again = report("--resume", run.id, "-o", "out")
    assert again.exit_code == 0, again.output
    assert not before & set(tried), "what was there is not taken again"
    whole = stored()
    assert whole.state is RunState.FINISHED
    assert sorted(str(each.key) for each in whole.results) == sorted(
        str(each.key) for each in whole.plan
    )
    assert len(list((tmp_path / "out").glob("difference-*.svg"))) == 2


def test_what_py_spy_needs_is_told_and_the_times_are_there(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
) -> None:
    tried = []

    def refuse(planned: PlannedResult) -> Result:
        tried.append(planned)
        raise AttachDeniedError("not allowed: use sudo")

    profiler(refuse)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert "not allowed: use sudo" in done.stderr
    assert len(tried) == 1, "the next case would be refused too"
    text = (tmp_path / "out" / "report.md").read_text()
    assert "not allowed: use sudo" in text
    assert "overrides / call / Quick" in text
    assert (tmp_path / "out" / "report.zip").exists()


def test_a_case_that_cannot_be_drawn_costs_the_others_nothing(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
) -> None:
    def fail_once(planned: PlannedResult) -> Result:
        if planned.case.label[-1] == "Quick":
            raise CaseFailedError("it raised", kind="raised")
        return profiled(planned)

    profiler(fail_once)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert re.search(r"overrides / call / Quick.*it raised", done.stderr)
    assert (tmp_path / "out" / "base-call-Other.svg").exists()


def test_a_folder_with_something_in_it_is_left_alone(
    report: Callable[..., Called], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for arguments in (("-o", "mine"), ("-o", "mine", "--resume", "latest")):
        with pytest.raises(ValueError, match="mine is not empty"):
            report(*arguments)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_folder_is_an_error_of_the_call(
    report: Callable[..., Called], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("")
    assert report("-o", "taken").exit_code == 2
    with pytest.raises(ValueError, match="cannot be written to"):
        report("-o", "taken/below")


def test_a_folder_that_vanishes_meanwhile_leaves_the_run(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
) -> None:
    def vanish(planned: PlannedResult) -> Result:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return profiled(planned)

    profiler(vanish)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert f"--resume {stored().id} -o FOLDER writes it again" in done.stderr
    assert report("--resume", stored().id, "-o", "new").exit_code == 0
    assert (tmp_path / "new" / "report.html").exists()


def test_without_what_draws_pngs_the_rest_is_there(
    report: Callable[..., Called],
    tmp_path: Path,
    profiler: Callable[[Callable[[PlannedResult], Result]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(_svg: str) -> bytes:
        raise MissingToolError("PNG pictures need vl-convert")

    profiler(profiled)
    monkeypatch.setattr(cli_overrides, "png_of", missing)
    done = report("--all-flames", "-o", "out")
    assert done.exit_code == 4
    assert "PNG pictures need vl-convert; torchmark overrides report --resume" in done.stderr
    names = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert names == {".md", ".html", ".svg", ".zip"}


def test_an_environment_that_breaks_is_an_error(report: Callable[..., Called]) -> None:
    with pytest.raises(Exception, match="no-such-env"):
        report(branch="source no-such-env")


def test_both_environments_are_needed() -> None:
    with pytest.raises(ValueError, match="give --base and --branch"):
        CliRunner().invoke(cli_overrides.report_command, ["--base", "x"], catch_exceptions=False)

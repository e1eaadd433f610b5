"""`torchmark ci` as CI calls it: reports, exit codes, mistakes. The comparison is made up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import ab_records, records
from tests.cli.test_stored import Done, call  # noqa: F401 - a fixture
from tests.commands.test_ci import Measured
from tests.repositories import TWICE_THE_WORK, Checkout, make_checkout
from torchmark.commands import ci as module
from torchmark.errors import RunInterruptedError
from torchmark.model.result import Metric, Status
from torchmark.model.run import Environment
from torchmark.report.formats.markdown import LIMIT
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.model.result import Result
    from torchmark.model.run import Run

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
SIDES = ("base", "head")
VARIABLES = (
    "GITHUB_BASE_REF",
    "GITHUB_STEP_SUMMARY",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
)
CI = ("ci", "--setup", "true", "--suite", "benchmarks")


@pytest.fixture
def ci(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Done]:
    """The command in a checkout of a branch that makes a function twice as slow."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    checkout = make_checkout(tmp_path / "work")
    checkout.branch()
    checkout.commit("Do the work twice", {"src/lists/__init__.py": TWICE_THE_WORK})
    monkeypatch.chdir(checkout.root)
    return call


def run_of(*results: Result) -> Run:
    return ab_records.run_of(
        *results,
        environments=tuple(Environment(name=name, facts=ab_records.FACTS_A) for name in SIDES),
    )


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """`add` is twice as slow, `mul` is not."""
    both = [(ADD, 2.0), (MUL, 1.0)]
    measured = Measured(run_of(*(ab_records.timed(*each, environments=SIDES) for each in both)))
    monkeypatch.setattr(module, "ab", measured)
    return measured


def options(files: dict[str, Path]) -> list[str]:
    return [text for form, file in files.items() for text in (f"--{form}", str(file))]


def test_a_slower_pull_request_fails(ci: Callable[..., Done], comparison: Measured) -> None:
    done = ci(*CI, "--budget", "3")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0] == "Pull request"
    assert lines[1].startswith("base: ")
    assert "Lists that double, the merge base of HEAD and main" in " ".join(done.out.split())
    assert "src/lists/__init__.py can affect any case" in " ".join(done.out.split())
    told = " ".join(done.out.split())
    assert "Failed: 1 over the hard limit; 1 fine. Times: score 1.414 [" in told
    assert "building base" in done.err
    assert "building head" in done.err
    assert comparison.asked["budget"] == 3.0
    assert comparison.asked["metrics"] is None


def test_a_pull_request_within_the_limits_passes(
    ci: Callable[..., Done], comparison: Measured
) -> None:
    done = ci(*CI, "--limit", "add=150%", "--count")
    assert done.code == 0
    assert "Passed: " in done.out
    assert comparison.asked["metrics"] == [Metric.INSTRUCTIONS]


def test_limits_of_the_settings_count(
    ci: Callable[..., Done], comparison: Measured, tmp_path: Path
) -> None:
    (tmp_path / "work" / "torchmark.toml").write_text("[[limits]]\nsoft = 50\nhard = 150\n")
    done = ci(*CI)
    assert done.code == 0
    assert "1 over the soft limit" in done.out


def test_an_improvement_fails_only_if_asked(ci: Callable[..., Done], comparison: Measured) -> None:
    comparison.run = run_of(ab_records.timed(ADD, 0.5, environments=SIDES))
    assert ci(*CI).code == 0
    assert ci("rm", comparison.run.id).code == 0
    done = ci(*CI, "--fail-on", "any")
    assert done.code == 1
    assert "Failed: 1 faster or smaller." in " ".join(done.out.split())


def test_a_case_that_failed_has_its_own_exit_code(
    ci: Callable[..., Done], comparison: Measured
) -> None:
    broken = ab_records.missing(
        MUL, Metric.TIME, Status.FAILED, "in head: ValueError: no", environments=SIDES
    )
    comparison.run = run_of(ab_records.timed(ADD, 1.0, environments=SIDES), broken)
    done = ci(*CI)
    assert done.code == 3
    assert "A case failed: 1 failed; 1 fine." in " ".join(done.out.split())


def test_every_document_is_written(
    ci: Callable[..., Done],
    comparison: Measured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = {form: tmp_path / form for form in ("markdown", "html", "json", "csv", "hud")}
    assert ci(*CI, *options(files)).code == 1
    markdown = files["markdown"].read_text()
    assert markdown.startswith("**Failed: 1 over the hard limit; 1 fine.")
    first = markdown.partition("<details>")[0]
    assert "add" in first
    assert "slower" in first
    assert "<details><summary>Times" in markdown, "the tables of `ab` are folded"
    assert "### Score of the times" in markdown
    assert summary.read_text() == f"before\n{markdown}"
    found = json.loads(files["json"].read_text())
    assert (found["torchmark"], found["run"]) == ("ci", comparison.run.id)
    assert [row["outcome"] for row in found["table"]] == ["slower", "fine"]
    assert len(found["base"]) == len(found["head"]) == 40
    (first_record, _) = json.loads(files["hud"].read_text())
    assert first_record["metric"]["name"] == "time_us"
    assert "hard_limit" in files["csv"].read_text()
    page = files["html"].read_text()
    assert page.count('id="gaps"') <= 1
    assert 'id="gate-time"' in page


def test_the_report_of_a_thousand_cases_fits_into_a_comment(
    ci: Callable[..., Done], comparison: Measured, tmp_path: Path
) -> None:
    cases = [records.case("Long" * 20, f"number {number}" * 5) for number in range(1000)]
    comparison.run = run_of(*(ab_records.timed(each, 2.0, environments=SIDES) for each in cases))
    assert ci(*CI, "--markdown", str(tmp_path / "report.md")).code == 1
    text = (tmp_path / "report.md").read_text()
    assert len(text) <= LIMIT
    assert text.startswith("**Failed: 1000 over the hard limit.")


def test_json_without_a_file_is_all_that_is_printed(
    ci: Callable[..., Done], comparison: Measured
) -> None:
    assert json.loads(ci(*CI, "--json").out)["torchmark"] == "ci"


def test_a_summary_that_cannot_be_written_is_reported(
    ci: Callable[..., Done],
    comparison: Measured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary.md"))
    done = ci(*CI, "--limit", "=150%")
    assert done.code == 4
    assert "check GITHUB_STEP_SUMMARY" in done.err


def test_documentation_alone_passes_and_says_why(
    ci: Callable[..., Done],
    comparison: Measured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Checkout(tmp_path / "work").git("checkout", "--quiet", "-b", "words", "main")
    Checkout(tmp_path / "work").commit("Words", {"README.md": "More words\n"})
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = ci(*CI, "--hud", str(tmp_path / "hud.json"))
    assert done.code == 0
    why = "only documentation and CI files differ: README.md"
    assert f"Passed: no case can be affected ({why})." in " ".join(done.out.split())
    assert summary.read_text().startswith("**Passed: no case can be affected")
    assert (tmp_path / "hud.json").read_text() == "[]\n"
    assert not comparison.asked


def test_a_dry_run_builds_and_measures_nothing(
    ci: Callable[..., Done], comparison: Measured, tmp_path: Path
) -> None:
    done = ci(*CI, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert "would be built with: true" in done.out
    assert not comparison.asked
    assert len(Checkout(tmp_path / "work").worktrees()) == 1


def test_a_build_that_fails_shows_its_log(ci: Callable[..., Done], comparison: Measured) -> None:
    done = ci("ci", "--setup", "echo no compiler; exit 7", "--suite", "benchmarks")
    assert (done.code, done.out) == (4, "")
    assert "failed with status 7" in done.err
    assert "no compiler" in done.err
    assert "The whole log is in" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--activate", "true"], 2, "--activate needs --setup"),
        (["--base", "nowhere"], 2, "has no commit 'nowhere'"),
        (["--base", "HEAD"], 2, "nothing to compare"),
        (["--suite", "benchmarks"], 4, "there is no baseline"),
        (["--budget", "0"], 2, "--budget"),
        (["--limit", "add"], 2, "is not CASE=±X%"),
        (["--setup", "true", "--suite", "nowhere.py"], 2, "there is no file or folder nowhere.py"),
        (["--hud", "no/where.json"], 2, "cannot be written"),
    ],
)
def test_mistakes_are_named_with_their_exit_code(
    ci: Callable[..., Done], arguments: list[str], code: int, told: str
) -> None:
    done = ci("ci", *arguments)
    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_outside_of_git_it_says_so(call: Callable[..., Done]) -> None:  # noqa: F811
    done = call("ci")
    assert done.code == 4
    assert "is not in the working tree of a git repository" in done.err


def test_ctrl_c_keeps_what_was_measured_and_names_the_command_that_continues(
    ci: Callable[..., Done], comparison: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(**asked: Any) -> Run:
        comparison(**asked)
        raise RunInterruptedError(comparison.run.id)

    monkeypatch.setattr(module, "ab", interrupted)
    done = ci(*CI, "--store", "marks.db")
    assert done.code == 130
    assert "2 of 2 results are stored" in done.err
    assert f"torchmark ab --resume {comparison.run.id} --store" in done.err
    with open_store("marks.db") as store:
        assert store.run(comparison.run.id).results

"""`torchmark ci`: what it compares and why, on real repositories; the measurements are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import ab_records, histories, records
from tests.repositories import FILES, TWICE_THE_WORK, WORK, Checkout, make_checkout
from torchmark.analyse.gate import LimitRule, Outcome
from torchmark.commands import ci as module
from torchmark.commands.ci import CiPlan, ci, describe_plan, describe_steps, plan_ci
from torchmark.engine.repository import find_repository
from torchmark.errors import (
    BuildFailedError,
    InvalidArgumentError,
    NoBaselineError,
    RepositoryError,
    UnknownRevisionError,
)
from torchmark.model.run import Environment
from torchmark.settings import AffectsSettings
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchmark.model.run import Run
    from torchmark.store import Store

CODE = "src/lists/__init__.py"
ADD = records.case("Pointwise", "add")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The branch `topic` with one commit; main has gone on meanwhile."""
    made = make_checkout(tmp_path / "work")
    made.branch()
    made.git("checkout", "--quiet", "main")
    made.commit("Something else", {"src/other.py": ""})
    made.git("checkout", "--quiet", "topic")
    made.commit("Do the work twice", {CODE: TWICE_THE_WORK})
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "marks.db") as opened:
        yield opened


def plan(checkout: Checkout, **options: Any) -> CiPlan:
    given = {"variables": {}, "suites": ["benchmarks"], "setup": "true", **options}
    return plan_ci(checkout.root, **given)


class Measured:
    """In place of `ab` and `run`: keeps what they are asked, and returns this run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked: dict[str, Any] = {}

    def __call__(self, suites: Any = (), *, store: Store, **asked: Any) -> Run:
        self.asked = {"suites": suites, **asked}
        store.create(self.run)
        return self.run


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """A comparison in which `add` is twice as slow."""
    sides = ("base", "head")
    measured = Measured(
        ab_records.run_of(
            ab_records.timed(ADD, 2.0, environments=sides),
            environments=tuple(Environment(name=name) for name in sides),
        )
    )
    monkeypatch.setattr(module, "ab", measured)
    return measured


def test_the_baseline_is_the_merge_base_and_not_the_tip_of_main(checkout: Checkout) -> None:
    made = plan(checkout)
    assert made.before.id == checkout.first
    assert made.head.subject == "Do the work twice"
    assert made.base == ("main", "main")
    assert made.affected.why == f"{CODE} can affect any case"


@pytest.mark.parametrize(
    ("given", "variables", "base"),
    [
        ("other", {"GITHUB_BASE_REF": "rel"}, ("other", "other")),
        ("origin/rel", {}, ("origin/rel", "rel")),
        (None, {"GITHUB_BASE_REF": "rel"}, ("origin/rel", "rel")),
        (None, {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "rel"}, ("origin/rel", "rel")),
        (
            None,
            {
                "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "rel",
                "CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc",
            },
            ("abc", "rel"),
        ),
        (None, {"GITHUB_BASE_REF": ""}, ("main", "main")),
    ],
)
def test_the_base_is_named_by_the_user_or_by_the_ci(
    checkout: Checkout, given: str | None, variables: dict[str, str], base: tuple[str, str]
) -> None:
    repository = find_repository(checkout.root)
    assert module.find_base(repository, given, variables) == base


def test_a_remote_branch_comes_before_a_local_one(checkout: Checkout) -> None:
    checkout.git("update-ref", "refs/remotes/origin/master", checkout.first)
    assert plan(checkout).base.revision == "origin/master"


def test_without_a_usual_branch_the_base_has_to_be_named(checkout: Checkout) -> None:
    checkout.git("branch", "--move", "main", "trunk")
    with pytest.raises(InvalidArgumentError, match="name the one that the pull request is for"):
        plan(checkout)
    assert plan(checkout, base="trunk").before.id == checkout.first


def test_what_cannot_be_compared_is_said(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(UnknownRevisionError, match="has no commit 'nowhere'"):
        plan(checkout, base="nowhere")
    with pytest.raises(InvalidArgumentError, match="nothing to compare"):
        plan(checkout, base="HEAD")
    with pytest.raises(RepositoryError, match="not in the working tree"):
        plan_ci(tmp_path, {})


def test_uncommitted_changes_are_mentioned(checkout: Checkout) -> None:
    assert plan(checkout).notes == ()
    checkout.write({"README.md": "changed"})
    assert plan(checkout).notes == ("there are uncommitted changes; they are not measured",)
    assert plan(checkout, setup=None).notes == (
        "there are uncommitted changes; they are measured as well",
    )


def test_both_commits_are_built_and_compared(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    before = checkout.state()
    report = ci(plan(checkout), store=store, budget=3.0)
    base, head = sorted(checkout.worktrees()[1:], key=lambda tree: read(tree) != WORK)
    assert (read(base), read(head)) == (WORK, TWICE_THE_WORK)
    commands = compared.asked["environments"]
    assert list(commands) == ["base", "head"]
    assert commands["base"].startswith(f"export PYTHONPATH={base}/src:{base}$")
    assert commands["head"].startswith(f"export PYTHONPATH={head}/src:{head}$")
    assert compared.asked["suites"] == [f"{head}/benchmarks"], "the suite of the pull request"
    assert compared.asked["path"] == [f"{head}/benchmarks"]
    assert (compared.asked["pattern"], compared.asked["budget"]) == ("", 3.0)
    assert report.gate is not None
    assert [row.outcome for row in report.gate.rows] == [Outcome.FAIL]
    assert checkout.state() == before


def read(tree: str) -> str:
    with open(f"{tree}/{CODE}") as file:
        return file.read()


def test_a_suite_in_the_root_does_not_lead_both_sides_to_the_code_of_the_head(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    checkout.commit("Move", {"bench_root.py": FILES["benchmarks/bench_lists.py"]})
    ci(plan(checkout, suites=["bench_root.py"]), store=store)
    assert compared.asked["path"] == []


def test_limits_and_an_activation_command_are_used(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    report = ci(plan(checkout), activate="true", limits=[LimitRule(hard=2.0)], store=store)
    assert compared.asked["environments"]["base"].endswith("; true")
    assert report.gate is not None
    assert not report.gate.has_regression


def test_documentation_alone_is_not_measured(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    checkout.git("reset", "--quiet", "--hard", checkout.first)
    checkout.commit("Words", {"README.md": "More words\n", "docs/conf.py": ""})
    made = plan(checkout)
    assert made.is_nothing
    assert ci(made, store=store).gate is None
    assert checkout.worktrees() == [str(checkout.root)]
    assert not compared.asked
    assert not plan(checkout, pattern="add").is_nothing, "-k asks for cases whatever has changed"


def test_a_changed_suite_and_entries_of_the_settings_choose_the_cases(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    suite = FILES["benchmarks/bench_lists.py"].replace('"sort"', '"sorted"')
    checkout.git("reset", "--quiet", "--hard", checkout.first)
    checkout.commit("A suite", {"benchmarks/bench_lists.py": suite})
    ci(plan(checkout), store=store)
    (chosen,) = compared.asked["suites"]
    assert chosen.endswith("/tree/benchmarks/bench_lists.py")
    assert compared.asked["pattern"] == ""

    checkout.commit("Code", {CODE: TWICE_THE_WORK, "benchmarks/bench_new.py": suite})
    store.remove(compared.run.id)
    entries = [AffectsSettings(files="src/**", cases="double or triple")]
    ci(plan(checkout, affects=entries), store=store)
    pattern = compared.asked["pattern"]
    assert pattern.startswith("(double or triple) or ")
    assert pattern.count(" or ") == 3, "and the two cases of the suites"
    assert compared.asked["suites"][0].endswith("/tree/benchmarks")


def test_a_suite_that_was_removed_has_no_cases_to_measure(checkout: Checkout) -> None:
    checkout.git("reset", "--quiet", "--hard", checkout.first)
    checkout.git("rm", "--quiet", "benchmarks/bench_lists.py")
    checkout.commit("Other suite", {"benchmarks/bench_other.py": "", "README.md": "more"})
    made = plan(checkout)
    assert made.affected.suites == ("benchmarks/bench_other.py",)
    assert "some of it was removed" in made.affected.why


def test_a_build_that_fails_says_which(checkout: Checkout, store: Store) -> None:
    with pytest.raises(BuildFailedError, match=r"command of base .* Lists that double failed"):
        ci(plan(checkout, setup="false"), store=store)
    assert checkout.worktrees() == [str(checkout.root)]


def test_without_a_setup_command_the_history_is_the_baseline(
    checkout: Checkout, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in histories.runs_of({}, {ADD: [100_000] * 8}):
        store.create(run)
    measured = Measured(histories.run_on(9, records.count_result(ADD, 200_000), branch="topic"))
    monkeypatch.setattr(module, "measure_run", measured)
    report = ci(plan(checkout, setup=None), store=store)
    assert measured.asked["suites"] == [str(checkout.root / "benchmarks")]
    assert report.gate is not None
    assert report.gate.against == "branch main"
    assert [row.outcome for row in report.gate.rows] == [Outcome.FAIL]
    assert checkout.worktrees() == [str(checkout.root)]


def test_without_a_baseline_nothing_is_measured_in_vain(checkout: Checkout, store: Store) -> None:
    with pytest.raises(NoBaselineError, match=r"has no run of branch main.*--setup"):
        ci(plan(checkout, setup=None), store=store)


def test_the_settings_name_a_baseline_if_the_branch_has_none(
    checkout: Checkout, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create(histories.run_on(1, records.count_result(ADD), branch="release"))
    measured = Measured(histories.run_on(9, records.count_result(ADD), branch="topic"))
    monkeypatch.setattr(module, "measure_run", measured)
    report = ci(plan(checkout, setup=None), against="release", store=store)
    assert report.gate is not None
    assert report.gate.against == "branch release"


def test_a_dry_run_says_what_would_be_done_and_why(
    checkout: Checkout, compared: Measured, store: Store
) -> None:
    made = plan(checkout)
    assert describe_plan(made) == [
        f"base: {checkout.first[:10]} Lists that double, the merge base of HEAD and main",
        f"head: {made.head.short} Do the work twice",
        f"cases: benchmarks ({CODE} can affect any case)",
    ]
    assert describe_steps(made) == [
        f"base {made.before.short} would be built with: true",
        f"head {made.head.short} would be built with: true",
        "the cases would be compared in alternating processes of base and head",
    ]
    ci(made, store=store)
    assert describe_steps(made)[0].startswith(f"base {made.before.short} is already built in ")
    assert "judged against the history of main" in describe_steps(plan(checkout, setup=None))[1]

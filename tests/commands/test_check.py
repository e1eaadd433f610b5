"""`torchmark check`: what it compares with, and when and how it measures again."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests import ab_records, histories, records
from torchmark.analyse.gate import Baseline, Gate, GateRow, Outcome
from torchmark.commands import check as module
from torchmark.commands import check_again
from torchmark.commands.check import check
from torchmark.commands.check_again import environment_of, measure_paired, why_not_here
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric, PlannedResult, Status
from torchmark.model.run import Environment, RunState
from torchmark.model.series import REPEATED_RUN, Origin, Quantity
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from torchmark.model.case import Case
    from torchmark.model.run import Run
    from torchmark.store import Store

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
HERE = {**histories.MACHINE, "host": platform.node()}
NO_GIT: dict[str, Any] = {"commit": None, "committed": None, "branch": None}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Twenty runs in which nothing changes, on this machine and without git."""
    with open_store(tmp_path / "marks.db") as opened:
        for day, seconds in enumerate(histories.noisy([1e-6] * 20), 1):
            opened.create(run_on(day, seconds))
        yield opened


def run_on(day: int, seconds: float, facts: Any = None, **git: Any) -> Run:
    here = {"executable": sys.executable, **(facts or {})}
    result = records.time_result(ADD, seconds)
    return histories.run_on(day, result, machine=HERE, facts=here, **{**NO_GIT, **git})


def add(store: Store, run: Run) -> str:
    store.create(run)
    return run.id


def the_row(gate: Gate) -> GateRow:
    (row,) = gate.rows
    return row


class Lab:
    """Stands for measuring again: what each way finds, and what it was asked."""

    def __init__(self) -> None:
        self.alone, self.paired = 1e-6, 1.0
        self.asked: list[tuple[str, Sequence[Case]]] = []
        self.fails = ""

    def measure_alone(self, store: Store, again: Any, _progress: object) -> Run:
        run, cases = again
        self.asked.append(("alone", cases))
        facts = {"executable": sys.executable, REPEATED_RUN: run.id}
        made = run_on(90 + len(self.asked), self.alone, facts)
        store.create(made)
        return made

    def measure_paired(
        self, store: Store, again: Any, command: str, _progress: object, **_options: object
    ) -> Run:
        run, cases = again
        self.asked.append((command, cases))
        result = (
            ab_records.missing(cases[0], Metric.TIME, Status.FAILED, self.fails)
            if self.fails
            else ab_records.timed(cases[0], self.paired)
        )
        marked = [
            msgspec.structs.replace(each, facts={**each.facts, REPEATED_RUN: run.id})
            for each in (ab_records.A, ab_records.B)
        ]
        made = ab_records.run_of(
            result,
            environments=tuple(marked),
            id=f"20261231-000000-{len(self.asked):06d}",
            started="2026-12-31T00:00:00Z",
        )
        store.create(made)
        return made


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab()
    monkeypatch.setattr(module, "measure_alone", made.measure_alone)
    monkeypatch.setattr(module, "measure_paired", made.measure_paired)
    return made


def test_an_alarm_that_is_gone_when_measured_again_is_none(store: Store, lab: Lab) -> None:
    add(store, run_on(21, 1.1e-6))
    assert the_row(check(store=store, again=False)).outcome is Outcome.FAIL
    gate = check(store=store)
    assert the_row(gate).outcome is Outcome.FINE
    assert lab.asked == [("alone", [ADD])]
    lab.alone = 1.1e-6
    assert the_row(check(store=store)).outcome is Outcome.FAIL


def test_what_is_clear_is_not_measured_again(store: Store, lab: Lab) -> None:
    add(store, run_on(21, 1e-6))
    assert the_row(check(store=store)).outcome is Outcome.FINE
    assert lab.asked == []


def test_a_comparison_with_the_baseline_replaces_what_the_history_says(
    store: Store, lab: Lab
) -> None:
    add(store, run_on(21, 1.1e-6))
    gate = check(store=store, A="source base/bin/activate")
    assert lab.asked == [("source base/bin/activate", [ADD])]
    assert (the_row(gate).outcome, the_row(gate).is_paired) == (Outcome.FINE, True)
    lab.paired = 1.02
    assert the_row(check(store=store, A="b")).outcome is Outcome.FAIL


def test_a_case_that_the_baseline_cannot_run_keeps_its_first_judgement(
    store: Store, lab: Lab
) -> None:
    add(store, run_on(21, 1.1e-6))
    lab.fails = "in A: RuntimeError: no such operator\nmore"
    gate = check(store=store, A="b")
    assert (the_row(gate).outcome, the_row(gate).is_paired) == (Outcome.FAIL, False)
    assert gate.notes[-1] == (
        "1 case could not be measured again: in A: RuntimeError: no such operator"
    )


def test_a_time_that_stays_unclear_says_how_to_see_more(store: Store, lab: Lab) -> None:
    noisy = histories.noisy([1e-6] * 20, spread=0.02, seed=4)
    for day, seconds in enumerate(noisy, 30):
        add(store, run_on(day, seconds, branch="noisy"))
    add(store, run_on(60, 1.03e-6, branch="noisy"))
    lab.alone = 1.03e-6
    gate = check(store=store, against="noisy")
    assert the_row(gate).outcome is Outcome.NEAR
    assert "with --A, the shell command that activates" in gate.notes[-1]


def test_the_first_judgement_is_told_before_anything_is_measured(store: Store, lab: Lab) -> None:
    add(store, run_on(21, 1.1e-6))
    told: list[tuple[Outcome, int]] = []

    def hear(gate: Gate) -> None:
        told.append((the_row(gate).outcome, len(lab.asked)))

    check(store=store, first=hear)
    assert told == [(Outcome.FAIL, 0)]
    assert len(lab.asked) == 1


def test_the_latest_run_is_never_one_that_only_repeats_cases(store: Store, lab: Lab) -> None:
    judged = add(store, run_on(21, 1.1e-6))
    lab.alone = 1.1e-6
    for _ in range(2):
        assert check(store=store).run.id == judged
    assert check(store=store, A="b").run.id == judged
    assert check(store=store, A="b").run.id == judged


def test_runs_that_repeat_cases_are_in_no_history(store: Store, lab: Lab) -> None:
    add(store, run_on(21, 1.1e-6))
    again = check(store=store).again
    assert again in [each.id for each in store.runs()]
    assert again not in [each.run for each in store.origins()]
    assert lab.asked


def test_later_runs_of_the_branch_are_no_baseline(store: Store) -> None:
    for day in range(21, 40):
        add(store, run_on(day, 1.1e-6, branch="main"))
    middle = add(store, run_on(40, 1.2e-6, branch="main"))
    for day in range(41, 60):
        add(store, run_on(day, 1.2e-6, branch="main"))
    for against in (None, "main"):
        gate = check(middle, against=against, store=store, again=False)
        assert the_row(gate).outcome is Outcome.FAIL
        assert gate.against == "earlier runs on branch main"


def test_runs_with_uncommitted_changes_are_left_out_of_the_baseline(store: Store) -> None:
    for day in range(21, 40):
        add(store, run_on(day, 1.1e-6, dirty=True))
    add(store, run_on(40, 1.1e-6))
    gate = check(store=store, again=False)
    assert the_row(gate).outcome is Outcome.FAIL
    assert "19 runs of the baseline with uncommitted changes are left out" in gate.notes


def test_a_baseline_of_uncommitted_changes_alone_is_used_and_said(store: Store) -> None:
    for day in range(21, 25):
        add(store, run_on(day, 1e-6, dirty=True, branch="own"))
    add(store, run_on(25, 1e-6, dirty=True, branch="own"))
    gate = check(store=store, against="own", again=False)
    assert gate.was_judged
    assert "the baseline has only runs with uncommitted changes" in gate.notes


def test_a_branch_named_like_a_tag_is_the_branch_and_says_so(store: Store) -> None:
    add(store, run_on(21, 1e-6, branch="stable"))
    tagged = store.origins()[0].run
    store.tag(tagged, "stable")
    add(store, run_on(22, 1e-6))
    gate = check(store=store, against="stable", again=False)
    assert gate.against == "branch stable"
    assert f"stable is also a name of run {tagged}; the branch is used" in gate.notes


def test_a_baseline_of_the_same_commit_is_said(store: Store) -> None:
    commit = histories.commit(21)
    add(store, run_on(21, 1e-6, branch="main", commit=commit))
    add(store, run_on(22, 1.1e-6, branch="topic", commit=commit))
    gate = check(store=store, again=False)
    assert not gate.was_judged
    assert "all runs on branch main measured the same commit as this run" in gate.notes


def test_only_a_run_of_the_same_kind_can_be_a_baseline(store: Store) -> None:
    compared = add(store, ab_records.run_of(ab_records.timed(ADD, 1.0)))
    add(store, run_on(21, 1e-6))
    latest = store.origins()[-1].run
    with pytest.raises(InvalidArgumentError, match="cannot be a baseline; name a run of"):
        check(latest, against=compared, store=store)


def test_what_an_interrupted_run_did_not_measure_does_not_pass(store: Store) -> None:
    run = run_on(21, 1e-6)
    plan = (*run.plan, PlannedResult(case=MUL, metric=Metric.TIME))
    add(store, msgspec.structs.replace(run, plan=plan, state=RunState.INTERRUPTED))
    (row,) = check(store=store, again=False).rows_with(Outcome.BROKEN)
    assert (row.case, row.reason) == (MUL, "not measured, because the run is interrupted")


def test_a_removed_run_is_told(store: Store) -> None:
    run = run_on(21, 1e-6)
    add(store, run)
    store.remove(run.id)
    with pytest.raises(InvalidArgumentError, match="there is no run"):
        check(run.id, store=store)


def test_a_run_with_a_damaged_start_is_not_judged(store: Store) -> None:
    run = run_on(21, 1e-6)
    add(store, msgspec.structs.replace(run, started="2027, perhaps"))
    with pytest.raises(InvalidArgumentError, match="its record is damaged"):
        check(run.id, store=store, again=False)


def test_a_run_of_ab_is_judged_by_its_own_comparison(store: Store) -> None:
    run = ab_records.run_of(
        ab_records.timed(ADD, 1.02),
        ab_records.counted(ADD, {"f": 10_000}, {"f": 10_500}),
        ab_records.timed(MUL, 1.0),
        ab_records.missing(MUL, Metric.INSTRUCTIONS, Status.FAILED, "no"),
    )
    add(store, run)
    gate = check(run.id, store=store)
    found = {(row.case.name, row.quantity): row.outcome for row in gate.rows}
    assert found == {
        ("Pointwise / add", Quantity.TIME): Outcome.FAIL,
        ("Pointwise / add", Quantity.INSTRUCTIONS): Outcome.FAIL,
        ("Pointwise / mul", Quantity.TIME): Outcome.FINE,
        ("Pointwise / mul", Quantity.INSTRUCTIONS): Outcome.BROKEN,
    }
    assert gate.against == "environment A of the same run"


@pytest.mark.parametrize(
    ("facts", "checkout", "told"),
    [
        ({"machine": {"host": "ci-77"}}, None, "the run was made on ci-77"),
        ({"executable": "/envs/old/bin/python"}, None, "another interpreter, /envs/old/bin/python"),
        ({"git": {"commit": "a" * 40}}, None, "and this directory is not in git"),
        (
            {"git": {"commit": "a" * 40}},
            {"commit": "b" * 40, "dirty": False},
            f"measured commit {'a' * 10}, and this is {'b' * 10}",
        ),
        (
            {"git": {"commit": "a" * 40, "dirty": False}},
            {"commit": "a" * 40, "dirty": True},
            "files have been changed since the run",
        ),
        ({"git": {"commit": "a" * 40}}, {"commit": "a" * 40, "dirty": False}, ""),
        ({}, None, ""),
    ],
)
def test_only_what_the_run_measured_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, facts: Any, checkout: Any, told: str
) -> None:
    monkeypatch.setattr(check_again, "describe_checkout", lambda _directory: checkout)
    run = records.run_of(ADD, environments=(Environment(facts=facts),))
    why = why_not_here(run)
    assert told in why
    assert bool(told) is bool(why)


@pytest.mark.parametrize("suite", ["bench_ops.py", "benchmarks/ops"])
def test_a_suite_that_is_not_here_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suite: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = records.run_of(ADD, environments=(Environment(),), settings={"suites": [suite]})
    assert why_not_here(run).startswith(f"there is no {suite} here")
    for named in ("standard", "package.suite"):
        fine = msgspec.structs.replace(run, settings={"suites": [named]})
        assert why_not_here(fine) == ""


def row_before(facts: Any, **git: Any) -> GateRow:
    """A doubtful row whose baseline has these facts."""
    run = run_on(1, 1e-6, facts, **git)
    origin = Origin(
        run=run.id, started=run.started, kind=run.kind, suite="", environment=run.environment
    )
    baseline = Baseline(level=1e-6, points=9, first=origin, last=origin)
    return GateRow(case=ADD, quantity=Quantity.TIME, outcome=Outcome.NEAR, baseline=baseline)


def test_the_interpreter_of_the_baseline_is_started_only_if_it_surely_has_the_old_code(
    tmp_path: Path,
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    other = {"executable": str(python)}
    run = run_on(2, 1e-6)

    def found(facts: Any, **git: Any) -> bool:
        return environment_of([row_before(facts, **git)], run) is not None

    assert found(other)
    assert not found({"executable": sys.executable})
    assert not found(other, commit="a" * 40)
    assert not found(other, dirty=True)
    assert not found({**other, "machine": {**HERE, "host": "elsewhere"}})
    python.parent.chmod(0o777)
    assert not found(other)


def test_a_command_that_leads_nowhere_else_is_refused(store: Store) -> None:
    """It would compare the new code with itself, and every regression would be gone."""
    run = run_on(21, 1e-6)
    with pytest.raises(InvalidArgumentError, match="shows no regression"):
        measure_paired(store, (run, [ADD]), "true", None, limits=[0.01])


@pytest.mark.parametrize(
    ("limits", "wanted"), [([0.01, 0.05], 0.015), ([0.04], 0.06), ([0.001], 0.01), ([0.0], 0.01)]
)
def test_a_comparison_lasts_until_it_would_show_the_smallest_limit(
    limits: list[float], wanted: float
) -> None:
    assert check_again._wanted(limits) == pytest.approx(wanted)

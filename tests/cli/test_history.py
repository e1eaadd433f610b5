"""`torchmark history` and `torchmark check`, as people call them."""

from __future__ import annotations

import csv
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests import histories, records
from tests.cli.test_stored import Done, call  # noqa: F401 - a fixture
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
ODD = records.case("Pointwise", "<b>\x1b[31mred|</b>")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with thirty runs: add became 5 % slower, mul was slower for a week."""
    path = tmp_path / "marks.db"
    slower = histories.noisy([1e-6] * 15 + [1.05e-6] * 15)
    passing = histories.noisy([2e-6] * 10 + [2.2e-6] * 7 + [2e-6] * 13, seed=2)
    counts = {ADD: [100_000] * 15 + [100_100] * 15}
    with open_store(path) as store:
        for run in histories.runs_of({ADD: slower, MUL: passing, ODD: slower}, counts):
            store.create(run)
    return str(path)


def test_history_shows_the_trend_and_the_changes(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    done = call("history", "add", "--store", place)
    assert (done.code, done.err) == (0, "")
    assert "Time of one run · Fast One, 2 cores, x86_64" in done.out
    assert "▁" in done.out
    assert "+5.0 %" in done.out or "+4.9 %" in done.out or "+5.1 %" in done.out
    assert f"{histories.commit(15)[:10]}..{histories.commit(16)[:10]}" in done.out
    assert "2 series of 30 runs: 2 changes stayed." in done.out
    assert "mul" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_change_that_passed_is_told_from_one_that_stays(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    out = call("history", "-k", "mul", "--store", place).out
    assert out.count("passed") == 3  # two changes, and the summary
    assert "1 series of 30 runs: 2 changes passed." in out


def test_text_of_a_case_cannot_control_the_terminal(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    out = call("history", "-k", "red", "--store", place).out
    assert "\x1b" not in out
    assert "<b>" in out


def test_history_is_written_in_every_format(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    tmp_path: Path,
) -> None:
    files = {form: tmp_path / f"h.{form}" for form in ("csv", "json", "markdown", "html")}
    options = [text for form, file in files.items() for text in (f"--{form}", str(file))]
    assert call("history", "--store", place, *options).code == 0
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert len(rows) == 4 * 30
    assert [row["quantity"] for row in rows if row["change"]].count("instructions") == 1
    assert json.loads(files["json"].read_text())["torchmark"] == "history"
    page = files["html"].read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.replace("<b></b>", "")
    assert r"\<b\>" in files["markdown"].read_text()


def test_runs_can_be_chosen(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    def runs(*options: str) -> str:
        return call("history", ADD.id, "--metric", "time", "--store", place, *options).out

    assert "10 runs" in runs("--limit", "10")
    assert "30 runs" in runs("--branch", "main")
    assert "2 runs, 2026-02-01 to 2026-02-02" in runs("--since", "2026-02-01")
    assert "instructions" not in runs().lower()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--branch", "topic"], "no run on branch topic has such figures; there are runs on main"),
        (["nothing"], "no case with figures in"),
        (["--since", "yesterday"], "'yesterday' is not a date such as 2026-11-01"),
        (["--least", "2"], "'2' is not a percentage above zero"),
        (["-k", "("], "the pattern cannot be read"),
    ],
)
def test_a_wrong_choice_says_what_there_is(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    options: list[str],
    told: str,
) -> None:
    done = call("history", "--store", place, *options)
    assert done.code == 2
    assert told in done.err
    assert done.out == ""


def test_an_empty_store_says_how_to_fill_it(call: Callable[..., Done], tmp_path: Path) -> None:  # noqa: F811
    with open_store(tmp_path / "empty.db"):
        pass
    done = call("history", "--store", str(tmp_path / "empty.db"))
    assert (done.code, done.out) == (0, "")
    assert "`torchmark run --store" in done.err


def test_the_commits_behind_a_change_are_counted(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Real commits; one of them is rebased away afterwards."""

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main", ".")
    commits = []
    for number in range(4):
        git("commit", "-q", "--allow-empty", "-m", f"number {number}")
        commits.append(git("rev-parse", "HEAD"))
    levels = [1e-6] * 8 + [1.1e-6] * 8
    with open_store(tmp_path / "marks.db") as store:
        for day, value in enumerate(histories.noisy(levels), 1):
            measured = commits[0] if day <= 8 else commits[3]
            store.create(histories.run_on(day, records.time_result(ADD, value), commit=measured))
    told = call("history", "--store", "marks.db").out
    assert f"{commits[0][:10]}..{commits[3][:10]}, 3 commits" in " ".join(told.split())
    git("checkout", "-q", "--orphan", "other")
    git("commit", "-q", "--allow-empty", "-m", "another root")
    lost = git("rev-parse", "HEAD")
    with open_store(tmp_path / "marks.db") as store:
        for day, value in enumerate(histories.noisy([1.3e-6] * 8, seed=3), 17):
            store.create(histories.run_on(day, records.time_result(ADD, value), commit=lost))
    told = " ".join(call("history", "--store", "marks.db").out.split())
    assert "which are not on one line of commits" in told


def test_runs_without_git_are_ordered_by_their_start(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    with open_store(tmp_path / "marks.db") as store:
        for day, value in enumerate(histories.noisy([1e-6] * 8 + [1.1e-6] * 8), 1):
            result = records.time_result(ADD, value)
            store.create(histories.run_on(day, result, commit=None, committed=None, branch=None))
    out = call("history", "--store", "marks.db").out
    assert "1 change stayed" in out
    assert "runs 20260108-120000-000008" in " ".join(out.split())


def test_check_passes_a_run_like_those_before(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    done = call("check", "--no-again", "--store", place)
    assert done.code == 0
    assert "against: earlier runs on branch main" in done.out
    assert done.out.splitlines()[-1].endswith("4 fine.")


def add_run(place: str, day: int, seconds: float, count: int = 100_100, **git: str) -> None:
    with open_store(place) as store:
        results = records.time_result(ADD, seconds), records.count_result(ADD, count)
        store.create(histories.run_on(day, *results, **git))


def test_check_fails_a_slower_run_with_exit_code_1(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    add_run(place, 31, 1.10e-6, 105_000)
    done = call("check", "--no-again", "--store", place)
    assert done.code == 1
    assert "slower" in done.out
    assert "more" in done.out
    assert "2 over the hard limit; 2 missing." in done.out
    assert "is in the baseline, but not in this run" in " ".join(done.out.split())


def test_a_branch_is_compared_with_main(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    add_run(place, 31, 1.05e-6, branch="topic")
    done = call("check", "--no-again", "--store", place)
    assert "against: branch main" in done.out
    assert done.code == 0
    done = call("check", "--against", "20260101", "--no-again", "--store", place)
    assert "against: run 20260101-120000-000001" in done.out


def test_limits_come_from_options_and_settings(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    tmp_path: Path,
) -> None:
    add_run(place, 31, 1.10e-6)
    assert call("check", "--no-again", "--store", place).code == 1
    assert call("check", "--no-again", "--store", place, "--limit", "add=±20%").code == 0
    assert call("check", "--no-again", "--store", place, "--limit", "mul=20%").code == 1
    (tmp_path / "torchmark.toml").write_text(
        '[[limits]]\nsoft = 2\nhard = 30\n[[limits]]\ncases = "mul"\nhard = 1\n'
    )
    done = call("check", "--no-again", "--store", place)
    assert done.code == 0
    assert "slightly slower" in done.out
    assert call("check", "--no-again", "--store", place, "--limit", "=4%").code == 1


def test_an_improvement_fails_only_if_asked(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    add_run(place, 31, 0.9e-6)
    assert call("check", "--no-again", "--store", place).code == 0
    assert call("check", "--no-again", "--fail-on", "any", "--store", place).code == 1


def test_without_a_baseline_nothing_passes_silently(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "new.db")
    add_run(place, 1, 1e-6)
    done = call("check", "--store", place)
    assert done.code == 4
    assert "there is no baseline" in done.err
    assert "Nothing was judged" in done.out


def test_other_machines_are_not_compared(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    with open_store(place) as store:
        machine = {**histories.MACHINE, "cpu": "Slow One"}
        store.create(histories.run_on(31, records.time_result(ADD, 9e-6), machine=machine))
    done = call("check", "--store", place)
    assert done.code == 4
    assert "the baseline was measured on other machines (Fast One" in " ".join(done.out.split())


def test_an_old_baseline_and_other_tools_are_told(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    with open_store(place) as store:
        facts = {"torch": {"version": "2.15.0"}}
        store.create(histories.run_on(90, records.time_result(ADD, 1.05e-6), facts=facts))
    out = " ".join(call("check", "--no-again", "--store", place).out.split())
    assert "the baseline is out of date: its newest run," in out
    assert "torch 2.13.0 → 2.15.0" in out


def test_a_failed_case_is_not_passed(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    with open_store(place) as store:
        store.create(
            histories.run_on(31, records.failed_result(ADD), records.count_result(ADD, 100_100))
        )
    done = call("check", "--no-again", "--store", place)
    assert done.code == 3
    assert "failed: the case crashed" in " ".join(done.out.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--limit", "add"], "is not CASE=±X%"),
        (["--limit", "add=2"], "is not CASE=±X%"),
        (["--against", "nowhere"], "'nowhere' is neither a branch with runs (there are main)"),
        (["--against", "latest"], "name another baseline"),
        (["nothing"], "nothing"),
    ],
)
def test_wrong_arguments_of_check_are_refused(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    options: list[str],
    told: str,
) -> None:
    done = call("check", "--no-again", "--store", place, *options)
    assert done.code == 2
    assert told in done.err


def test_check_writes_its_result_for_programs(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    tmp_path: Path,
) -> None:
    add_run(place, 31, 1.10e-6)
    file = tmp_path / "check.json"
    call("check", "--no-again", "--store", place, "--json", str(file))
    found = json.loads(file.read_text())
    assert found["torchmark"] == "check"
    (slow,) = [row for row in found["table"] if row["outcome"] == "slower"]
    assert slow["quantity"] == "time"
    assert slow["ratio"] == pytest.approx(1.048, abs=0.005)
    assert slow["baseline_runs"] >= 14

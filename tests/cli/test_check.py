"""`torchmark check` when something goes wrong, and with real measurements."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import torchmark
from tests import ab_records, histories, records
from tests.cli.test_stored import Done, call  # noqa: F401 - a fixture
from torchmark.commands import check as module
from torchmark.errors import ZygoteError
from torchmark.model.result import Metric
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchmark.model.run import Run

ADD = records.case("Pointwise", "add")
HERE = {**histories.MACHINE, "host": platform.node()}
NO_GIT: dict[str, Any] = {"commit": None, "committed": None, "branch": None}


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Twenty runs like each other on this machine, then one that is slower."""
    times = [*histories.noisy([1e-6] * 20), 1.1e-6]
    with open_store(tmp_path / "marks.db") as store:
        for day, seconds in enumerate(times, 1):
            store.create(run_on(day, seconds))
    return str(tmp_path / "marks.db")


def run_on(day: int, seconds: float) -> Run:
    facts = {"executable": sys.executable}
    result = records.time_result(ADD, seconds)
    return histories.run_on(day, result, machine=HERE, facts=facts, **NO_GIT)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "because it was interrupted"),
        (ZygoteError("torch is gone"), 4, "because it failed"),
    ],
)
def test_the_first_judgement_is_shown_if_measuring_again_ends_early(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: BaseException,
    code: int,
    told: str,
) -> None:
    def end_early(*_: object) -> None:
        raise error

    monkeypatch.setattr(module, "measure_alone", end_early)
    file = tmp_path / "check.json"
    done = call("check", "--store", place, "--json", str(file))
    assert done.code == code
    assert "doubtful times were not measured again" in " ".join(done.out.split())
    assert told in done.out
    assert "1 over the hard limit." in done.out
    assert json.loads(file.read_text())["table"][0]["outcome"] == "slower"


def test_json_on_standard_output_is_nothing_but_json(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    done = call("check", "--no-again", "--store", place, "--json", "-")
    assert done.code == 1
    assert json.loads(done.out)["table"][0]["outcome"] == "slower"


def test_a_run_of_ab_is_checked_in_every_format(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "marks.db")
    run = ab_records.run_of(
        ab_records.timed(ADD, 1.02), ab_records.counted(ADD, {"f": 10_000}, {"f": 10_100})
    )
    with open_store(place) as store:
        store.create(run)
    files = {form: tmp_path / f"c.{form}" for form in ("csv", "json", "markdown", "html")}
    options = [text for form, file in files.items() for text in (f"--{form}", str(file))]
    done = call("check", "--store", place, "--limit", "instructions=5%", *options)
    assert done.code == 1
    assert "against: environment A of the same run" in done.out
    assert "slower (p)" in done.out
    assert all("slower" in file.read_text() for file in files.values())
    assert call("check", "--store", place, "--limit", "5%").code == 0


SUITE = """
from torchmark import TimerArgs
SUITE = {"loop": TimerArgs("for _ in range(2000): pass")}
"""


def test_a_false_alarm_of_a_history_is_cleared_by_a_comparison_with_the_baseline(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    """Real runs: the machine was twice as fast in the baseline, and the code is the same.

    Alone, the measurement agrees with the run. In pairs with the old environment it does not. Both
    use the threads of the run, which are not those of the suite.
    """
    place = str(tmp_path / "marks.db")
    (tmp_path / "bench_loop.py").write_text(SUITE)
    run = torchmark.run(["bench_loop.py"], metrics=["time"], quick=True, threads=2, store=place)
    (result,) = run.results
    times = result.measurement
    assert times is not None
    with open_store(place) as store:
        for day, seconds in enumerate(histories.noisy([times.median / 2] * 8), 1):
            before = records.time_result(result.case, seconds)
            made = histories.run_on(day, before, **NO_GIT)
            store.create(
                msgspec.structs.replace(
                    made, environments=run.environments, started=f"2020-01-{day:02d}T00:00:00Z"
                )
            )
    alone = call("check", run.id, "--store", place, "--quiet")
    assert alone.code == 1
    assert "doubtful times were measured again in run" in " ".join(alone.out.split())
    paired = call("check", run.id, "--store", place, "--quiet", "--A", "export OLD=1")
    assert paired.code == 0, paired.out
    assert "(p)" in paired.out
    with open_store(place) as store:
        again = [each.id for each in store.runs() if each.id not in
                 {origin.run for origin in store.origins()}]  # fmt: skip
        measured = store.run(again[0])
    assert [(each.case, each.metric) for each in measured.plan] == [(result.case, Metric.TIME)]
    assert len(again) == 2


def test_a_changed_checkout_is_not_measured_for_the_commit_of_the_run(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    """A real repository, in which the run's commit is no longer checked out."""

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main", ".")
    git("commit", "-q", "--allow-empty", "-m", "measured")
    commit = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "another")
    place = str(tmp_path / "marks.db")
    times = [*histories.noisy([1e-6] * 20), 1.1e-6]
    with open_store(place) as store:
        for day, seconds in enumerate(times, 1):
            own = {"commit": commit} if day == 21 else {}
            result = records.time_result(ADD, seconds)
            store.create(
                histories.run_on(
                    day, result, machine=HERE, facts={"executable": sys.executable}, **own
                )
            )
    done = call("check", "--store", place)
    assert done.code == 1
    assert (
        f"nothing was measured again: the run measured commit {commit[:10]}, and this is "
        f"{git('rev-parse', 'HEAD')[:10]}"
    ) in " ".join(done.out.split())

"""The commands that read histories, with stores that are damaged, strange, old or changing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import torchmark
from tests import histories, records
from tests.cli.test_stored import Done, call  # noqa: F401 - a fixture
from tests.store.test_migrations import make_version_3
from torchmark.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
RUNS = 12
FIRST = "20260101-120000-000001"
HISTORY, RUNS_COMMAND, SHOW = ("history",), ("runs",), ("show", FIRST)
CHECK, PUBLISH, REPORT = ("check", "--no-again"), ("publish", "site"), ("report", FIRST)
READERS = [HISTORY, RUNS_COMMAND, SHOW, CHECK, PUBLISH, REPORT]


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with twelve runs of two cases that do not change."""
    path = tmp_path / "marks.db"
    times = {ADD: histories.noisy([1e-6] * RUNS), MUL: histories.noisy([2e-6] * RUNS, seed=2)}
    with open_store(path) as store:
        for run in histories.runs_of(times, {ADD: [100_000] * RUNS}):
            store.create(run)
    return str(path)


def change(place: str, statement: str, *values: Any) -> None:
    connection = sqlite3.connect(place)
    with connection:
        connection.execute(statement, values)
    connection.close()


def test_a_store_in_order_is_read_without_complaint(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    for command in READERS:
        done = call(*command, "--store", place)
        assert done.code == 0, (command, done)
        assert "damaged" not in done.err


@pytest.mark.parametrize("command", READERS)
def test_a_truncated_file_is_told(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    command: tuple[str, ...],
) -> None:
    content = Path(place).read_bytes()
    Path(place).write_bytes(content[: len(content) // 2])
    done = call(*command, "--store", place)
    assert (done.code, done.out) == (4, "")
    assert "the file is damaged; restore it from a backup" in done.err


@pytest.mark.parametrize("command", READERS)
def test_a_store_of_a_newer_torchmark_is_told(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    command: tuple[str, ...],
) -> None:
    change(place, "UPDATE torchmark_version SET version = 99")
    done = call(*command, "--store", place)
    assert (done.code, done.out) == (4, "")
    assert "made by a newer torchmark" in done.err


@pytest.mark.parametrize(
    ("statement", "commands", "told"),
    [
        (
            f"UPDATE torchmark_results SET value = 'x' WHERE run_id = '{FIRST}'",
            [HISTORY, CHECK, PUBLISH],
            f"in run {FIRST} is not in the history",
        ),
        (
            f"UPDATE torchmark_results SET value = 9e999 WHERE run_id = '{FIRST}'",
            [HISTORY, CHECK, PUBLISH],
            f"in run {FIRST} is not in the history",
        ),
        (
            f"UPDATE torchmark_runs SET environments = '{{' WHERE id = '{FIRST}'",
            [HISTORY, CHECK, PUBLISH, RUNS_COMMAND],
            f"torchmark rm {FIRST}",
        ),
        (
            f"UPDATE torchmark_cases SET record = '{{' WHERE id = '{ADD.id}'",
            [HISTORY, CHECK, PUBLISH],
            f"case '{ADD.id}' is not in the history",
        ),
        (
            f"UPDATE torchmark_results SET record = 'x' WHERE run_id = '{FIRST}'",
            [SHOW, REPORT],
            "its record in the store is damaged",
        ),
        (
            f"UPDATE torchmark_runs SET record = 'x' WHERE id = '{FIRST}'",
            [SHOW, REPORT],
            f"torchmark rm {FIRST}",
        ),
    ],
)
def test_damage_is_told_and_the_rest_is_shown(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    statement: str,
    commands: list[tuple[str, ...]],
    told: str,
) -> None:
    change(place, statement)
    before = Path(place).read_bytes()
    for command in READERS:
        done = call(*command, "--store", place)
        if command in commands:
            assert done.code == 4, (command, done)
            assert told in done.err
        else:
            assert (done.code, done.err.count("damaged")) == (0, 0), (command, done)
    assert Path(place).read_bytes() == before


def test_a_case_that_only_damage_hides_is_not_called_unknown(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    change(place, "UPDATE torchmark_cases SET record = '{' WHERE id = ?", ADD.id)
    done = call("history", "-k", "add", "--store", place)
    assert (done.code, done.out) == (4, "")
    assert f"damaged: case '{ADD.id}'" in done.err
    assert "matches 'add'" in done.err
    change(place, "UPDATE torchmark_cases SET record = '{'")
    done = call("history", "--store", place)
    assert done.code == 4
    assert "No times or counts" not in done.err


def test_a_store_of_version_3_that_cannot_be_written_says_what_to_do(
    place: str, tmp_path: Path
) -> None:
    """In a process without root's right to write everywhere."""
    with open_store(place) as store:
        make_version_3(store)
    Path(place).chmod(0o444)
    command = [sys.executable, "-m", "torchmark", "history", "--store", place]
    if os.getuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv is not None, "root can write everywhere: apt-get install util-linux"
        command = [setpriv, "--bounding-set=-all", "--inh-caps=-all", *command]
    site = str(Path(torchmark.__file__).resolve().parent.parent)
    tmp_path.chmod(0o555)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": site},
        )
    finally:
        tmp_path.chmod(0o755)
    assert (done.returncode, done.stdout) == (4, "")
    assert "has version 3 and must be converted before it can be read" in done.stderr
    assert "copy it to your own directory" in done.stderr


def test_a_store_of_version_3_has_its_history_after_it_was_converted(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    before = call("history", "--store", place).out
    with open_store(place) as store:
        make_version_3(store)
    done = call("history", "--store", place)
    assert (done.code, done.out) == (0, before)
    assert Path(f"{place}.version-3").exists()


@pytest.mark.parametrize(
    ("command", "method"),
    [
        (HISTORY, "origins"),
        (("history", "add"), "cases"),
        (CHECK, "origins"),
        (PUBLISH, "cases"),
    ],
)
def test_a_run_that_is_removed_meanwhile_is_only_missing(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    method: str,
) -> None:
    remove_after(place, monkeypatch, method)
    done = call(*command, "--store", place)
    assert done.code == 0, done
    assert FIRST not in call("runs", "--store", place).out


def test_a_run_that_is_removed_before_it_is_read_is_told(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove_after(place, monkeypatch, "id_of")
    done = call(*REPORT, "--store", place)
    assert done.code == 2
    assert f"there is no run '{FIRST}'" in done.err


def remove_after(place: str, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Let somebody remove the first run when this method of a store has returned."""
    original = getattr(Store, method)

    def then_remove(self: Store, *arguments: Any) -> Any:
        found = original(self, *arguments)
        monkeypatch.setattr(Store, method, original)
        with open_store(place) as other:
            other.remove(FIRST)
        return found

    monkeypatch.setattr(Store, method, then_remove)


ODD = (
    "<script>alert(1)</script> | **bold** `code` \x1b[31mred\x1b]0;t\x07 \0 \u202e 'q' \"q\" & ]]>"
)
LONG = "long " * 2_000


def test_odd_texts_are_shown_as_text(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "marks.db")
    with open_store(place) as store:
        for day, version in enumerate([ODD, LONG, "2.13.0"] * 4, 1):
            facts = {"torch": {"version": version, "git": ODD}, "torchmark": LONG, "python": ODD}
            results = (
                records.time_result(records.case(ODD, ODD, stmt=ODD), day * 1e-6),
                records.count_result(records.case(LONG, LONG, stmt=LONG), day * 100),
            )
            git = {"commit": ODD if day % 2 else "--output=x", "branch": ODD}
            machine = {**histories.MACHINE, "cpu": ODD if day < 7 else LONG}
            store.create(histories.run_on(day, *results, machine=machine, facts=facts, **git))
    files = {form: tmp_path / f"h.{form}" for form in ("csv", "json", "markdown", "html")}
    options = [text for form, file in files.items() for text in (f"--{form}", str(file))]
    for command in (("history",), ("runs",), ("show",), ("check", "--no-again")):
        done = call(*command, "--store", place)
        assert done.code in (0, 4), done  # 4: there may be no baseline
        check_plain(done.out)
    for written in (("history", *options), ("publish", "site"), ("report", "-o", "r.html")):
        assert call(*written, "--store", place).code == 0
    pages = [*tmp_path.glob("*.html"), *(tmp_path / "site").rglob("*.html")]
    assert len(pages) > 10
    for page in pages:
        text = page.read_text()
        assert "<script>alert" not in text
        check_plain(text)
    for form in ("csv", "markdown"):
        check_plain(files[form].read_text())
    assert "<script>" not in files["markdown"].read_text()
    assert json.loads(files["json"].read_text())["torchmark"] == "history"
    assert not (tmp_path / "x").exists()


def check_plain(text: str) -> None:
    assert not {"\x1b", "\0", "\x07", "\u202e"} & set(text)


def test_commits_that_a_repository_lost_are_named(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    """After a rebase; and with no git at all."""
    place = str(tmp_path / "marks.db")
    with open_store(place) as store:
        for run in histories.runs_of({ADD: histories.noisy([1e-6] * 20 + [1.1e-6] * 20)}):
            store.create(run)
    span = f"{histories.commit(20)[:10]}..{histories.commit(21)[:10]}"
    without_git = call("history", "--store", place)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    in_another = call("history", "--store", place)
    for done in (without_git, in_another):
        assert done.code == 0
        assert span in done.out
    assert without_git.out == in_another.out


def test_versions_of_torch_within_a_commit_are_named(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    versions = {"2.9.1": 101_000, "1.13.1": 100_000, "2.13.0": 90_000, "2.15.0": 90_000}
    place = str(tmp_path / "marks.db")
    cases = [records.case("Pointwise", name) for name in ("add", "mul", "sub", "div")]
    with open_store(place) as store:
        for day, (version, count) in enumerate(versions.items(), 1):
            facts = {"torch": {"version": version, "git": version * 8}}
            results = [records.count_result(case, count) for case in cases]
            run = histories.run_on(
                day, *results, facts=facts, commit="a" * 40, committed="2026-01-01"
            )
            store.create(run)
    done = call("history", "--store", place)
    out = " ".join(done.out.split())
    assert "4 runs, torch 1.13.1 to 2.15.0" in out
    assert "torch 2.9.1 → 2.13.0: -10.9 % (1,010 → 900) stayed" in out
    assert "torch 1.13.1 → 2.9.1: +1.0 % (1,000 → 1,010) stayed" in out
    assert "4 of 4 cases changed their instructions with torch 2.9.1 → 2.13.0 (run 2026" in out
    assert "suspect" not in out
    assert "4 series of 4 runs: 8 changes stayed." in out
    page = tmp_path / "h.html"
    assert call("history", "--store", place, "--html", str(page)).code == 0
    assert "version of torch" in page.read_text()


def test_five_thousand_runs_are_a_history(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    """The runs are copies of the last; each has a commit of its own."""
    with open_store(place) as store:
        last = store.run("latest")
    facts = last.environment.facts
    connection = sqlite3.connect(place)
    rows = [
        (
            f"{last.id}-{number:04}",
            f"2026-06-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
            json.dumps([{"facts": {**facts, "git": {"commit": f"{number:040x}"}}}]),
        )
        for number in range(5_000 - RUNS)
    ]
    with connection:
        connection.executemany(
            "INSERT INTO torchmark_runs SELECT ?, kind, ?, state, planned, ?, git_commit, "
            f"git_branch, suite, record FROM torchmark_runs WHERE id = '{last.id}'",
            rows,
        )
        connection.execute(
            "INSERT INTO torchmark_results (run_id, case_id, metric, environments, status, record, "
            "value, low, high, memory) SELECT run.id, case_id, metric, one.environments, status, "
            "one.record, value, low, high, memory FROM torchmark_results AS one "
            f"JOIN torchmark_runs AS run ON one.run_id = '{last.id}' AND run.id > '{last.id}'"
        )
    connection.close()
    done = call("history", "-k", "add", "--store", place)
    assert done.code == 0, done
    assert "2 series of 5,000 runs: " in done.out
    assert "5,000 runs, 2026-01-01 to 2026-06-01" in done.out
    assert "The newest 1 of 5,000 runs" in call("runs", "--limit", "1", "--store", place).out
    assert call(*CHECK, "--store", place).code == 0

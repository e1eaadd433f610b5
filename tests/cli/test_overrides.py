"""`torchmark overrides ladder` as people call it: a real run, kept, and shown once more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_cli import torchmark_command
from tests.records import case, count_result, failed_result, run_of, time_result
from torchmark.model.run import RunKind, RunState
from torchmark.store import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.model.result import Result

PLAIN, SUB = (case("overrides", "torch.add", kind) for kind in ("Tensor", "SubTensor"))


def kept(store: Path, *results: Result) -> None:
    with open_store(store) as opened:
        run = run_of(*{result.case.id: result.case for result in results}.values())
        opened.create(run)
        for result in results:
            opened.add(run.id, result)
        opened.finish(run.id, RunState.FINISHED)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A run of the suite beside a case of another."""
    path = tmp_path / "runs.db"
    kept(
        path,
        time_result(PLAIN, 1e-6),
        time_result(SUB, 3e-6),
        count_result(PLAIN, 400_000),
        count_result(SUB, 900_000),
        time_result(case("Pointwise", "add")),
    )
    return path


def test_the_suite_is_run_and_kept_and_its_ladder_shown(tmp_path: Path) -> None:
    store, picture = tmp_path / "runs.db", tmp_path / "ladder.json"
    done = torchmark_command(
        "overrides", "ladder", "--no-count", "--store", str(store), "--json", str(picture)
    )
    assert done.returncode == 0, done.stderr
    for call in ("torch.add(x, y)", "t.add(x)", "F.relu(x)"):
        assert f"\n{call} " in done.stdout
    rows = json.loads(picture.read_text())["table"]
    assert len(rows) == 21
    for row in rows:
        assert (row["overhead"] is None) is (row["input"] == "Tensor")
        assert row["instructions"] is None
    with open_store(store) as opened:
        run = opened.run("latest")
    assert (run.kind, len(run.results)) == (RunKind.LADDER, 21)
    shown = torchmark_command("show", "--store", str(store))
    assert shown.stdout == done.stdout


def test_the_ladder_of_a_run_in_the_store_is_shown_without_measuring(
    store: Path, tmp_path: Path
) -> None:
    markdown = tmp_path / "ladder.md"
    done = torchmark_command(
        "overrides", "ladder", "--run", "latest", "--store", str(store), "--markdown", str(markdown)
    )
    assert (done.returncode, done.stderr) == (0, f"torchmark: written to {markdown}\n")
    assert "+2.000" in done.stdout
    assert "+5,000" in done.stdout
    assert "Pointwise" not in done.stdout
    assert re.search(r"\+2\.000 ±\S+ \| +\[", markdown.read_text())


def test_a_failed_case_is_told_by_the_exit_code(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    kept(store, time_result(PLAIN), failed_result(SUB))
    done = torchmark_command("overrides", "ladder", "--run", "latest", "--store", str(store))
    assert done.returncode == 3
    assert "overrides / torch.add / SubTensor" in done.stdout
    assert "SIGSEGV" in done.stdout


def test_a_run_of_another_suite_has_no_ladder(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    kept(store, time_result(case("Pointwise", "add")))
    done = torchmark_command("overrides", "ladder", "--run", "latest", "--store", str(store))
    assert done.returncode == 2
    assert "`torchmark run overrides --store " in done.stderr


@pytest.mark.parametrize("option", ["--count", "--no-count", "--tag=x"])
def test_what_was_measured_cannot_be_chosen_afterwards(option: str, store: Path) -> None:
    done = torchmark_command(
        "overrides", "ladder", "--run", "latest", option, "--store", str(store)
    )
    assert done.returncode == 2
    assert "leave --count, --no-count" in done.stderr


def test_the_group_tells_its_commands() -> None:
    done = torchmark_command("overrides", "--help")
    assert done.returncode == 0
    assert "ladder  " in done.stdout
    unknown = torchmark_command("overrides", "stairs")
    assert unknown.returncode == 2
    assert "stairs" in unknown.stderr

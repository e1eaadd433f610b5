"""Cases in real worker processes: one process for many of them, and what a crash costs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from torchmark.commands.sweeping.workers import in_workers, sweep_workers
from torchmark.define.sweep.points import Choice, all_cases
from torchmark.define.sweep.spec import read_spec
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchmark.engine.workers import Workers

SPEC = """
import ctypes, os
def model(x):
    {body}
    return x + 1
model_init_params = []
input_params = [["batch"]]
input_scales = {{"batch": [1, 2, 3, 4]}}
job_configs = ["pt", "fp32", "fp64"]
"""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with contextlib.closing(sweep_workers()) as found:
        yield found


def results(workers: Workers, folder: Path, body: str, limit: float = 60) -> list[tuple[str, str]]:
    file = folder / "spec.py"
    file.write_text(SPEC.format(body=body))
    spec = read_spec(file)
    told = in_workers(spec, all_cases(spec, Choice()), workers, time_limit=limit)
    return [(result["status"], result["reason"]) for _, result in told]


def test_all_cases_and_configs_run_in_one_process(workers: Workers, tmp_path: Path) -> None:
    seen = tmp_path / "processes"
    body = f"open({str(seen)!r}, 'a').write(str(os.getpid()) + ' ')"
    assert results(workers, tmp_path, body) == [("measured", "")] * 8
    assert len(set(seen.read_text().split())) == 1


def test_a_crash_costs_its_own_case_alone(workers: Workers, tmp_path: Path) -> None:
    body = "if x.shape[0] == 2 and x.element_size() == 8: ctypes.string_at(0)"
    found = results(workers, tmp_path, body)
    assert [status for status, _ in found] == ["measured"] * 3 + ["failed"] + ["measured"] * 4
    assert "SIGSEGV" in found[3][1]


def test_a_case_that_never_ends_costs_its_limit(workers: Workers, tmp_path: Path) -> None:
    body = "while x.shape[0] == 4 and x.element_size() == 4: pass"
    found = results(workers, tmp_path, body, limit=10)
    assert [status for status, _ in found] == ["measured"] * 6 + ["failed", "measured"]
    assert "limit of 10 s" in found[6][1]


def test_a_file_that_works_here_and_not_there_is_an_error(workers: Workers, tmp_path: Path) -> None:
    """It is run once to be read, and once where it is measured."""
    file = tmp_path / "spec.py"
    file.write_text(SPEC.format(body="pass") + f"open({str(tmp_path / 'once')!r}, 'x').close()\n")
    spec = read_spec(file)
    with pytest.raises(CaseFailedError, match="FileExistsError"):
        list(in_workers(spec, all_cases(spec, Choice()), workers))

"""Cases in real worker processes: one process for many of them, and what a crash costs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from torchmark.define.sweep.points import all_cases
from torchmark.define.sweep.spec import read_spec
from torchmark.engine.cores import Division
from torchmark.engine.sweeping import (
    WantedCase,
    make_sweep_workers,
    measure_in_workers,
    results_of,
)
from torchmark.errors import CaseFailedError
from torchmark.model.result import Facts, Metric, Result, Status
from torchmark.model.run import Began
from torchmark_probe.zygote.messages import Kernel, Swept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchmark.engine.under_test import Workers

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
ANYWHERE = Division(lanes=((0,),), others=(), everything=(0, 1))


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with contextlib.closing(make_sweep_workers()) as found:
        yield found


def wanted_in(file: Path) -> list[WantedCase]:
    return [WantedCase(*each, frozenset({Metric.TIME})) for each in all_cases(read_spec(file))]


def results(workers: Workers, folder: Path, body: str, limit: float = 60) -> list[tuple[str, str]]:
    file = folder / "spec.py"
    file.write_text(SPEC.format(body=body))
    news = list(
        measure_in_workers(read_spec(file), wanted_in(file), workers, ANYWHERE, time_limit=limit)
    )
    # What begins is told before what came of it.
    assert [type(each) for each in news] == [Began, Result] * 8
    found = [each for each in news if isinstance(each, Result)]
    return [(each.status.value, each.reason) for each in found]


def test_all_cases_and_configs_run_in_one_process(workers: Workers, tmp_path: Path) -> None:
    seen = tmp_path / "processes"
    body = f"open({str(seen)!r}, 'a').write(str(os.getpid()) + ' ')"
    assert results(workers, tmp_path, body) == [("done", "")] * 8
    assert len(set(seen.read_text().split())) == 1


def test_a_crash_costs_its_own_case_alone(workers: Workers, tmp_path: Path) -> None:
    body = "if x.shape[0] == 2 and x.element_size() == 8: ctypes.string_at(0)"
    found = results(workers, tmp_path, body)
    assert [status for status, _ in found] == ["done"] * 3 + ["failed"] + ["done"] * 4
    assert "SIGSEGV" in found[3][1]


def test_a_case_that_never_ends_costs_its_limit(workers: Workers, tmp_path: Path) -> None:
    body = "while x.shape[0] == 4 and x.element_size() == 4: pass"
    found = results(workers, tmp_path, body, limit=10)
    assert [status for status, _ in found] == ["done"] * 6 + ["failed", "done"]
    assert "limit of 10 s" in found[6][1]


def test_a_file_that_works_here_and_not_there_is_an_error(workers: Workers, tmp_path: Path) -> None:
    """It is run once to be read, and once where it is measured."""
    file = tmp_path / "spec.py"
    file.write_text(SPEC.format(body="pass"))
    wanted, spec = wanted_in(file), read_spec(file)
    file.write_text(file.read_text() + "raise FileExistsError('here already')\n")
    with pytest.raises(CaseFailedError, match="FileExistsError"):
        list(measure_in_workers(spec, wanted, workers, ANYWHERE, time_limit=60))


def test_what_a_process_tells_becomes_a_result_for_each_metric(tmp_path: Path) -> None:
    file = tmp_path / "spec.py"
    file.write_text(SPEC.format(body="pass"))
    case, point, _ = wanted_in(file)[0]
    both = WantedCase(case, point, frozenset({Metric.TIME, Metric.PROFILE}))
    kernels = [Kernel("aten::add", 2.0, 1e-6), Kernel("aten::mm", 1.0, 2e-6)]
    swept = Swept("measured", "too far from eager", max_error=float("inf"), flops=7,
                  kernels=kernels)  # fmt: skip
    time, profile = results_of(both, swept, 0.5)
    assert (time.metric, time.status, time.reason) == (Metric.TIME, Status.DONE, "")
    assert time.facts == Facts(flops=7, remarks=("too far from eager",))
    assert [each.kernel for each in profile.payload.kernels] == [  # type: ignore[union-attr]
        "aten::mm", "aten::add",
    ]  # fmt: skip
    skipped = results_of(both, Swept("skipped", "not installed"), 0.1)
    assert [(each.status, each.reason) for each in skipped] == [
        (Status.SKIPPED, "not installed"),
    ] * 2
    only = WantedCase(case, point, frozenset({Metric.PROFILE}))
    assert [each.metric for each in results_of(only, swept, 0.5)] == [Metric.PROFILE]


def test_a_case_is_timed_on_as_many_cores_as_it_has_threads() -> None:
    division = Division(lanes=((2, 3),), others=(0, 1), everything=(0, 1, 2, 3))
    assert division.cores_for(1) == (2,)
    assert division.cores_for(2) == (2, 3)
    assert division.cores_for(4) == (0, 1, 2, 3)

"""The scripts of seed 002: what they print is for one call, and py-spy can follow them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.overrides_benchmark.bench import arguments, line_of, seconds_of_a_call
from tests.cli.test_cli import site
from torchmark.define.suites.overrides import SEED_KINDS, SETUPS

FOLDER = Path(__file__).parents[2] / "benchmarks" / "overrides_benchmark"


def script(*words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """A script, started in its folder as the seed has it: `python` is that of these tests."""
    return subprocess.run(
        [*before, "python", *words],
        capture_output=True,
        text=True,
        cwd=FOLDER,
        env=os.environ
        | {"PYTHONPATH": site(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
        timeout=900,
    )


def test_bench_prints_a_line_for_each_kind_of_the_seed() -> None:
    done = script("bench.py", "-n", "3", "-m", "2")
    assert (done.returncode, done.stderr) == (0, "")
    number = r"\d+\.\d{3} us"
    for line, kind in zip(done.stdout.splitlines(), SEED_KINDS, strict=True):
        name = "tensor" if kind == "Tensor" else kind
        told = f"Type {name} had a minimum time of {number} and a standard deviation of {number}."
        assert re.fullmatch(told, line)


def test_one_repetition_has_no_deviation_and_says_so() -> None:
    line = line_of("SubTensor", seconds_of_a_call("SubTensor", 1, 1))
    told = r"Type SubTensor had a minimum time of \d.* us; a single time has no standard deviation."
    assert re.fullmatch(told, line)


@pytest.mark.parametrize("nreps", [1, 7, 1000])
@pytest.mark.parametrize("nrepreps", [1, 2, 5])
def test_times_are_those_of_one_call_for_every_number_of_them(
    nreps: int, nrepreps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock by which every call takes 2 us, and nothing else takes any time."""
    calls: list[object] = []
    monkeypatch.setattr(torch, "add", lambda *given: calls.append(given))
    seconds = seconds_of_a_call("Tensor", nreps, nrepreps, lambda: 2e-6 * len(calls))
    assert len(calls) == nreps * (nrepreps + 1), "once more to warm up"
    assert seconds == pytest.approx([2e-6] * nrepreps)


def test_minimum_and_deviation_are_those_of_the_times() -> None:
    line = line_of("Tensor", [5e-6, 3e-6, 7e-6])
    assert (
        line == "Type tensor had a minimum time of 3.000 us and a standard deviation of 2.000 us."
    )


@pytest.mark.parametrize(
    "given", [("-n", "0"), ("-n", "-3"), ("--nreps", "many"), ("-m", "0"), ("--nrepreps", "1.5")]
)
def test_a_number_that_is_none_is_refused(
    given: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        arguments(given)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"a whole number of at least 1 is needed, got '{given[1]}'" in said


def test_numbers_have_the_defaults_of_the_seed() -> None:
    assert arguments([]) == (1000, 1000)
    assert arguments(["--nreps", "5", "-m", "6"]) == (5, 6)


@pytest.mark.parametrize("kind", ["SubTensor", "TorchDispatchMode"])
def test_a_kind_runs_in_a_loop_and_says_nothing(kind: str) -> None:
    done = script("pyspybench.py", kind, "-n", "2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_wrong_case_is_told_the_right_ones() -> None:
    done = script("pyspybench.py", "Tenser")
    assert done.returncode == 2
    assert "'Tenser'" in done.stderr
    assert all(f"'{kind}'" in done.stderr for kind in SETUPS)


def test_py_spy_records_it_as_the_seed_has_it(tmp_path: Path) -> None:
    picture = tmp_path / "tensor.svg"
    py_spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    done = script(
        "pyspybench.py",
        "Tensor",
        before=(py_spy, "record", "-o", str(picture), "--native", "--"),
    )
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"<title>([^<]*) \((\d+) samples", picture.read_text())
    of_all = max(int(count) for _, count in counts)
    of_the_loop = max(int(count) for name, count in counts if "_torchmark_blocks" in name)
    assert of_the_loop > of_all / 5, "the rest is the import of torch"

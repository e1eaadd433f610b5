"""Every example runs as its docstring says, from the root of the repository."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import torchmark

ROOT = Path(__file__).resolve().parent.parent
SITE = str(Path(torchmark.__file__).resolve().parent.parent)


def example(name: str, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}", *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=os.environ | {"PYTHONPATH": SITE},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_simple_timeit_shows_three_ways_three_times() -> None:
    text = example("simple_timeit")
    assert text.count("Broadcasting add (4x8)") == 9
    assert text.count("95% CI") == 3


def test_compare_shows_the_regressions_of_the_branches() -> None:
    plain, relative = example("compare").split("Relative to add on main")
    assert "\033[" in plain
    # The first is for one thread; with more than there are cores free the time is the scheduler's.
    row = next(line for line in relative.splitlines() if "severe_regression" in line)
    assert float(row.split("|")[-1].strip().rstrip("x")) > 2


def test_fuzzer_ranks_the_layouts() -> None:
    text = example("fuzzer")
    fastest, slowest = text.split("Slowest")
    assert fastest.count("ns/element") == slowest.count("ns/element") == 8
    assert "Draws for each valid shape" in text


def test_end_to_end_compares_two_implementations() -> None:
    text = example("end_to_end")
    assert "by hand" in text
    assert "layer_norm" in text
    assert "\033[92m" in text


def test_end_to_end_compares_two_environments() -> None:
    source = f'function python {{ {shlex.quote(sys.executable)} "$@"; }}; exec() {{ "$@"; }}'
    text = example("end_to_end", "--env", f"first={source}", "--env", f"second={source}")
    assert "(first)" in text
    assert "(second)" in text


@pytest.mark.parametrize("name", ["simple_timeit", "compare", "fuzzer", "end_to_end"])
def test_every_example_says_how_to_run_it(name: str) -> None:
    assert f"python -m examples.{name}" in (ROOT / "examples" / f"{name}.py").read_text()

"""Instruction counts through Timer, with the real valgrind: one zygote serves all of these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.utils.benchmark
from click.testing import CliRunner

import torchmark
from torchmark import CallgrindStats, FunctionCount, FunctionCounts, Timer
from torchmark.callgrind.parse import parse_text
from torchmark.cli import cli
from torchmark.engine.zygote.pool import process_pool
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import (
    CaseFailedError,
    InvalidArgumentError,
    MissingToolError,
    NotTransferableError,
)
from torchmark.flame.counted import average_stacks
from torchmark.model.codec import decode_run
from torchmark.together import count_together

if TYPE_CHECKING:
    from collections.abc import Iterator

SETUP = "x = torch.ones(4, 4); y = torch.ones(4, 4)"


@pytest.fixture(scope="module", autouse=True)
def one_zygote() -> Iterator[None]:
    yield
    process_pool.reset()


def test_repeats_are_identical_to_the_instruction() -> None:
    """Also those that run side by side: nothing of one child reaches another."""
    stats = Timer("x + y", SETUP).collect_callgrind(repeats=12)
    assert len({each.counts() for each in stats}) == 1
    assert stats[0].stats() == stats[1].stats() == stats[2].stats()


def test_a_count_is_torchs_own_but_for_where_things_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch starts whatever `python` is first on PATH.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    theirs = torch.utils.benchmark.Timer("x.sum()", SETUP).collect_callgrind(
        100, repeats=None, collect_baseline=True, retain_out_file=False
    )
    ours = Timer("x.sum()", SETUP).collect_callgrind(100)
    expected = FunctionCounts(
        tuple(FunctionCount(*each) for each in theirs.stats()), inclusive=False
    )
    assert ours.stats().without_layout().sum() == pytest.approx(
        expected.without_layout().sum(), rel=0.005
    )


def test_twice_the_work_is_twice_the_count() -> None:
    once, twice = count_together([Timer("x + y", SETUP), Timer("x + y; x + y", SETUP)])
    ratio = twice.without_loop().sum() / once.without_loop().sum()
    assert ratio == pytest.approx(2, rel=0.02)


def test_the_count_is_per_number_of_runs() -> None:
    few = Timer("x + y", SETUP).collect_callgrind(10)
    many = Timer("x + y", SETUP).collect_callgrind(200)
    assert (few.number_per_run, many.number_per_run) == (10, 200)
    assert many.without_loop().sum() / 200 == pytest.approx(few.without_loop().sum() / 10, rel=0.02)


def test_an_empty_statement_costs_nothing_beyond_the_loop() -> None:
    stats = Timer("pass").collect_callgrind()
    assert stats.without_loop().sum() == 0
    assert stats.counts() > 0


def test_without_a_baseline_the_loop_is_counted_too() -> None:
    stats = Timer("pass").collect_callgrind(collect_baseline=False)
    assert stats.without_loop().sum() == stats.counts() > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_globals_travel(tmp_path: Path) -> None:
    names = {
        "x": torch.ones(4, 4),
        "module": torch.nn.Linear(4, 4),
        "scripted": torchmark.CopyIfCallgrind(torch.jit.script(torch.nn.ReLU())),
        "k": 2,
    }
    timer = Timer("scripted(module(x)) * k", globals=names)
    (stats,) = count_together([timer], 5)
    assert stats.stats().filter(lambda name: "addmm" in name or "gemm" in name).sum() > 0


USERS_SCRIPT = """
import torch
from torchmark import CopyIfCallgrind, Timer

class Doubling(torch.nn.Module):
    def forward(self, x):
        return 2 * x

def count(**options):
    names = {"model": CopyIfCallgrind(Doubling(), **options), "k": CopyIfCallgrind(3)}
    return Timer("model(k)", globals=names).collect_callgrind(1, collect_baseline=False)

if __name__ == "__main__":
    try:
        count()
    except OSError as error:
        print(type(error).__name__, error)
    counted = count(setup=f'''
        import sys
        sys.path.append({sys.argv[1]!r})
        from users_script import Doubling
        ''')
    print(counted.counts() > 0)
"""


def test_a_module_of_a_users_script_travels_once_its_class_is_imported(tmp_path: Path) -> None:
    script = tmp_path / "users_script.py"
    script.write_text("import sys\n" + USERS_SCRIPT)
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    failed, *_, counted = done.stdout.splitlines()
    assert failed.startswith("OSError the case raised: OSError: the global 'model' cannot be")
    assert "AttributeError: Can't get attribute 'Doubling'" in done.stdout
    assert "import it: CopyIfCallgrind(value, setup=" in done.stdout
    assert counted == "True"


def test_globals_are_marked_for_one_timer_and_need_not_be_for_several() -> None:
    """torch's method refuses them, so ours does; torch has nothing of the other name."""
    timer = Timer("k + 1", globals={"k": 1})
    with pytest.raises(NotTransferableError, match="so that serialization is explicit"):
        timer.collect_callgrind(1)
    marked = Timer("k + 1", globals={"k": torchmark.CopyIfCallgrind(1)})
    assert marked.collect_callgrind(1).counts() == count_together([timer], 1)[0].counts()


def test_what_a_statement_raises_arrives_as_the_exception_that_it_is() -> None:
    with pytest.raises(NameError, match="no_such_name") as caught:
        Timer("no_such_name").collect_callgrind()
    assert isinstance(caught.value, CaseFailedError)


def test_a_statement_that_raised_is_not_run_again_in_this_process(tmp_path: Path) -> None:
    setup = f"import os; log = open({str(tmp_path / 'log')!r}, 'a')"
    stmt = "print(os.getpid(), file=log, flush=True); raise KeyError('gone')"
    with pytest.raises(KeyError, match="the case raised: KeyError: 'gone'"):
        Timer(stmt, setup).collect_callgrind()
    assert str(os.getpid()) not in (tmp_path / "log").read_text().split()


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize(
    ("stmt", "kind", "limit"),
    [("import os; os.abort()", "crashed", 300.0), ("while True: pass", "timeout", 2.0)],
)
def test_what_crashes_or_never_ends_costs_itself_alone(
    monkeypatch: pytest.MonkeyPatch, stmt: str, kind: str, limit: float, is_warm: bool
) -> None:
    """Where the counting process is not warm yet the statement is tried in another."""
    assert Timer("x + y", SETUP).collect_callgrind(1).counts() > 0
    if not is_warm:
        monkeypatch.setattr(Zygote, "is_alive", property(lambda _: False))
    with pytest.raises(CaseFailedError) as caught:
        count_together([Timer(stmt)], 1, time_limit=limit)
    assert caught.value.kind == kind
    assert Timer("x + y", SETUP).collect_callgrind(1).counts() > 0


def test_what_cannot_travel_is_refused() -> None:
    with pytest.raises(NotTransferableError, match="'thing'"):
        count_together([Timer("thing", globals={"thing": object()})])
    with pytest.raises(InvalidArgumentError, match="as text"):
        Timer(torch.add, args=(torch.ones(1), 1)).collect_callgrind()


@pytest.mark.parametrize("number", [0, -1, 1.5])
def test_the_numbers_are_checked(number: float) -> None:
    with pytest.raises(InvalidArgumentError):
        Timer("pass").collect_callgrind(number)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        Timer("pass").collect_callgrind(repeats=-1)
    with pytest.raises(InvalidArgumentError):
        Timer("pass").collect_callgrind(repeats=0)


def test_callgrinds_own_text_is_kept_on_demand() -> None:
    plain = Timer("x + y", SETUP).collect_callgrind(1)
    kept = Timer("x + y", SETUP).collect_callgrind(1, retain_out_file=True)
    assert plain.stmt_callgrind_out is None
    assert "fn=" in kept.to_callgrind_out()
    folded = kept.to_folded().strip().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in folded) == kept.counts()
    assert json.loads(kept.to_speedscope())["profiles"]


def test_a_picture_of_a_count_begins_at_the_statement() -> None:
    stats = Timer("x + y", SETUP).collect_callgrind(100, retain_out_file=True)
    stacks = average_stacks(parse_text(stats.to_callgrind_out()), 100)
    assert sum(stack.weight for stack in stacks) == stats.counts() // 100
    assert {stack.frames[0] for stack in stacks} == {"_PyEval_EvalFrameDefault"}
    assert len({stack.frames[1] for stack in stacks if len(stack.frames) > 1}) > 3
    assert not [stack for stack in stacks if any(frame.startswith("0x") for frame in stack.frames)]


def test_stats_go_to_json_and_back() -> None:
    stats = Timer("x + y", SETUP).collect_callgrind(1)
    assert CallgrindStats.from_json(stats.to_json()) == stats


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["count", *args], catch_exceptions=False)
    return result.exit_code, result.stdout


def test_the_command_shows_counts_differences_and_functions() -> None:
    code, text = run("x + y", "x + y; x.sum()", "-s", SETUP, "--functions", "3")
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "Instructions per run, without the loop"
    assert "+" in lines[3]
    assert "%" in lines[3]
    assert "  x + y; x.sum() minus x + y" in lines
    assert text.count(" more: ") == 2


def test_the_command_prints_json() -> None:
    code, text = run("x + y", "-s", SETUP, "--json", "--number", "10")
    assert code == 0
    assert json.loads(text)["table"][0]["instructions_per_run"] > 1000
    (result,) = decode_run(text).results
    assert result.stats is not None
    assert result.stats.number_per_run == 10


def test_a_saved_count_is_shown_again_as_it_was_printed(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    code, printed = run("x + y", "-s", SETUP, "--number", "10", "--save", "--store", store)
    assert code == 0
    shown = CliRunner().invoke(cli, ["show", "--store", store])
    assert shown.stdout == printed


def test_a_statement_that_fails_is_told_by_the_command() -> None:
    result = CliRunner().invoke(cli, ["count", "1 / 0"])
    assert result.exit_code == 3
    assert "ZeroDivisionError" in result.stderr
    assert result.stdout == ""


def test_a_cpp_statement_is_counted_and_timed() -> None:
    timer = Timer(
        "auto z = x + x;", "auto x = torch::ones({4, 4});", language="cpp", label="C++ add"
    )
    stats = (*timer.collect_callgrind(repeats=2), timer.collect_callgrind())
    assert len({each.counts() for each in stats}) == 1
    assert stats[0].counts() == stats[0].counts(denoise=True) > 100 * 100
    assert timer.measure(min_run_time=0.02).median > 0


def test_valgrind_missing_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of these, so that no other has to start a zygote again."""
    process_pool.reset()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingToolError, match="apt-get install valgrind"):
        Timer("pass").collect_callgrind()
    assert Timer("pass").timeit(1).median > 0, "a machine without valgrind still times"

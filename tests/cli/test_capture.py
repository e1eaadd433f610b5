"""`torchmark capture`: the script runs as without it, and the trace is there however it ends."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_cli import torchmark_command

if TYPE_CHECKING:
    from pathlib import Path

SHOWS_ITSELF = """
import sys
from beside import name
print(name, __name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].name, __package__)
print("to stderr", file=sys.stderr)
"""

TRAINS = """
import os, sys, threading
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 3
    def __getitem__(self, index):
        return torch.full((4,), float(index))

for batch in torch.utils.data.DataLoader(Numbers(), num_workers=1):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

if os.fork() == 0:
    print("the child", torch.ones(2).sum().item(), flush=True)
    sys.exit(5)
print("the child left with", os.waitstatus_to_exitcode(os.wait()[1]))
threading.Thread(target=lambda: print("the thread", torch.zeros(3).cos().sum().item())).start()
"""


def lines_of(trace: Path) -> list[dict[str, Any]]:
    with gzip.open(trace, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def capture(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return torchmark_command("capture", *args, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "beside.py").write_text("name = 'beside'\n")
    return tmp_path


def test_a_script_runs_as_python_runs_it(folder: Path) -> None:
    (folder / "inner" / "script.py").write_text(SHOWS_ITSELF)
    args = ["inner/script.py", "-o", "x", "--", "--steps", "-m"]
    python = subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, check=True
    )
    done = capture(folder, *args)
    assert (done.returncode, done.stdout) == (0, python.stdout)
    assert done.stderr.splitlines() == [
        "to stderr",
        "torchmark: inner/script.py never imported torch; nothing was written",
    ]
    assert not (folder / "trace.jsonl.gz").exists()


def test_a_module_runs_as_python_m_runs_it(folder: Path) -> None:
    package = folder / "inner"
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SHOWS_ITSELF.replace("from beside", "from .beside"))
    args = ["-m", "inner", "--lr", "3"]
    python = subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, check=True
    )
    done = capture(folder, *args)
    assert (done.returncode, done.stdout) == (0, python.stdout)


@pytest.mark.parametrize("imports_torch", ["__init__.py", "__main__.py"])
def test_the_command_line_of_a_module_has_its_name(folder: Path, imports_torch: str) -> None:
    package = folder / "inner"
    for name in ("__init__.py", "__main__.py"):
        (package / name).write_text("import torch\n" if name == imports_torch else "")
    done = capture(folder, "-m", "inner", "--lr", "3")
    assert done.returncode == 0, done.stderr
    header = lines_of(folder / "trace.jsonl.gz")[0]["trace"]
    assert header["command"] == ["-m", "inner", "--lr", "3"]


@pytest.mark.parametrize(
    "ending",
    ["sys.exit(7)", "sys.exit('a message')", "1 / 0", "raise KeyboardInterrupt", "def ( :"],
    ids=["code", "message", "error", "interrupt", "syntax"],
)
def test_a_script_leaves_as_it_would_and_shows_its_own_frames(folder: Path, ending: str) -> None:
    (folder / "script.py").write_text(f"import sys\nprint('begun')\n{ending}\n")
    python = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    done = capture(folder, "script.py")
    # A Python that Ctrl-C ends is ended by the signal, which shells tell as 130.
    code = 130 if python.returncode < 0 else python.returncode
    assert (done.returncode, done.stdout) == (code, python.stdout)
    ours = "torchmark: script.py never imported torch; nothing was written\n"
    assert done.stderr.replace(ours, "") == python.stderr


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "1 / 0"])
def test_an_executor_that_nobody_has_shut_down_ends_with_the_script(
    folder: Path, ending: str
) -> None:
    """torch.compile leaves one; its threads wait for work until Python tells them to end."""
    (folder / "script.py").write_text(
        "import sys, concurrent.futures, torch\n"
        "executor = concurrent.futures.ThreadPoolExecutor(2)\n"
        f"executor.submit(lambda: print(torch.zeros(3).cos().sum().item()))\n{ending}\n"
    )
    done = capture(folder, "script.py")
    assert done.returncode == {"": 0, "sys.exit(3)": 3, "1 / 0": 1}[ending]
    assert done.stdout == "3.0\n"
    assert ("ZeroDivisionError" in done.stderr) == (ending == "1 / 0")
    lines = lines_of(folder / "trace.jsonl.gz")
    assert "end" in lines[-1]
    assert "aten.cos.default" in {line["call"]["op"] for line in lines if "call" in line}


def test_a_script_that_is_terminated_leaves_a_whole_trace(folder: Path) -> None:
    (folder / "script.py").write_text(
        "import os, signal, torch\ntorch.ones(3).sum()\nos.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = capture(folder, "script.py")
    assert done.returncode == 143
    assert "written to trace.jsonl.gz" in done.stderr
    assert "end" in lines_of(folder / "trace.jsonl.gz")[-1]


def test_a_training_with_workers_forks_and_threads_is_captured(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS)
    done = capture(folder, "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the child 2.0",
        "the child left with 5",
        "the thread 3.0",
    ]
    lines = lines_of(folder / "trace.jsonl.gz")
    end = lines[-1]["end"]
    assert lines[0]["trace"]["command"] == ["train.py"]
    assert end["steps"] == 4  # the last has the thread
    assert "aten.cos.default" in {line["call"]["op"] for line in lines if "call" in line}
    assert {line["place"]["phase"] for line in lines if "place" in line} == {
        "forward",
        "backward",
        "optimizer",
    }
    summary = done.stderr.splitlines()
    assert summary[0].startswith(f"torchmark: {end['calls']} calls, ")
    assert "in 4 steps: " in summary[0]
    assert [line.partition("not captured: ")[2] for line in summary[1:-2]] == end["unseen"]
    assert any("worker process" in sentence for sentence in end["unseen"])
    assert summary[-2] == "torchmark: written to trace.jsonl.gz"


def test_what_was_captured_is_kept_when_the_script_raises_and_replaces_a_trace(
    folder: Path,
) -> None:
    text = """
        import torch
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(9):
            weight.cos().sum().backward()
            optimizer.step()
            if step == 4:
                raise ValueError("no more")
    """
    (folder / "train.py").write_text(dedent(text))
    trace = folder / "mine.jsonl.gz"
    trace.write_bytes(gzip.compress(b'{"trace": {"version": 1}}\n'))
    done = capture(folder, "-o", "mine.jsonl.gz", "--steps", "3", "train.py")
    assert done.returncode == 1
    assert "torchmark/" not in done.stderr
    assert "ValueError: no more\ntorchmark: " in done.stderr
    assert lines_of(trace)[-1]["end"]["steps"] == 3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.py"], "cannot open nowhere.py: No such file or directory"),
        (["inner"], "inner is a folder"),
        (["-m", "nowhere"], "the module nowhere cannot be run: "),
        (["-m", "nowhere"], "; run the command in the folder that contains it"),
        (["-m", "inner.nowhere"], "the module inner.nowhere cannot be run: "),
        (["-m", "..x"], "the module ..x cannot be run: "),
        (["-o", "gone/x.jsonl", "script.py"], "gone/x.jsonl cannot be written"),
        (["-o", "inner", "script.py"], "inner cannot be written"),
        (["-o", "script.py", "script.py"], "script.py exists and is not a trace"),
        (["-o", "old.jsonl.gz", "script.py"], "old.jsonl.gz exists and is not a trace"),
        (["--steps", "0", "script.py"], "Invalid value for '--steps'"),
    ],
)
def test_a_mistake_is_told_before_the_script_runs(folder: Path, args: list[str], said: str) -> None:
    (folder / "script.py").write_text("print('it ran')\n")
    (folder / "old.jsonl.gz").write_bytes(b"not even gzip")
    done = capture(folder, *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert (folder / "old.jsonl.gz").read_bytes() == b"not even gzip"


FORKS_LATE = """
import os, sys
import torch

model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train(steps):
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

train(4)
if os.fork() == 0:
    train(20)
    sys.exit(0)
os.wait()
train(1)
"""


def test_a_fork_after_the_captured_steps_does_not_write_into_the_trace(folder: Path) -> None:
    (folder / "forks.py").write_text(FORKS_LATE)
    done = capture(folder, "--steps", "1", "forks.py")
    assert done.returncode == 0, done.stderr
    *_, plain, end = lines_of(folder / "trace.jsonl.gz")
    assert len(plain["plain_steps"]["seconds"]) == 3, "of this process alone"
    assert "(median of 3 steps after the captured ones)" in done.stderr
    assert end["end"]["steps"] == 1

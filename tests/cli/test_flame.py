"""`torchmark flame` as people call it.

Where a promise is about the command and not about torch, the torch is one that starts in no time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import light_torch
from tests.cli.test_cli import HEEDING_CTRL_C, site
from tests.engine.zygote_cases import is_gone, wait_until
from torchmark.cli import cli
from torchmark.errors import InvalidArgumentError, MissingToolError, TorchmarkError
from torchmark.flame.stacks import parse_stacks

QUICK = ("--seconds", "1")
SPIN = ("--setup", "def f(n):\n    return sum(range(n))", *QUICK)


@pytest.fixture
def light(tmp_path: Path) -> dict[str, str]:
    """The environment that has a light torch."""
    folder = tmp_path / "light"
    light_torch.put_into(folder)
    return {"PYTHONPATH": f"{folder}{os.pathsep}{site()}"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def flame(*args: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "flame", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": site()} | environment,
        check=False,
        timeout=900,
    )


def refused(*args: str) -> TorchmarkError:
    """What is said before anything is started."""
    error = CliRunner().invoke(cli, ["flame", *args]).exception
    assert isinstance(error, TorchmarkError)
    assert not list(Path.cwd().glob("*.svg"))
    return error


def test_a_statement_becomes_a_picture_of_its_loop(here: Path, light: dict[str, str]) -> None:
    done = flame("--stmt", "f(1000)", *SPIN, cwd=here, **light)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "torchmark: written to f-1000.svg\n"
    (line,) = done.stdout.splitlines()
    assert line.startswith("f-1000.svg: ")
    assert " a run, " in line
    assert "% inside the loop" in line
    ElementTree.parse(here / "f-1000.svg")
    assert "f (snippet)" in (here / "f-1000.svg").read_text()
    assert [file.name for file in here.iterdir()] == ["f-1000.svg"]


def test_a_graph_of_one_frame_says_how_to_see_more(here: Path, light: dict[str, str]) -> None:
    said = (
        "torchmark: the graph has only one frame: the time is spent in C or C++; "
        "add --native to show it\n"
    )
    assert flame("--stmt", "sum(range(999))", *QUICK, cwd=here, **light).stderr.endswith(said)
    assert said not in flame("--stmt", "f(999)", *SPIN, cwd=here, **light).stderr


@pytest.mark.parametrize("words", ["torch.add SubTensro", "Pointwise Matth add"])
def test_cases_of_every_suite_that_ships_are_known_and_the_message_says_where_they_are_listed(
    here: Path, words: str
) -> None:
    said = str(refused(words))
    assert "`torchmark list standard overrides` lists the cases of the suites" in said
    assert "did you mean:\n    " in said


@pytest.mark.parametrize("how", [(), ("--instructions",)], ids=["sampled", "counted"])
def test_a_statement_that_never_ends_is_stopped_at_the_limit(
    here: Path, light: dict[str, str], how: tuple[str, ...]
) -> None:
    done = flame("--stmt", "while True: pass", "--timeout", "2", *how, cwd=here, **light)
    assert done.returncode == 3
    assert "the case was stopped at its time limit of 2 s" in done.stderr
    assert not list(here.iterdir())


def test_the_ending_decides_the_format(here: Path, light: dict[str, str]) -> None:
    for name in ("a.folded", "a.txt", "a.json", "a.png"):
        done = flame("--stmt", "f(1000)", *SPIN, "-o", name, cwd=here, **light)
        assert done.returncode == 0, done.stderr
    for name in ("a.folded", "a.txt"):
        stacks = parse_stacks((here / name).read_text())
        assert {stack.frames[0] for stack in stacks} == {"statement"}
    profile = json.loads((here / "a.json").read_text())
    assert "f (snippet)" in [frame["name"] for frame in profile["shared"]["frames"]]
    assert (here / "a.png").read_bytes().startswith(b"\x89PNG")


def test_a_difference_is_from_another_statement_or_from_a_file(
    here: Path, light: dict[str, str]
) -> None:
    statements = ("--stmt", "f(10000)", "--against", "f(100)", *SPIN)
    done = flame(*statements, "-o", "two.svg", cwd=here, **light)
    assert done.returncode == 0, done.stderr
    assert "; against " in done.stdout
    assert "f(10000)" in (here / "two.svg").read_text()
    assert "f(100)" in (here / "two.svg").read_text()
    (here / "base.folded").write_text("statement;gone 100\n")
    done = flame("--stmt", "f(100)", "--against", "base.folded", *SPIN, cwd=here, **light)
    assert done.returncode == 0, done.stderr
    assert "gone" in (here / "f-100.svg").read_text()


def test_a_case_of_a_file_finds_what_lies_beside_it(
    here: Path, tmp_path: Path, light: dict[str, str]
) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    (folder / "beside.py").write_text("def f():\n    return sum(range(1000))\n")
    (folder / "bench_mine.py").write_text(
        "from torchmark import GroupedSetup, GroupedStmts\n"
        "mine = {'calls': GroupedStmts('f()', setup=GroupedSetup('from beside import f'))}\n"
    )
    suite = str(folder / "bench_mine.py")
    done = flame("mine", "calls", "--suite", suite, *QUICK, cwd=here, **light)
    assert done.returncode == 0, done.stderr
    assert "f (beside.py)" in (here / "mine-calls.svg").read_text()


def test_what_a_compiled_case_does_is_seen(here: Path) -> None:
    """The real torch, and the real compiler."""
    (here / "bench_mine.py").write_text(
        "from torchmark import GroupedSetup, GroupedStmts\n"
        "mine = GroupedStmts('x + x', 'x + x', setup=GroupedSetup('x = torch.ones(9)',"
        " 'auto x = torch::ones({9});'))\n"
    )
    which = ("C++", "--suite", "bench_mine.py", "--native", *QUICK, "-o", "cpp.folded")
    done = flame(*which, cwd=here)
    assert done.returncode == 0, done.stderr
    assert "at::_ops::add_Tensor::call (libtorch_cpu.so)" in (here / "cpp.folded").read_text()


def test_instructions_are_counted_and_compared(here: Path, light: dict[str, str]) -> None:
    setup = ("--setup", "text = 'b a'")
    counting = ("--stmt", "text.split()", "--against", "text.upper()", "--instructions")
    done = flame(*counting, *setup, "-o", "d.svg", cwd=here, **light)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("instructions a run") == 2
    assert "unicode_split" in (here / "d.svg").read_text()
    assert "unicode_upper" in (here / "d.svg").read_text()


@pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_a_signal_ends_all_and_leaves_no_file(
    here: Path, light: dict[str, str], number: signal.Signals, word: str
) -> None:
    pid_file = here / "pid"
    with subprocess.Popen(
        [*HEEDING_CTRL_C, sys.executable, "-m", "torchmark", "flame", "--stmt", "pass",
         "--setup", f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid()))",
         "--seconds", "600"],
        cwd=here,
        env=os.environ | light | {"TMPDIR": str(here)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        wait_until(lambda: bool(traced_by(pid_file)))
        loop, tracer = int(pid_file.read_text()), traced_by(pid_file)
        process.send_signal(number)
        _, said = process.communicate(timeout=900)
    assert process.returncode == 128 + number
    assert word in said
    wait_until(lambda: is_gone(loop) and is_gone(tracer))
    assert list(here.iterdir()) == [pid_file]


def traced_by(pid_file: Path) -> int:
    """The process that has attached to the one whose number is in the file; 0 for none."""
    if not pid_file.exists() or not pid_file.read_text():
        return 0
    try:
        status = Path(f"/proc/{pid_file.read_text()}/status").read_text()
    except FileNotFoundError:
        return 0
    return int(status.partition("TracerPid:")[2].split()[0])


def test_a_statement_that_fails_is_told_as_everywhere(here: Path, light: dict[str, str]) -> None:
    done = flame("--stmt", "nowhere", *QUICK, cwd=here, **light)
    assert done.returncode == 3
    assert "name 'nowhere' is not defined" in done.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "say what to draw"),
        (("add", "--stmt", "x"), "not both"),
        (("add", "--setup", "x = 1"), "--setup needs --stmt"),
        (("--stmt", "x", "-o", "a.gif"), ".folded"),
        (("--stmt", "x", "-o", "flame"), ".json"),
        (("--stmt", "x", "--against", "y", "-o", "a.folded"), "a difference is a picture"),
        (("--stmt", "x", "-o", "nowhere/a.svg"), "name a file in an existing folder"),
        (("--stmt", "x", "--against", "gone.folded"), "--against: there is no file gone.folded"),
        (("--stmt", "x", "--seconds", "0"), "--seconds"),
        (("Pointwise add Case:  0",), "2 cases"),
        (("Pointwise add Case:  0 C++",), "--native or --instructions"),
        (("torch.add Tensor", "--against", "torch.add Tennsor"), "did you mean"),
    ],
)
def test_mistakes_are_told_before_anything_is_started(
    here: Path, args: tuple[str, ...], said: str
) -> None:
    error = refused(*args)
    assert isinstance(error, InvalidArgumentError)
    assert said in str(error)


def test_without_py_spy_nothing_is_started(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused("--stmt", "pass")
    assert isinstance(error, MissingToolError)
    assert "torchmark[flame]" in str(error)


def test_a_damaged_file_to_compare_with_names_its_line(here: Path, light: dict[str, str]) -> None:
    (here / "base.folded").write_text("main;f 12\nmain;g\n")
    done = flame("--stmt", "nowhere", "--against", "base.folded", *QUICK, cwd=here, **light)
    assert done.returncode == 2
    assert "base.folded, line 2" in done.stderr
    assert "nowhere" not in done.stderr, "nothing was started"


def test_nothing_is_left_in_the_temporary_folder(here: Path, light: dict[str, str]) -> None:
    left = here / "left"
    left.mkdir()
    done = flame("--stmt", "pass", *QUICK, cwd=here, TMPDIR=str(left), **light)
    assert done.returncode == 0, done.stderr
    assert list(left.iterdir()) == []
    assert tempfile.gettempdir() != str(left)

"""`torchmark list`, as people call it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from torchmark.cli import cli
from torchmark.cli.inventory import _wrapped

from .test_cli import modules_after, torchmark_command

if TYPE_CHECKING:
    from pathlib import Path


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["list", *args], catch_exceptions=False)
    return result.exit_code, result.output


def test_the_standard_suite_is_listed_by_default() -> None:
    code, text = run()
    lines = text.splitlines()
    assert code == 0
    assert lines[0].split("  ", 1)[1] == "Empty / no allocation · Python, eager, forward"
    assert lines[-1] == "181 cases: 86 Python, 95 C++; 147 eager, 34 torchscript"
    assert len(lines) == 181 + 2
    assert "\033[" not in text


def test_a_pattern_selects() -> None:
    code, text = run("-k", "linear not C++")
    assert code == 0
    assert text.splitlines()[-1] == "2 cases: 2 Python; 1 eager, 1 torchscript"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_pattern_that_no_case_has_ends_as_it_does_with_run(more: tuple[str, ...]) -> None:
    done = torchmark_command("list", "-k", "SubTensor", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "torchmark: no case of standard matches 'SubTensor'; leave -k out to list all cases\n"
    )


def test_what_a_label_has_in_it_stays_on_its_line(tmp_path: Path) -> None:
    label = "a\x1b[31mb\x1b]0;c\x07d\r\ne\x9b2Jf\u202eg"
    (tmp_path / "bench_it.py").write_text(
        f"from torchmark import TimerArgs\na = {{{label!r}: TimerArgs('1')}}\n"
    )
    code, text = run(str(tmp_path))
    (line, *_) = text.splitlines()
    assert code == 0
    assert line.endswith("  a / abd e2Jfg · Python")
    code, text = run(str(tmp_path), "--json")
    assert text.isascii()
    assert json.loads(text)["cases"][0]["label"] == ["a", label]


def test_json_has_what_runs() -> None:
    code, text = run("-k", "linear torchscript python", "--json")
    (case,) = json.loads(text)["cases"]
    assert code == 0
    assert case["label"] == ["nn Modules", "Linear"]
    assert case["stmt"] == "y = jit_model(x)"
    assert "torch.jit.script(model)" in case["model"]


def test_a_skipped_case_says_why(tmp_path: Path) -> None:
    (tmp_path / "bench_it.py").write_text(
        "from torchmark import TimerArgs, skip_if\n"
        "a = TimerArgs('1', skip=skip_if(torch='>=1.0', reason='too new'))\n"
    )
    code, text = run(str(tmp_path))
    assert code == 0
    assert "a · Python (skipped: too new)\n" in text
    assert text.endswith("1 case: 1 Python; 1 explicit; 1 skipped\n")


def test_a_file_that_fails_is_reported_and_the_others_are_listed(tmp_path: Path) -> None:
    (tmp_path / "bench_bad.py").write_text("x = = 1\n")
    (tmp_path / "bench_good.py").write_text("from torchmark import TimerArgs\na = TimerArgs('1')\n")
    done = torchmark_command("list", ".", cwd=tmp_path)
    assert done.returncode == 3
    assert "a · Python\n" in done.stdout
    assert done.stderr == (
        "torchmark: bench_bad.py, line 1: SyntaxError: invalid syntax\n    x = = 1\n        ^\n"
    )
    failed = json.loads(torchmark_command("list", ".", "--json", cwd=tmp_path).stdout)["failures"]
    assert failed == [{"file": "bench_bad.py", "line": 1, "reason": "SyntaxError: invalid syntax"}]


def test_a_module_in_the_working_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "my_suite.py").write_text("from torchmark import TimerArgs\na = TimerArgs('1')\n")
    done = torchmark_command("list", "my_suite", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no_such_suite"], "there is no suite 'no_such_suite'"),
        (["nothing.py"], "there is no file or folder nothing.py"),
        (["-k", "(add"], "    (add\n        ^\n"),
    ],
)
def test_a_wrong_call_is_one_message_and_exit_code_2(arguments: list[str], says: str) -> None:
    done = torchmark_command("list", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("torchmark: ")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_listing_imports_neither_torch_nor_numpy() -> None:
    code = "from torchmark.cli import cli; cli(['list'], standalone_mode=False)"
    assert {"torch", "numpy"}.isdisjoint(modules_after(code))


def test_a_long_line_is_wrapped_under_its_title() -> None:
    line = "0123456789abcdef  " + "word " * 20
    wrapped = _wrapped(line.strip(), 80).splitlines()
    assert all(len(part) <= 80 for part in wrapped)
    assert wrapped[1].startswith(" " * 18 + "word")
    assert _wrapped(line, None) == line

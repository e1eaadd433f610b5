from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchmark.engine import machine
from torchmark.engine.machine import (
    cpu_model,
    describe_machine,
    find_tool,
    first_line_of,
    why_py_spy_cannot_attach,
)

if TYPE_CHECKING:
    import pytest


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_tool_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = script(tmp_path / "sometool", "echo sometool 1.2; echo more")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_tool("sometool") == tool
    assert find_tool("no such tool") is None
    assert first_line_of(tool) == "sometool 1.2"


def test_a_tool_of_this_interpreter_is_found_without_an_activated_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    found = find_tool("py-spy")
    assert found is not None
    assert Path(found).parent == Path(sys.executable).parent


def test_a_tool_that_does_not_run_says_why(tmp_path: Path) -> None:
    assert "does not run" in first_line_of(str(tmp_path / "nothing"))


def test_the_real_py_spy_is_tried_on_this_process() -> None:
    py_spy = find_tool("py-spy")
    assert py_spy is not None
    reason = why_py_spy_cannot_attach(py_spy)
    assert reason is None or "ermission" in reason


def test_a_py_spy_that_may_not_attach_is_told_with_its_reason(tmp_path: Path) -> None:
    refused = script(tmp_path / "py-spy", "echo Permission Denied: try sudo >&2; exit 1")
    assert why_py_spy_cannot_attach(refused) == "Permission Denied: try sudo"
    assert why_py_spy_cannot_attach(str(tmp_path / "nothing")) is not None


def test_cores_are_those_this_process_may_use() -> None:
    assert describe_machine()["usable_cores"] == len(os.sched_getaffinity(0))


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Fast One\nmodel name\t: Fast One\n")
    assert cpu_model(cpuinfo) == "Fast One"
    assert cpu_model(tmp_path / "nothing") != ""


def test_texts_that_are_no_commits_never_reach_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store may come from others: its commits could be options of git, or have a NUL."""

    def run(command: list[str], *_: object, **__: object) -> object:
        asked.append(command)
        raise OSError

    asked: list[list[str]] = []
    monkeypatch.setattr(machine, "run_tool", run)
    good = "0123abcd"
    odd = ["--output=x", "HEAD", "a\0b", "", "main", "a" * 65]
    ranges = [*((each, good) for each in odd), *((good, each) for each in odd)]
    assert machine.count_commits(tmp_path, ranges) == {}
    assert asked == []
    assert machine.count_commits(tmp_path, [(good, good)]) == {}
    assert len(asked) == 1

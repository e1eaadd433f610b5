"""The compiler is found, or the error says how to get one."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
import torch

from torchmark.errors import CompilerMissingError, TorchmarkError
from torchmark.run.cpp.compiler import find_toolchain

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_no_compiler_names_the_package_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerMissingError, match=r"apt-get install g\+\+") as caught:
        find_toolchain()
    assert isinstance(caught.value, TorchmarkError)
    assert isinstance(caught.value, FileNotFoundError)


def test_a_chosen_compiler_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(CompilerMissingError, match="CXX names 'no-such-compiler'"):
        find_toolchain()


def test_a_compiler_that_does_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = program(tmp_path / "broken", "exit 3")
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(CompilerMissingError, match="does not run"):
        find_toolchain()


def test_the_chosen_compiler_keeps_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clang = program(tmp_path / "mine", "echo clang version 99")
    monkeypatch.setenv("CXX", f"{clang} -m64")
    toolchain = find_toolchain()
    assert toolchain.command == (str(clang), "-m64")
    assert "-ferror-limit=0" in toolchain.flags


def test_flags_are_those_of_this_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = find_toolchain()
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    assert f"-D_GLIBCXX_USE_CXX11_ABI={abi}" in toolchain.flags
    assert any(flag.startswith("-std=c++") for flag in toolchain.flags)
    assert {"-lc10", "-ltorch", "-ltorch_cpu"} <= set(toolchain.link_flags)
    assert torch.__version__ in toolchain.torch_build
    before = toolchain.key
    monkeypatch.setenv("CPATH", "/elsewhere")
    assert toolchain.key != before

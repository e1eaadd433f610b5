"""The compiler is found, or the error says how to get one."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest
import torch

from torchmark.engine.cpp.compiler import find_toolchain, toolchain_of
from torchmark.errors import CompilerMissingError, LibtorchMissingError, TorchmarkError

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.engine.zygote.zygote import Zygote


HEADER = "include/torch/csrc/api/include/torch/types.h"


def facts_about(torch_folder: Path, **others: Any) -> dict[str, Any]:
    return {
        "torch": "1.13.0a0", "torch_git": None, "torch_folder": str(torch_folder),
        "torch_cxx11_abi": False, "torch_openmp": False, "python_include": "/python/headers",
        **others,
    }  # fmt: skip


@pytest.fixture
def torch_folder(tmp_path: Path) -> Path:
    """Another torch, as far as a compiler looks at it."""
    folder = tmp_path / "torch"
    for name in (HEADER, "lib/libc10.so", "lib/libtorch.so", "utils/cpp_extension.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


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


def test_another_torch_is_described_by_its_facts_alone(torch_folder: Path) -> None:
    toolchain = toolchain_of(facts_about(torch_folder))
    assert "-D_GLIBCXX_USE_CXX11_ABI=0" in toolchain.flags
    assert "-fopenmp" not in toolchain.flags
    folders = [toolchain.flags[at + 1] for at, flag in enumerate(toolchain.flags)
               if flag == "-isystem"]  # fmt: skip
    api = torch_folder / "include/torch/csrc/api/include"
    assert folders == [str(torch_folder / "include"), str(api), "/python/headers"]
    assert toolchain.api_folders == (api,)
    assert f"-Wl,-rpath,{torch_folder / 'lib'}" in toolchain.link_flags
    assert {"-lc10", "-ltorch"} <= set(toolchain.link_flags)
    assert "-ltorch_cpu" not in toolchain.link_flags, "that torch has none"
    assert toolchain.torch_build.startswith("1.13.0a0 ")
    assert not any(str(torch.__path__[0]) in flag for flag in toolchain.link_flags)


def test_openmp_and_the_abi_are_those_of_the_facts(torch_folder: Path) -> None:
    toolchain = toolchain_of(facts_about(torch_folder, torch_openmp=True, torch_cxx11_abi=True))
    assert "-fopenmp" in toolchain.flags
    assert "-D_GLIBCXX_USE_CXX11_ABI=1" in toolchain.flags


def test_this_process_and_a_zygote_of_the_same_torch_share_their_builds(
    plain_zygote: Zygote,
) -> None:
    assert toolchain_of(plain_zygote.start()) == find_toolchain()


def test_two_torches_have_different_keys(torch_folder: Path) -> None:
    before = toolchain_of(facts_about(torch_folder)).key
    assert toolchain_of(facts_about(torch_folder, torch="1.13.1")).key != before
    (torch_folder / "lib/libc10.so").write_text("built again")
    assert toolchain_of(facts_about(torch_folder)).key != before


@pytest.mark.parametrize(
    ("builder", "flag"),
    [
        ("['-std=c++11'] or ['-std=c++14']", "-std=c++14"),
        ("cflags = ['-std=c++17']", "-std=c++17"),
        ("it names none", "-std=c++17"),
    ],
)
def test_the_standard_is_the_newest_that_torchs_builder_of_extensions_names(
    torch_folder: Path, builder: str, flag: str
) -> None:
    (torch_folder / "utils/cpp_extension.py").write_text(builder)
    assert flag in toolchain_of(facts_about(torch_folder)).flags


def test_missing_headers_are_named_with_their_package(torch_folder: Path) -> None:
    (torch_folder / HEADER).unlink()
    with pytest.raises(LibtorchMissingError, match=r"types\.h is missing.*libtorch-dev") as caught:
        toolchain_of(facts_about(torch_folder))
    assert str(caught.value).startswith(
        "C++ cannot be built for torch 1.13.0a0: its headers are not installed"
    )
    assert isinstance(caught.value, CompilerMissingError)


def test_links_to_headers_that_are_not_installed_are_no_headers(torch_folder: Path) -> None:
    """Debian's torch has such links where libtorch-dev is missing."""
    (torch_folder / "include").rename(torch_folder / "elsewhere")
    (torch_folder / "include").mkdir()
    (torch_folder / "include/torch").symlink_to(torch_folder / "elsewhere/torch")
    assert toolchain_of(facts_about(torch_folder)).api_folders
    (torch_folder / "elsewhere").rename(torch_folder / "gone")
    with pytest.raises(LibtorchMissingError, match="headers are not installed"):
        toolchain_of(facts_about(torch_folder))


def test_missing_libraries_are_named(torch_folder: Path) -> None:
    for library in (torch_folder / "lib").iterdir():
        library.unlink()
    with pytest.raises(LibtorchMissingError, match=r"libc10\.so and others\) are missing"):
        toolchain_of(facts_about(torch_folder))

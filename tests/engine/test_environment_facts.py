from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import torch

from tests import records
from torchmark import __version__
from torchmark.engine.cpp.compiler import find_compiler_version
from torchmark.engine.machine import describe_checkout
from torchmark.engine.under_test import describe_environment, describe_torch
from torchmark.model.codec import decode_run, encode_run
from torchmark_probe.zygote import warmup

if TYPE_CHECKING:
    from pathlib import Path


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-b", "main")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_the_environment_is_plain_json_and_has_the_facts_of_the_build() -> None:
    environment = describe_environment(warmup.facts(torch))
    run = records.run_of(environments=(environment,))
    assert decode_run(encode_run(run)).environments == (environment,)
    assert environment.fact("torchmark") == __version__
    assert environment.fact("torch", "version") == torch.__version__
    assert environment.fact("torch", "git") == torch.version.git_version
    assert environment.fact("torch", "config") == torch.__config__.show()
    assert environment.fact("machine", "usable_cores") == len(os.sched_getaffinity(0))


def test_an_old_probe_that_says_little_is_enough() -> None:
    assert describe_torch({"torch": "1.13.0", "torch_git": None}) == {"version": "1.13.0"}
    assert describe_environment({}).fact("torch") == {}


def test_a_clean_directory_has_its_commit(repository: Path) -> None:
    facts = describe_checkout(repository)
    assert facts is not None
    assert len(facts["commit"]) == 40
    assert (facts["branch"], facts["dirty"]) == ("main", False)


def test_a_changed_file_makes_it_dirty_and_an_unknown_one_does_not(repository: Path) -> None:
    (repository / "notes").write_text("x")
    clean, _ = describe_checkout(repository), (repository / "file").write_text("b")
    dirty = describe_checkout(repository)
    assert clean is not None
    assert dirty is not None
    assert (clean["dirty"], dirty["dirty"]) == (False, True)


def test_a_directory_inside_of_the_repository_will_do(repository: Path) -> None:
    inner = repository / "a" / "b; touch broken"
    inner.mkdir(parents=True)
    assert describe_checkout(inner) == describe_checkout(repository)


def test_outside_of_git_or_without_it_there_are_no_facts(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    assert describe_checkout(tmp_path_factory.mktemp("plain")) is None
    monkeypatch.setenv("PATH", "")
    assert describe_checkout(repository) is None


def test_the_compiler_is_the_one_that_the_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine++", "g++"):
        script(tmp_path / name, f"echo {name} 1.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler_version() == "g++ 1.2"
    monkeypatch.setenv("CXX", "mine++ -m64")
    assert find_compiler_version() == "mine++ 1.2"
    monkeypatch.setenv("PATH", "")
    assert find_compiler_version() is None

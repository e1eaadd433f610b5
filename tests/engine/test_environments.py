"""Environments by shell commands: real bash, real interpreters, whatever people write."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
import torch

from tests.engine.test_old_torch import OLD_PYTHON
from torchmark.engine.environments import activate_environment
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import MissingToolError, MissingTorchError, ZygoteError

HERE = f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"


@pytest.fixture(autouse=True)
def without_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of the wheel have one, and an environment keeps it."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def test_the_python_path_that_was_there_before_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A sitecustomize may lie there."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert activate_environment("A", HERE).variables == (("PYTHONPATH", str(tmp_path)),)


def test_a_relative_python_path_is_found_from_where_the_command_ended(tmp_path: Path) -> None:
    (tmp_path / "patched").mkdir()
    (tmp_path / "patched" / "sitecustomize.py").write_text("import sys; sys.is_patched = True")
    (tmp_path / "inside").mkdir()
    found = activate_environment(
        "B",
        f"{HERE} && cd {shlex.quote(str(tmp_path / 'inside'))} && export PYTHONPATH=../patched:",
    )
    assert found.variables == (("PYTHONPATH", f"{tmp_path / 'patched'}:"),)
    case = PythonCase(stmt="assert sys.is_patched", setup="import sys", globals={})
    launch = Launch(interpreter=found.interpreter, environment=found.variables, layout=0, path=())
    with Zygote(launch) as zygote:
        zygote.run(case)


def test_a_command_leads_to_the_python_that_is_first_after_it() -> None:
    found = activate_environment("A", HERE)
    assert Path(found.interpreter.torch_file).samefile(torch.__file__)
    assert found.variables == (), "PATH alone changed, and nothing that is measured reads it"
    assert found.directory == str(Path.cwd())


def test_an_old_torch_of_another_python_is_found_and_runs() -> None:
    folder = shlex.quote(str(Path(OLD_PYTHON).parent))
    found = activate_environment("A", f"export PATH={folder}")
    assert found.interpreter.executable != sys.executable
    with Zygote(Launch(interpreter=found.interpreter, environment=found.variables)) as zygote:
        assert zygote.start()["torch"].startswith("1.")


def test_variables_that_the_command_sets_are_kept_and_noise_is_not() -> None:
    command = f"{HERE}; export MKL_VERBOSE=0 PS1=x CONDA_PREFIX=y; echo noise; cd /"
    found = activate_environment("A", command)
    assert found.variables == (("MKL_VERBOSE", "0"),)
    assert found.directory == "/"


def test_a_torch_in_the_directory_that_the_command_enters_is_found(tmp_path: Path) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    found = activate_environment("A", f"{HERE}; cd {shlex.quote(str(tmp_path))}")
    assert found.interpreter.torch_file == str(package / "__init__.py")
    assert str(tmp_path) in found.interpreter.sys_path
    beside = activate_environment("B", f"{HERE}; export PYTHONPATH={shlex.quote(str(tmp_path))}")
    assert beside.interpreter.torch_file == str(package / "__init__.py")
    assert dict(beside.variables)["PYTHONPATH"] == str(tmp_path)


def test_a_command_that_fails_says_what_it_said() -> None:
    with pytest.raises(ZygoteError, match=r"activation command of B failed.*\n.*\n.*no-such-env"):
        activate_environment("B", "source no-such-env || exit 7")


def test_an_environment_without_torch_is_named(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(MissingTorchError, match="activation command of A selects, cannot"):
        activate_environment("A", f"export PATH={shlex.quote(str(tmp_path))}:$PATH")


def test_without_bash_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(MissingToolError, match="bash"):
        activate_environment("A", "true")


@pytest.mark.parametrize(
    ("command", "is_alike"),
    [
        (f"{HERE} && export MKL_VERBOSE=0", True),
        (f"{HERE} && export PYTHONPATH=elsewhere", False),
        (f"{HERE} && export LD_PRELOAD=", True),
    ],
)
def test_what_is_loaded_is_the_same_unless_a_variable_says_where_from(
    command: str, is_alike: bool
) -> None:
    plain, other = activate_environment("A", HERE), activate_environment("B", command)
    assert plain.loads_the_same_files(other) is is_alike
    assert not plain.is_same_installation(other)

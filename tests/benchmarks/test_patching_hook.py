"""The lines of seed 003 in a script: every call, in a pickle that imports nothing."""

from __future__ import annotations

import io
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from benchmarks.operators.patching_hook import write
from tests.cli.test_cli import site

FOLDER = Path(__file__).parents[2] / "benchmarks" / "operators"

SCRIPT = f"""
import sys
sys.path.append({str(FOLDER)!r})
from patching_hook import init, hook
from torch import nn
nn.modules.module.register_module_forward_pre_hook(hook)
init()

import torch
model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = torch.nn.functional.relu, torch.Tensor.view
for _ in range(2):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert before == (torch.nn.functional.relu, torch.Tensor.view)
"""


class NothingImported(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise AssertionError(f"the pickle wants {module}.{name}")


def read(path: Path) -> Any:
    return NothingImported(io.BytesIO(path.read_bytes())).load()


def test_the_seeds_lines_write_every_call_in_plain_types(tmp_path: Path) -> None:
    script, file = tmp_path / "train.py", tmp_path / "picklefile"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": site(), "PATCHING_HOOK_FILE": str(file)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    content = read(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    calls = {call["op"]: call for call in content["calls"]}
    product = calls["aten.addmm.default"]
    assert product["count"] == 2
    assert [arg["tensor"]["shape"] for arg in product["args"]] == [[3], [2, 4], [4, 3]]
    assert product["places"][0]["module"] == "0"
    phases = {place["phase"] for call in content["calls"] for place in call["places"]}
    assert phases == {"forward", "backward", "optimizer"}


def test_a_file_of_ones_own_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "picklefile"
    file.write_text("old")
    file.chmod(0o644)
    write(file, {"calls": []})
    assert read(file) == {"calls": []}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["picklefile"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "precious", tmp_path / "picklefile"
    target.write_text("precious")
    link.symlink_to(target)
    with pytest.raises(FileExistsError, match=r"is not a file of yours; name another"):
        write(link, {})
    assert target.read_text() == "precious"


def test_what_is_no_file_and_what_is_anothers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError):
        write(pipe, {})
    file.write_text("another's")
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(FileExistsError):
        write(file, {})
    assert file.read_text() == "another's"

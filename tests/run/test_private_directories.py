"""Directories of processes that are gone are removed, and no others."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from torchmark.run.private_directories import private_directory


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def directory_of(pid: int) -> Path:
    path = Path(tempfile.gettempdir()) / f"torchmark-{pid}-abc"
    path.mkdir()
    (path / "file").write_text("x")
    return path


def test_only_this_user_may_look_inside() -> None:
    assert stat.S_IMODE(private_directory().stat().st_mode) == 0o700


def test_what_a_dead_process_left_is_removed() -> None:
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""])
    dead.wait()
    left = directory_of(dead.pid)
    private_directory()
    assert not left.exists()


def test_what_belongs_to_a_living_process_or_to_nobody_stays(tmp_path: Path) -> None:
    living = directory_of(os.getppid())
    first = private_directory()
    other = tmp_path / "torchmark-notes"
    other.mkdir()
    assert private_directory() != first
    assert living.exists()
    assert first.exists()
    assert other.exists()


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "torchmark-999999999-x").symlink_to(elsewhere)
    private_directory()
    assert elsewhere.exists()

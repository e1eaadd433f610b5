from __future__ import annotations

import hashlib
import io
import os
import socket
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import torchmark_probe
from torchmark.run.probe_archive import archive_bytes, probe_archive

if TYPE_CHECKING:
    import pytest


def test_the_archive_holds_the_probe_and_a_way_in() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(archive_bytes())).namelist())
    sources = Path(torchmark_probe.__file__).parent.glob("*.py")
    assert names == {"__main__.py", *(f"torchmark_probe/{path.name}" for path in sources)}


def test_the_bytes_are_the_same_whenever_it_is_built() -> None:
    first = archive_bytes()
    archive_bytes.cache_clear()
    assert archive_bytes() == first


def test_the_name_holds_a_hash_of_the_content() -> None:
    path = probe_archive()
    assert path.name == f"probe-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}.pyz"
    assert path.parent == Path(os.environ["XDG_CACHE_HOME"]) / "torchmark"
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_damaged_archive_is_written_again() -> None:
    path = probe_archive()
    path.write_bytes(b"half")
    assert probe_archive() == path
    assert path.read_bytes() == archive_bytes()
    assert os.listdir(path.parent) == [path.name]


def test_without_a_writable_cache_a_private_directory_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_the_way))
    path = probe_archive()
    assert path.read_bytes() == archive_bytes()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_it_runs_and_ends_at_once_when_nobody_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = subprocess.run(
            [sys.executable, str(probe_archive())], stdout=theirs.fileno(), check=False
        )
    assert done.returncode == 0

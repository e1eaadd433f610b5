"""Directories that nobody holds any more are removed, and a run that is carried out is taken."""

from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from torchmark.engine.files import (
    check_free,
    discard,
    is_owned,
    make_private_directory,
    own_run,
)
from torchmark.errors import RunInUseError

_KILLED = """
import os, signal, tempfile
tempfile.tempdir = {folder!r}
from torchmark.engine.files import make_private_directory
path = make_private_directory()
(path / "file").write_text("x")
print(path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_only_this_user_may_look_inside() -> None:
    path = make_private_directory()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    discard(path)
    assert not path.exists()


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    script = _KILLED.format(folder=str(tmp_path))
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                            check=False)  # fmt: skip
    left = Path(killed.stdout.strip())
    assert left.exists()
    discard(make_private_directory())
    assert not left.exists()


def test_what_somebody_holds_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    held = make_private_directory()
    other = tmp_path / "torchmark-notes"
    other.mkdir()
    discard(make_private_directory())
    assert held.exists()
    assert other.exists()
    discard(held)


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "torchmark-held-x").symlink_to(elsewhere)
    discard(make_private_directory())
    assert elsewhere.exists()


def test_directories_that_are_made_at_the_same_time_all_stay() -> None:
    """One that is new and not yet locked looks abandoned to whoever makes the next."""

    def make(_: int) -> list[Path]:
        made = [make_private_directory() for _ in range(30)]
        for path in made[::2]:
            discard(path)
        return made[1::2]

    with ThreadPoolExecutor(8) as pool:
        kept = [path for paths in pool.map(make, range(8)) for path in paths]
    assert all(path.is_dir() for path in kept)
    for path in kept:
        discard(path)


_KILLED_OWNER = """
import os, signal
from torchmark.engine.files import own_run
with own_run("a-run"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_is_owned_while_it_is_carried_out() -> None:
    assert not is_owned("a-run")
    with own_run("a-run"):
        assert is_owned("a-run")
        with pytest.raises(RunInUseError, match="a-run is being measured"):
            check_free("a-run")
        check_free("another")
    check_free("a-run")


def test_a_process_that_is_killed_owns_nothing() -> None:
    subprocess.run([sys.executable, "-c", _KILLED_OWNER], check=False)
    assert not is_owned("a-run")
    with own_run("a-run"):
        assert is_owned("a-run")

"""Files that people name are whole or untouched, and caches are this user's alone."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import torchmark
from torchmark.files import cache_directory, can_be_written, make_folder, write_whole

SITE = str(Path(torchmark.__file__).resolve().parent.parent)

FULL = """
import resource, signal, sys
from pathlib import Path
from torchmark.files import write_whole
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"new" * 1000)
except OSError as error:
    print(error.strerror)
"""

KILLED = """
import os, signal, sys
from pathlib import Path
from torchmark.files import replacing
with replacing(Path(sys.argv[1])) as part:
    part.write_bytes(b"new")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    variables = os.environ | {"PYTHONPATH": SITE}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def test_a_disk_that_takes_no_more_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(b"old")
    assert python(FULL, file).stdout == "File too large\n"
    assert file.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [file], "nothing is left beside it"


def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_bytes(b"old")
    assert python(KILLED, file).returncode == -signal.SIGKILL
    assert file.read_bytes() == b"old"


def test_a_file_keeps_its_permissions_and_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "elsewhere" / "page.html", tmp_path / "page.html"
    file.parent.mkdir()
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to("elsewhere/page.html")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o640)


def test_a_new_file_has_the_permissions_that_every_new_file_has(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_whole(tmp_path / "new", b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_pipe_is_written_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()


def test_a_device_that_is_full_says_so() -> None:
    with pytest.raises(OSError, match="No space left"):
        write_whole(Path("/dev/full"), b"x")
    assert Path("/dev/full").is_char_device()


def test_standard_output_that_is_a_file_keeps_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "out"
    script = "from pathlib import Path; from torchmark.files import write_whole; "
    script += "print('first', flush=True); write_whole(Path('/dev/stdout'), b'second\\n')"
    with file.open("wb") as out:
        variables = os.environ | {"PYTHONPATH": SITE}
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, env=variables)
    assert file.read_bytes() == b"first\nsecond\n"


def test_what_a_user_may_not_write_is_not_replaced(tmp_path: Path) -> None:
    """In a process without root's right to write everywhere."""
    file = tmp_path / "mine"
    file.write_bytes(b"old")
    file.chmod(0o444)
    tmp_path.chmod(0o777)
    script = "import sys; from pathlib import Path; from torchmark.files import *; "
    script += "print(can_be_written(Path(sys.argv[1]))); write_whole(Path(sys.argv[1]), b'new')"
    command = [sys.executable, "-c", script, str(file)]
    if os.getuid() == 0:
        command = [str(shutil.which("setpriv")), "--bounding-set=-all", "--inh-caps=-all", *command]
    variables = os.environ | {"PYTHONPATH": SITE}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.stdout == "False\n"
    assert "PermissionError" in done.stderr
    assert file.read_bytes() == b"old"


def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), b"new")
    assert can_be_written(tmp_path / ("x" * 255))


def test_folders_are_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = make_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (made, made.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_cache_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loose = make_folder(tmp_path / "torchmark")
    assert cache_directory() == loose
    loose.chmod(mode)
    with pytest.warns(UserWarning, match=f"{loose} is not used.*other users can write"):
        used = cache_directory()
    assert used not in (loose, loose.parent)
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
    assert cache_directory() == used, "said once"


def test_a_cache_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = make_folder(tmp_path / "torchmark")
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to user"):
        assert cache_directory() != folder

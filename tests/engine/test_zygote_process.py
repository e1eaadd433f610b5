from __future__ import annotations

import io
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import torchmark_probe
from torchmark.engine.environments import Interpreter
from torchmark.engine.zygote.process import Launch, archive_bytes


def test_the_archive_holds_the_probe_and_a_way_in() -> None:
    names = set(zipfile.ZipFile(io.BytesIO(archive_bytes())).namelist())
    root = Path(torchmark_probe.__file__).parent
    sources = {path.relative_to(root.parent).as_posix() for path in root.rglob("*.py")}
    wanted = {name for name in sources if "/backport/" not in name}
    assert names == {"__main__.py", *wanted}


def test_the_bytes_are_the_same_whenever_it_is_built() -> None:
    first = archive_bytes()
    archive_bytes.cache_clear()
    assert archive_bytes() == first


def test_it_runs_and_ends_at_once_when_nobody_is_at_the_other_end(tmp_path: Path) -> None:
    archive = tmp_path / "probe.pyz"
    archive.write_bytes(archive_bytes())
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        done = subprocess.run([sys.executable, str(archive)], stdout=theirs.fileno(), check=False)
    assert done.returncode == 0


def test_cases_find_modules_on_the_python_path_of_their_environment() -> None:
    """The interpreter's path lacks it, and Python reads the variable only at its start."""
    given = (("PYTHONPATH", "/branch/src::/torch"),)
    interpreter = Interpreter(executable="python", sys_path=("/torch",), torch_file="/torch/t.py")
    launch = Launch(interpreter=interpreter, environment=given, path=("", "/suites"))
    assert launch.extra_path() == ["", "/suites", "/branch/src"]

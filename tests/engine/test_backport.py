"""The copy of the Timer in an environment's torch: real scripts use it, nothing else changes."""

from __future__ import annotations

import compileall
import errno
import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.engine.test_old_torch import OLD_PYTHON
from torchmark import __version__
from torchmark.engine.backport import FOLDER, MARKER, patch, unpatch
from torchmark.engine.environments import (
    ActivatedEnvironment,
    Interpreter,
    activate_environment,
    ask_interpreter,
)
from torchmark.errors import BackportError, ForeignBackportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPT = """
import sys
from torch.utils_backport.benchmark import Timer
timer = Timer("x + x", "import torch; x = torch.ones(4)")
print(timer.blocked_autorange(min_run_time=0.01).median > 0)

import torch.utils.benchmark, torch.utils_backport, torch.utils_backport.benchmark.utils.timer
from torch.utils_backport.benchmark.utils.common import Measurement
assert torch.utils_backport.Timer is torch.utils_backport.benchmark.utils.timer.Timer is Timer
assert Timer.__module__.startswith("torch.utils_backport."), Timer.__module__
assert torch.utils.benchmark.Timer is not Timer
assert not {"torchmark", "torchmark_probe"} & set(sys.modules)

results = [
    Timer("pass", label="small", description="here", num_threads=2).timeit(10),
    Timer("0", label="small", description="here").adaptive_autorange(max_run_time=0.01),
]
assert all(isinstance(result, Measurement) for result in results)
theirs = torch.utils.benchmark.Measurement
print(torch.utils.benchmark.Compare(
    [theirs(m.number_per_run, m.raw_times, m.task_spec) for m in results]
))
"""


def environment_at(torch_file: Path, name: str = "A") -> ActivatedEnvironment:
    return ActivatedEnvironment(
        name=name,
        command="",
        interpreter=Interpreter(
            executable=sys.executable,
            sys_path=(),
            torch_file=str(torch_file),
        ),
        variables=(),
        directory="",
    )


def pretended(site: Path) -> ActivatedEnvironment:
    """An environment whose torch is a folder with hardly anything in it."""
    torch = site / "torch"
    (torch / "utils").mkdir(parents=True)
    (torch / "__init__.py").write_text("# torch\n")
    (torch / "utils" / "__init__.py").write_text("# utils\n")
    return environment_at(torch / "__init__.py")


@pytest.fixture
def environment(tmp_path: Path) -> ActivatedEnvironment:
    return pretended(tmp_path / "site")


@pytest.fixture
def folder(environment: ActivatedEnvironment) -> Path:
    return Path(environment.interpreter.torch_file).parent / FOLDER


def contents(folder: Path) -> dict[str, bytes | str]:
    """Everything below a folder: files with their bytes, links with their targets."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = str(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes()
        else:
            found[str(path.relative_to(folder))] = "a folder"
    return found


def make_older(folder: Path) -> None:
    """Let a copy look as if torchmark 0.0.1 had written it, with a file that is gone since."""
    marker = json.loads((folder / MARKER).read_text())
    marker |= {"torchmark": "0.0.1", "files": [*marker["files"], "gone.py"]}
    (folder / MARKER).write_text(json.dumps(marker))
    (folder / "gone.py").write_text("")


def linked_torch(python: str, site: Path) -> None:
    """A torch that is the interpreter's own, by links, so that a folder added to it is not."""
    real = Path(ask_interpreter(python).torch_file).parent
    (site / "torch").mkdir(parents=True)
    for entry in real.iterdir():
        (site / "torch" / entry.name).symlink_to(entry)


@pytest.mark.parametrize("python", [OLD_PYTHON, sys.executable], ids=["old torch", "new torch"])
def test_a_script_uses_the_timer_in_an_environment_that_has_nothing_else(
    python: str, tmp_path: Path
) -> None:
    linked_torch(python, tmp_path / "site")
    binaries, site = (shlex.quote(str(path)) for path in (Path(python).parent, tmp_path / "site"))
    found = activate_environment("A", f"export PATH={binaries}:$PATH PYTHONPATH={site}")
    assert f"is now in {tmp_path / 'site' / 'torch' / FOLDER};" in patch(found)
    done = subprocess.run(
        [found.interpreter.executable, "-c", SCRIPT],
        env={**os.environ, **dict(found.variables), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("True\n")
    assert "Times are in" in done.stdout


def test_the_folder_is_all_that_is_added(environment: ActivatedEnvironment, folder: Path) -> None:
    before = contents(folder.parent)
    assert patch(environment) == (
        f"A: the Timer is now in {folder}; scripts in this environment import it with\n"
        "  from torch.utils_backport.benchmark import Timer"
    )
    after = contents(folder.parent)
    assert {name: after[name] for name in after if not name.startswith(FOLDER)} == before


def test_the_marker_tells_the_version_and_every_file(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    patch(environment)
    marker = json.loads((folder / MARKER).read_text())
    files = {name for name, what in contents(folder).items() if what != "a folder"}
    assert marker["torchmark"] == __version__
    assert set(marker["files"]) == files
    assert len(marker["sha256"]) == 64


def test_others_may_read_what_is_written_where_the_umask_lets_them(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    umask = os.umask(0o022)
    try:
        patch(environment)
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "__init__.py").stat().st_mode & 0o777 == 0o644


def test_a_second_patch_does_nothing_and_says_so(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    patch(environment)
    first = folder.stat()
    said = patch(environment)
    assert said == f"A: the Timer is already in {folder}; nothing was done"
    assert (folder.stat().st_ino, folder.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


def test_an_older_copy_of_ours_is_replaced(environment: ActivatedEnvironment, folder: Path) -> None:
    patch(environment)
    fresh = contents(folder)
    make_older(folder)
    compileall.compile_dir(folder, quiet=1)
    assert patch(environment) == (
        f"A: the Timer in {folder} was replaced (the previous one was written by torchmark 0.0.1)"
    )
    assert contents(folder) == fresh


def test_a_damaged_copy_is_written_again(environment: ActivatedEnvironment, folder: Path) -> None:
    patch(environment)
    fresh = contents(folder)
    shutil.rmtree(folder / "torchmark_probe")
    assert "was replaced" in patch(environment)
    assert contents(folder) == fresh


def test_unpatch_leaves_torch_as_it_was_also_after_use(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    before = contents(folder.parent)
    patch(environment)
    compileall.compile_dir(folder, quiet=1)
    assert list(folder.rglob("*.pyc"))
    assert unpatch(environment) == f"A: {folder} was removed"
    assert contents(folder.parent) == before


def test_unpatch_is_harmless_where_there_is_nothing(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    assert unpatch(environment) == f"A: there is no {folder}; nothing was done"


def a_file(folder: Path) -> None:
    folder.write_text("mine")


def a_folder(folder: Path) -> None:
    (folder / "mine").mkdir(parents=True)


def an_empty_folder(folder: Path) -> None:
    folder.mkdir()


def a_link_to_nowhere(folder: Path) -> None:
    folder.symlink_to("nowhere")


def a_link_to_a_copy(folder: Path) -> None:
    patch(pretended(folder.parent / "other"))
    folder.symlink_to(folder.parent / "other" / "torch" / FOLDER)


def a_damaged_marker(folder: Path) -> None:
    folder.mkdir()
    (folder / MARKER).write_text('{"torchmark": ')


def a_marker_that_is_a_folder(folder: Path) -> None:
    (folder / MARKER).mkdir(parents=True)


@pytest.mark.parametrize("act", [patch, unpatch])
@pytest.mark.parametrize(
    "in_the_way",
    [
        *(a_file, a_folder, an_empty_folder, a_link_to_nowhere, a_link_to_a_copy),
        *(a_damaged_marker, a_marker_that_is_a_folder),
    ],
)
def test_what_is_not_ours_is_named_and_never_touched(
    environment: ActivatedEnvironment,
    folder: Path,
    act: Callable[[ActivatedEnvironment], object],
    in_the_way: Callable[[Path], None],
) -> None:
    in_the_way(folder)
    before = contents(folder.parent)
    with pytest.raises(ForeignBackportError, match="move or remove it, then") as caught:
        act(environment)
    assert str(folder) in str(caught.value)
    assert contents(folder.parent) == before


@pytest.mark.parametrize("act", [patch, unpatch])
def test_a_stranger_file_in_our_folder_is_kept(
    environment: ActivatedEnvironment, folder: Path, act: Callable[[ActivatedEnvironment], object]
) -> None:
    patch(environment)
    make_older(folder)
    (folder / "benchmark" / "notes.txt").write_text("mine")
    before = contents(folder.parent)
    with pytest.raises(ForeignBackportError, match=r"notes\.txt was not written by .*move this"):
        act(environment)
    assert contents(folder.parent) == before


def test_a_torch_that_is_one_file_is_no_torch(tmp_path: Path) -> None:
    stray = environment_at(tmp_path / "torch.py", "B")
    with pytest.raises(BackportError, match=r"in B, .* the single file .*torch\.py"):
        patch(stray)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def owned_by_another(environment: ActivatedEnvironment) -> Iterator[ActivatedEnvironment]:
    """A torch that this user, or nobody where the tests run as root, may read and not change."""
    patch(environment)  # reads the probe, which nobody may not be able to
    site = Path(tempfile.mkdtemp())
    other = pretended(site)
    site.chmod(0o755)
    me = os.geteuid()
    try:
        (site / "torch").chmod(0o555)
        if me == 0:
            os.seteuid(65534)
        yield other
    finally:
        os.seteuid(me)
        (site / "torch").chmod(0o755)
        shutil.rmtree(site)


def test_without_permission_the_error_says_what_to_do(
    owned_by_another: ActivatedEnvironment,
) -> None:
    torch = Path(owned_by_another.interpreter.torch_file).parent
    before = contents(torch)
    with pytest.raises(BackportError, match=r"cannot be written: .*Permission denied") as caught:
        patch(owned_by_another)
    assert f"the user who owns {torch}" in str(caught.value)
    assert contents(torch) == before
    assert "nothing was done" in unpatch(owned_by_another)


def test_a_copy_that_may_not_be_removed_stays_whole(owned_by_another: ActivatedEnvironment) -> None:
    torch = Path(owned_by_another.interpreter.torch_file).parent
    me = os.geteuid()
    os.seteuid(os.getuid())
    torch.chmod(0o755)
    patch(owned_by_another)
    torch.chmod(0o555)
    os.seteuid(me)
    before = contents(torch)
    with pytest.raises(BackportError, match=r"cannot be removed: .*Permission denied"):
        unpatch(owned_by_another)
    assert contents(torch) == before
    assert "is already in" in patch(owned_by_another)


def test_a_full_disk_leaves_the_old_copy_and_no_half_of_a_new_one(
    environment: ActivatedEnvironment, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(environment)
    make_older(folder)
    before = contents(folder.parent)
    write = Path.write_bytes

    def full_at_the_timer(path: Path, data: bytes) -> int:
        if path.name == "timer.py":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full_at_the_timer)
    with pytest.raises(BackportError, match=r"No space left on device.*try again"):
        patch(environment)
    assert contents(folder.parent) == before


def test_if_the_new_copy_cannot_take_its_place_the_old_one_is_back(
    environment: ActivatedEnvironment, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch(environment)
    make_older(folder)
    before = contents(folder.parent)
    rename = Path.rename

    def refuses_the_new(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuses_the_new)
    with pytest.raises(BackportError, match="Directory not empty"):
        patch(environment)
    assert contents(folder.parent) == before


def test_what_a_killed_process_left_is_removed(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    left = folder.parent / f".torchmark-{FOLDER}-killed"
    (left / "new").mkdir(parents=True)
    patch(environment)
    assert not left.exists()


PATCHER = """
import sys
from pathlib import Path
from tests.engine.test_backport import environment_at
from torchmark.engine.backport import patch
environment = environment_at(Path(sys.argv[1]))
print("ready", flush=True)
print(patch(environment))
"""


def test_of_several_that_patch_at_once_one_writes_and_the_others_find_it(
    environment: ActivatedEnvironment, folder: Path
) -> None:
    lock = os.open(folder.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # none gets to work before all are there
    command = [sys.executable, "-c", PATCHER, environment.interpreter.torch_file]
    path = os.pathsep.join(sys.path)
    patchers = [
        subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for patcher in patchers:
        assert patcher.stdout is not None
        assert patcher.stdout.readline() == "ready\n"
    os.close(lock)
    said = sorted(patcher.communicate(timeout=900)[0].strip() for patcher in patchers)
    *others, first = said
    assert others == [f"A: the Timer is already in {folder}; nothing was done"] * 3
    assert first.startswith(f"A: the Timer is now in {folder};")
    assert sorted(os.listdir(folder.parent)) == ["__init__.py", "utils", FOLDER]

"""A copy of the Timer inside an environment's torch, for the user's own scripts there.

The copy is the folder `utils_backport`, next to torch's `utils`, which is not changed:

    from torch.utils_backport.benchmark import Timer

The folder is created under another name and then renamed, so it is complete or missing, even if two
processes patch at once. A file in it lists what torchmark wrote. Files that are not in the list
belong to somebody else and are never removed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from torchmark import __version__
from torchmark.engine.files import hold_lock
from torchmark.errors import BackportError, ForeignBackportError

if TYPE_CHECKING:
    from torchmark.engine.environments import ActivatedEnvironment

FOLDER = "utils_backport"
MARKER = "TORCHMARK"
"""The file that marks the folder as torchmark's: a `_Marker` as JSON."""

_STAGING = ".torchmark-utils_backport-"
"""Prefix of the temporary folders in torch that exist while files are written or removed."""

_PROBE_FILES = (
    "__init__.py",
    "loops/__init__.py",
    "loops/autorange.py",
    "loops/clocks.py",
    "loops/intervals.py",
    "loops/measurement.py",
    "loops/snippets.py",
    "backport/__init__.py",
    "backport/timer.py",
)
"""The files of the probe that the Timer needs; they import each other by relative names."""

_WAY_IN = '''"""Written by torchmark; `torchmark ab --unpatch` removes it."""

from {}torchmark_probe.backport import Language, Measurement, TaskSpec, Timer, timer

__all__ = ["Language", "Measurement", "TaskSpec", "Timer", "timer"]
'''

_WAYS_IN = {
    "__init__.py": _WAY_IN.format("."),
    "benchmark/__init__.py": _WAY_IN.format(".."),
    "benchmark/utils/__init__.py": "",
    "benchmark/utils/common.py": _WAY_IN.format("..."),
    "benchmark/utils/timer.py": _WAY_IN.format("..."),
}
"""The module names that scripts use for the parts of `torch.utils.benchmark`."""


def patch(environment: ActivatedEnvironment) -> str:
    """Copy the Timer into the environment's torch and return a line about what was done.

    An existing copy of this version is kept.
    """
    folder = _folder_of(environment)
    with _clear_errors(environment, folder, "written"), _only_one(folder.parent):
        found = _read_marker(folder)
        if found is None:
            said = (
                f"the Timer is now in {folder}; scripts in this environment import it with\n"
                "  from torch.utils_backport.benchmark import Timer"
            )
        elif _holds(folder, _files()):
            return f"{environment.name}: the Timer is already in {folder}; nothing was done"
        else:
            _refuse_strangers(folder, found)
            said = (
                f"the Timer in {folder} was replaced (the previous one was written by torchmark "
                f"{found.torchmark})"
            )
        _put(folder, _files())
    return f"{environment.name}: {said}"


def unpatch(environment: ActivatedEnvironment) -> str:
    """Remove the copy, of any version, from the environment's torch; return what was done."""
    folder = _folder_of(environment)
    with _clear_errors(environment, folder, "removed"), _only_one(folder.parent):
        found = _read_marker(folder)
        if found is None:
            return f"{environment.name}: there is no {folder}; nothing was done"
        _refuse_strangers(folder, found)
        with _staging(folder.parent) as staging:
            folder.rename(Path(staging, "old"))
    return f"{environment.name}: {folder} was removed"


class _Marker(msgspec.Struct):
    """The content of a folder's marker file."""

    torchmark: str
    """The version of torchmark that wrote the folder."""

    sha256: str
    """Digest of all other files that it wrote."""

    files: list[str]
    """All files that it wrote, as paths in the folder."""


@cache
def _files() -> dict[str, bytes]:
    """All files of the copy, including the marker, by their paths in the folder."""
    probe = resources.files("torchmark_probe")
    files = {f"torchmark_probe/{name}": probe.joinpath(name).read_bytes() for name in _PROBE_FILES}
    files.update({name: text.encode() for name, text in _WAYS_IN.items()})
    content = hashlib.sha256()
    for name, data in sorted(files.items()):
        content.update(f"{name} {len(data)}\n".encode() + data)
    marker = _Marker(__version__, content.hexdigest(), sorted([*files, MARKER]))
    return {**files, MARKER: msgspec.json.format(msgspec.json.encode(marker), indent=1) + b"\n"}


def _folder_of(environment: ActivatedEnvironment) -> Path:
    torch = Path(environment.interpreter.torch_file)
    if torch.stem != "__init__":
        raise BackportError(
            f"in {environment.name}, 'import torch' finds the single file {torch} and not "
            "PyTorch's folder; check whether this file hides the real torch"
        )
    return torch.parent / FOLDER


def _read_marker(folder: Path) -> _Marker | None:
    """Read the marker of the folder; None if there is no folder."""
    if not os.path.lexists(folder):
        return None
    try:
        if folder.is_symlink():
            raise FileNotFoundError("a link is never ours")
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.DecodeError) as error:
        raise ForeignBackportError(
            f"{folder} exists, but torchmark did not write it (it has no readable {MARKER} file); "
            "move or remove it, then try again"
        ) from error


def _refuse_strangers(folder: Path, marker: _Marker) -> None:
    """Raise if the folder has a file that torchmark did not write, other than Python's caches."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_known = name in marker.files or path.suffix == ".pyc"
        is_folder = path.is_dir() and not path.is_symlink()
        if not is_known and not is_folder:
            raise ForeignBackportError(
                f"{path} was not written by torchmark and would be removed with {folder}; move "
                "this file elsewhere, then try again"
            )


def _holds(folder: Path, wanted: dict[str, bytes]) -> bool:
    """Whether every file exists with the expected content."""
    try:
        return all((folder / name).read_bytes() == data for name, data in wanted.items())
    except OSError:
        return False


def _put(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files next to the folder, then replace the folder; restore it if that fails.

    The new folder is made inside the staging folder, because only this user may read the staging
    folder itself, and others must be able to read the copy.
    """
    with _staging(folder.parent) as staging:
        new, old = Path(staging, "new"), Path(staging, "old")
        for name, data in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise


def _staging(torch: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder in torch that is removed with everything in it."""
    return tempfile.TemporaryDirectory(prefix=_STAGING, dir=torch)


@contextlib.contextmanager
def _only_one(torch: Path) -> Iterator[None]:
    """Let one process at a time patch this torch; others wait for the few milliseconds it takes.

    The lock is on torch's folder, so no lock file is left behind. It ends with the process that
    holds it, so the leftovers of a killed process can be removed.
    """
    with hold_lock(torch) as is_held:
        if is_held:  # without locks (NFS), a failed rename raises an error
            for abandoned in torch.glob(f"{_STAGING}*"):
                shutil.rmtree(abandoned, ignore_errors=True)
        yield


@contextlib.contextmanager
def _clear_errors(environment: ActivatedEnvironment, folder: Path, done: str) -> Iterator[None]:
    """Turn an OSError into an error that says what to do."""
    try:
        yield
    except BackportError:
        raise
    except OSError as error:
        remedy = "fix this, then try again"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = (
                f"run torchmark as the user who owns {folder.parent}, or use an environment of "
                f"your own with this torch for {environment.name}. The comparison itself does not "
                "need the backport"
            )
        raise BackportError(f"{folder} cannot be {done}: {error}; {remedy}") from error

"""A copy of the Timer inside an environment's torch, for people's own scripts there.

It is the folder `utils_backport`, beside torch's `utils`, which is left alone:

    from torch.utils_backport.benchmark import Timer

The folder is made under another name and renamed into place, so it is whole or not there, also
when two processes patch at once. A file in it lists what torchmark wrote; what is not listed is
somebody else's, and is never removed.
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
"""The file that makes the folder ours: a `_Marker` as JSON."""

_STAGING = ".torchmark-utils_backport-"
"""Begins the names of folders in torch that are there while something is written or removed."""

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
"""What the Timer needs of the probe; these files name each other relatively."""

_WAY_IN = '''"""Put here by torchmark; `torchmark ab --unpatch` removes it."""

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
"""The names by which scripts know the parts of `torch.utils.benchmark`."""


def patch(environment: ActivatedEnvironment) -> str:
    """Put the copy into the environment's torch, and say what was done.

    A copy of this version that is there stays.
    """
    folder = _folder_of(environment)
    with _clear_errors(environment, folder, "written"), _only_one(folder.parent):
        found = _read_marker(folder)
        if found is None:
            said = (
                f"the Timer is now in {folder}; scripts there begin with\n"
                "  from torch.utils_backport.benchmark import Timer"
            )
        elif _holds(folder, _files()):
            return f"{environment.name}: the Timer is already in {folder}; nothing was done"
        else:
            _refuse_strangers(folder, found)
            said = (
                f"the Timer in {folder} was replaced; torchmark {found.torchmark} had written the "
                "one before"
            )
        _put(folder, _files())
    return f"{environment.name}: {said}"


def unpatch(environment: ActivatedEnvironment) -> str:
    """Take the copy out of the environment's torch, of whichever version, and say what was done."""
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
    """What the marker of a folder says."""

    torchmark: str
    """The version that wrote it."""

    sha256: str
    """Of all else that it wrote."""

    files: list[str]
    """All that it wrote, as paths in the folder."""


@cache
def _files() -> dict[str, bytes]:
    """Every file of the copy, the marker among them, by its path in the folder."""
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
            f"{torch}, which 'import torch' finds in {environment.name}, is one file and not "
            "PyTorch's folder; see whether a file of that name hides the real torch"
        )
    return torch.parent / FOLDER


def _read_marker(folder: Path) -> _Marker | None:
    """What stands there says of itself; None if nothing stands there."""
    if not os.path.lexists(folder):
        return None
    try:
        if folder.is_symlink():
            raise FileNotFoundError("a link is never ours")
        return msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.DecodeError) as error:
        raise ForeignBackportError(
            f"{folder} is there and torchmark has not written it (it has no readable {MARKER} "
            "file); move or remove it yourself if it is not needed, then try again"
        ) from error


def _refuse_strangers(folder: Path, marker: _Marker) -> None:
    """Raise if the folder has a file that torchmark did not write; Python's own caches are fine."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        is_known = name in marker.files or path.suffix == ".pyc"
        is_folder = path.is_dir() and not path.is_symlink()
        if not is_known and not is_folder:
            raise ForeignBackportError(
                f"{path} is not torchmark's, and would be removed with {folder}; move that file "
                "away, then try again"
            )


def _holds(folder: Path, wanted: dict[str, bytes]) -> bool:
    """Whether every file is there, as it should be."""
    try:
        return all((folder / name).read_bytes() == data for name, data in wanted.items())
    except OSError:
        return False


def _put(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files beside the folder, then let them take its place, which is whole if it fails.

    What is renamed was made inside of the staging folder, so that others may read it: that one is
    for this user alone.
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
    """A folder in torch that goes with all that is in it."""
    return tempfile.TemporaryDirectory(prefix=_STAGING, dir=torch)


@contextlib.contextmanager
def _only_one(torch: Path) -> Iterator[None]:
    """One process at a time patches this torch; a second one waits for the milliseconds it takes.

    The lock is on torch's folder, so no file is left for it. It goes with the process that holds
    it, so what a killed one left behind can then be removed.
    """
    with hold_lock(torch) as is_held:
        if is_held:  # without locks (NFS) a rename that fails is an error
            for abandoned in torch.glob(f"{_STAGING}*"):
                shutil.rmtree(abandoned, ignore_errors=True)
        yield


@contextlib.contextmanager
def _clear_errors(environment: ActivatedEnvironment, folder: Path, done: str) -> Iterator[None]:
    """What the system refuses becomes an error that says what to do."""
    try:
        yield
    except BackportError:
        raise
    except OSError as error:
        remedy = "see to that, then try again"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            remedy = (
                f"call torchmark as the user who owns {folder.parent}, or give "
                f"{environment.name} an environment of your own with this torch. A comparison "
                "itself does not need the back-port"
            )
        raise BackportError(f"{folder} cannot be {done}: {error}; {remedy}") from error

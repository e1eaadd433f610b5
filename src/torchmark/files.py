"""Atomic writes of files, and the cache directory, which only this user can write.

A file that the user named has either all of its old content or all of the new one. A full disk, an
error or a kill cannot leave a part of it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import stat
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

PRIVATE = 0o600
"""The permissions of a file that only this user may read and write."""

_PROCESSES = Path("/proc")
"""Here Linux shows the open files of a process, as links."""

_MOST_LINKS = 40
"""The number of links that Linux follows in one path."""


def cache_directory() -> Path:
    """The cache directory, which may not exist yet; below /dev/null if the user has no home.

    Libraries are loaded from it. If other users could write to it, a warning is given and a
    temporary directory of this process is used instead.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(root if os.path.isabs(root) else os.devnull) / "torchmark"
    fault = _fault_of(folder)
    return folder if fault is None else _use_another(folder, fault)


def _fault_of(folder: Path) -> str | None:
    """Why the contents of the folder cannot be trusted; None if they can, or it is missing."""
    try:
        facts = folder.stat()
    except OSError:
        return None
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}"
    return "other users can write there" if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


@cache
def _use_another(folder: Path, fault: str) -> Path:
    """A temporary directory; warns once for each folder."""
    other = Path(tempfile.mkdtemp(prefix="torchmark-cache-"))
    atexit.register(_remove_if_ours, other, os.getpid())
    warnings.warn(
        f"the cache {folder} is not used, because {fault}; using a temporary one. "
        f"Remove the directory, or set XDG_CACHE_HOME to a directory that you own",
        stacklevel=2,
    )
    return other


def _remove_if_ours(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the atexit functions
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> Path:
    """Create the folder and its missing parents, with access for this user only."""
    for each in reversed(folder.parents):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_whole(file: Path, content: bytes, *, mode: int = 0o666, is_durable: bool = True) -> None:
    """Write the file atomically; `mode` is used if the file is new.

    A file that can be made again need not be durable: it may be empty after a power failure.
    """
    with replacing(file, mode=mode, is_durable=is_durable) as part, part.open("ab") as stream:
        stream.write(content)


@contextmanager
def replacing(file: Path, *, mode: int = 0o666, is_durable: bool = True) -> Iterator[Path]:
    """A path to append to, in the same folder; at the end of the block it replaces the file.

    Permissions and owner of an existing file are kept, and so is a link to it. After an exception
    the file is unchanged. A pipe, a device or an open file (/dev/stdout) is returned as it is,
    because it cannot be replaced.
    """
    target = _target_of(file)
    if not _is_plain(target):
        yield file
        return
    if not can_be_written(target):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
    part = target.with_name(f".torchmark-{uuid.uuid4().hex}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with contextlib.suppress(FileNotFoundError):
                _copy_permissions(target, descriptor)
            yield part
            if is_durable:
                os.fsync(descriptor)  # some disks report only now that they are full
        finally:
            os.close(descriptor)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def can_be_written(file: Path) -> bool:
    """Whether this user may write the file, and its folder if the file is to be replaced."""
    target = _target_of(file)
    is_allowed = not target.exists() or os.access(target, os.W_OK)
    return is_allowed and (not _is_plain(target) or os.access(target.parent, os.W_OK))


def _is_plain(target: Path) -> bool:
    """Whether a new file may replace it: not for a pipe, a device or an open file."""
    return _PROCESSES not in target.parents and (target.is_file() or not target.exists())


def _copy_permissions(file: Path, descriptor: int) -> None:
    facts = file.stat()
    with contextlib.suppress(PermissionError):  # only root may change the owner
        os.fchown(descriptor, facts.st_uid, facts.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(facts.st_mode))


def _target_of(file: Path) -> Path:
    """The file with links followed; an open file (/dev/stdout) keeps its path under /proc."""
    for _ in range(_MOST_LINKS):
        file = file.parent.resolve() / file.name
        if _PROCESSES in file.parents or not file.is_symlink():
            break
        file = file.parent / file.readlink()
    return file

"""Files of this user: whole writes, and the cache that nobody else can write.

A file that somebody has named holds all of its old content or all of the new: a full disk, an error
of it or a kill costs the new content alone.
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
"""The permissions of a file that is for this user alone."""

_PROCESSES = Path("/proc")
"""Where Linux has the open files of a process, as links to what they are."""

_MOST_LINKS = 40
"""As many as Linux follows in one path."""


def cache_directory() -> Path:
    """The directory, which need not exist; below nowhere for a user without a home.

    Libraries are loaded from it. So where others could put something there, a temporary one that
    this process alone has takes its place, and a warning says so.
    """
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(root if os.path.isabs(root) else os.devnull) / "torchmark"
    fault = _fault_of(folder)
    return folder if fault is None else _use_another(folder, fault)


def _fault_of(folder: Path) -> str | None:
    """Why what lies in the folder cannot be trusted; None for one that is still to be made."""
    try:
        facts = folder.stat()
    except OSError:
        return None
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}"
    return "other users can write there" if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


@cache
def _use_another(folder: Path, fault: str) -> Path:
    """Said once for a directory."""
    other = Path(tempfile.mkdtemp(prefix="torchmark-cache-"))
    atexit.register(_remove_if_ours, other, os.getpid())
    warnings.warn(
        f"the cache {folder} is not used, because {fault}; a temporary one takes its place. "
        f"Remove it, or set XDG_CACHE_HOME to a directory of your own",
        stacklevel=2,
    )
    return other


def _remove_if_ours(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits what runs at exit
        shutil.rmtree(folder, ignore_errors=True)


def make_folder(folder: Path) -> Path:
    """The folder; it and all above it that is missing are made for this user alone."""
    for each in reversed(folder.parents):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_whole(file: Path, content: bytes, *, mode: int = 0o666) -> None:
    """All of it or nothing, whatever happens meanwhile; `mode` is for a file that is new."""
    with replacing(file, mode=mode) as part, part.open("ab") as stream:
        stream.write(content)


@contextmanager
def replacing(file: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """A path to append to, in the same folder; after the block it takes the place of the file.

    Permissions and owner of a file that is there are kept, and so is a link to it. An exception
    leaves the file as it is. A pipe, a device or an open file (/dev/stdout) is given as it is:
    whoever renames a file to it puts an end to it.
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
            os.fsync(descriptor)  # some disks say only now that they are full
        finally:
            os.close(descriptor)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def can_be_written(file: Path) -> bool:
    """Whether this user may: the file, where it is there, and its folder, where it is replaced."""
    target = _target_of(file)
    is_allowed = not target.exists() or os.access(target, os.W_OK)
    return is_allowed and (not _is_plain(target) or os.access(target.parent, os.W_OK))


def _is_plain(target: Path) -> bool:
    """Whether a new file may take its place: not for a pipe, a device or an open file."""
    return _PROCESSES not in target.parents and (target.is_file() or not target.exists())


def _copy_permissions(file: Path, descriptor: int) -> None:
    facts = file.stat()
    with contextlib.suppress(PermissionError):  # only root gives files away
        os.fchown(descriptor, facts.st_uid, facts.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(facts.st_mode))


def _target_of(file: Path) -> Path:
    """Where links lead; a file that is open (/dev/stdout) stays under /proc, whatever it is."""
    for _ in range(_MOST_LINKS):
        file = file.parent.resolve() / file.name
        if _PROCESSES in file.parents or not file.is_symlink():
            break
        file = file.parent / file.readlink()
    return file

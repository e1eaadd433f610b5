"""C++ builds in the user's cache directory, shared by all processes of this user.

    entries/KEY.json    a statement: its library and symbol, and the files that it included
    libraries/NAME.so   one translation unit, with one statement or many
    headers/KEY/        a precompiled header
    locks/, work/       for builds in progress

Files appear atomically (by a rename), so reading needs no lock. A lock only prevents two processes
from doing the same work. A process that uses a library or header holds a shared lock on the file,
and `trim` removes only files that it can lock exclusively. If the cache cannot be written, a
`CacheUnusableError` is raised; use `private_cache` then.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal

from torchmark.engine.files import discard, hold_lock, make_private_directory
from torchmark.files import PRIVATE, make_folder, write_whole
from torchmark_probe.zygote.messages import NativeCase

LIMIT_BYTES = 2 * 1024**3
"""A precompiled header takes half a gigabyte, a library 0.1 MB to a few megabytes."""

_ABANDONED_SECONDS = 24 * 3600.0
"""A workspace this old belongs to a process that was killed."""

_pinned: dict[str, int] = {}
"""The libraries that this process uses, with the descriptors that hold their locks."""


class CacheUnusableError(Exception):
    """The directory is not writable: read-only, full, or not a directory."""


class Cache:
    """A directory of builds."""

    def __init__(self, root: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def find(self, key: str) -> NativeCase | None:
        """Return a statement's build if it is complete and its included files are unchanged."""
        try:
            entry = json.loads((self.root / "entries" / f"{key}.json").read_text())
            library = self.root / "libraries" / entry["library"]
            fits = all(digest_of(path) == digest for path, digest in entry["depends"].items())
            symbol, size = str(entry["symbol"]), int(entry["bytes"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if not fits or not _pin(library, size):
            return None
        return NativeCase(str(library), symbol)

    def keep(
        self, library: Path, symbols: Mapping[str, str], depends: Mapping[str, str]
    ) -> dict[str, NativeCase]:
        """Move a library from its workspace into the cache, with the symbol for each key."""
        with or_unusable():
            name = f"{digest_of(library)}.so"
            target = self._folder("libraries") / name
            size = library.stat().st_size
            library.chmod(PRIVATE)
            os.replace(library, target)
            _pin(target, size)
            for key, symbol in symbols.items():
                entry = {"library": name, "bytes": size, "symbol": symbol, "depends": dict(depends)}
                file = self._folder("entries") / f"{key}.json"
                write_whole(file, json.dumps(entry).encode(), mode=PRIVATE)
        return {key: NativeCase(str(target), symbol) for key, symbol in symbols.items()}

    def has_header(self, key: str, name: str) -> bool:
        return (self.root / "headers" / key / name).exists()

    def asked_before(self, key: str) -> bool:
        """Whether this was called before with this key."""
        marker = self.root / "headers" / key / "asked"
        if marker.exists():
            return True
        with or_unusable():
            make_folder(marker.parent)
            marker.touch(mode=PRIVATE)
        return False

    def keep_header(self, key: str, files: Sequence[Path]) -> None:
        """Move a precompiled header into the cache; the file that makes it valid comes last."""
        with or_unusable():
            folder = make_folder(self._folder("headers") / key)
            for file in files:
                file.chmod(PRIVATE)
                os.replace(file, folder / file.name)

    @contextmanager
    def header_in_use(self, key: str, name: str) -> Iterator[Path | None]:
        """Yield the path of a precompiled header, kept from removal during the block, or None."""
        path = self.root / "headers" / key / name
        descriptor = _lock_shared(path)
        try:
            yield path if descriptor is not None else None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextmanager
    def workspace(self) -> Iterator[Path]:
        """Create a build directory on the same file system, removed after the block."""
        with or_unusable():
            path = Path(tempfile.mkdtemp(dir=self._folder("work")))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def lock(self, kind: Literal["unit", "header"], key: str) -> Iterator[None]:
        """Wait until no other process builds this. The lock ends with its process.

        A header may be locked while a unit is locked, but not the other way round.
        """
        # The lock is one of 256 files per kind, so the number of files is bounded and none has to
        # be removed. With shared files, a process that holds both kinds could wait for itself.
        digest = hashlib.sha256(key.encode()).hexdigest()
        with contextlib.ExitStack() as stack:
            with or_unusable():
                # Without locks, two processes may do the same work, which is harmless.
                stack.enter_context(hold_lock(self._folder("locks") / f"{kind}-{digest[:2]}"))
            yield

    def trim(self) -> None:
        """Remove the least recently used files until the rest fits; skip files that are in use.

        Entries without a library and workspaces of killed processes are removed too.
        """
        files = []
        for path in [*self.root.glob("libraries/*.so"), *self.root.glob("headers/*/*.gch")]:
            with contextlib.suppress(OSError):
                facts = path.stat()
                files.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit_bytes:
                break
            if _remove_unused(path):
                total -= size
        for entry in self.root.glob("entries/*.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                library = json.loads(entry.read_text())["library"]
                if not (self.root / "libraries" / library).exists():
                    entry.unlink()
        for folder in self.root.glob("work/*"):
            with contextlib.suppress(OSError):
                if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(folder)

    def _folder(self, name: str) -> Path:
        return make_folder(self.root / name)


@cache
def private_cache() -> Cache:
    """Return a cache in a directory of this process, which is removed at exit."""
    folder = make_private_directory()
    atexit.register(_discard_if_ours, folder, os.getpid())
    return Cache(folder)


def _discard_if_ours(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the exit handlers
        discard(folder)


@cache
def warn_unusable(root: Path, reason: str) -> None:
    """Warn once per directory."""
    warnings.warn(
        f"C++ builds cannot be kept in {root} ({reason}). They go to a temporary directory, and "
        "the next process compiles them again. Free some space, or set XDG_CACHE_HOME to a "
        "writable directory",
        stacklevel=2,
    )


def digest_of(path: str | Path) -> str:
    """Return a digest of the file's content, 32 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:32]


@contextmanager
def or_unusable() -> Iterator[None]:
    """Turn an OSError in the block into a CacheUnusableError."""
    try:
        yield
    except OSError as error:
        raise CacheUnusableError(f"{error.strerror or error}") from error


def _pin(library: Path, size: int) -> bool:
    """Lock a library until this process ends; False if it is missing or damaged."""
    descriptor = _lock_shared(library)
    if descriptor is None:
        return False
    if os.fstat(descriptor).st_size != size:
        os.close(descriptor)
        return False
    held = _pinned.pop(str(library), None)
    _pinned[str(library)] = descriptor
    if held is not None:
        os.close(held)
    return True


def _lock_shared(path: Path) -> int | None:
    """Return a descriptor that keeps `trim` from removing the file; None if it is missing.

    Also marks the file as used.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(path)
    # The file may have been removed between open and lock: then the name is missing or is reused.
    with contextlib.suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    os.close(descriptor)
    return None


def _remove_unused(path: Path) -> bool:
    with contextlib.suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False

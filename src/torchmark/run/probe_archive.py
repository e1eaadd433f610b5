"""The probe as one zip file that any Python can run: `python probe-<hash>.pyz`.

Nothing is installed in an environment under test. The name holds a hash of the content, so two
versions of torchmark never meet in one file, and the bytes are the same wherever it is built.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path

from torchmark.run.user_directories import cache_directory

_ENTRY = b"""\
import os
from torchmark_probe.__main__ import main
main()
os._exit(0)
"""


def probe_archive() -> Path:
    """The zip file in the user's cache, written if it is not there yet.

    Where the cache cannot be written, a private temporary directory serves this process.
    """
    content = archive_bytes()
    name = f"probe-{hashlib.sha256(content).hexdigest()[:16]}.pyz"
    path = cache_directory() / name
    try:
        if not _holds(path, content):
            _write_at_once(path, content)
    except OSError:  # read-only, or full: said by nobody, since nothing is lost by it
        path = _private_directory() / name
        if not _holds(path, content):
            _write_at_once(path, content)
    return path


@cache
def archive_bytes() -> bytes:
    """The zip file's bytes: sorted names, one date for all, and no compression.

    Under valgrind the inflating of a few kilobytes would be felt.
    """
    files = {
        f"torchmark_probe/{entry.name}": entry.read_bytes()
        for entry in resources.files("torchmark_probe").iterdir()
        if entry.name.endswith(".py")
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, "__main__.py": _ENTRY}.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


@cache
def _private_directory() -> Path:
    directory = tempfile.mkdtemp(prefix="torchmark-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return Path(directory)


def _holds(path: Path, content: bytes) -> bool:
    """Whether the file is there, whole: a disk that ran full may have left a part."""
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _write_at_once(path: Path, content: bytes) -> None:
    """Write beside it and rename, so that no other process ever sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise

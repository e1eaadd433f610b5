"""The folder of a site: what is there, and how pages are written and removed.

A page begins with the digest of what it was made from. So the folder itself says which pages are up
to date, and there is no list that could disagree with the pages after a kill. Only pages with such
a digest are ever removed. A marker says that the folder is a site; a folder with other files and
without the marker is refused.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torchmark.engine.files import hold_lock
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.files import write_whole

MARKER = ".torchmark-site"
_TEXT = b"`torchmark publish` made this site and keeps it up to date.\n"

_PARTS = ("", "cases", "runs")
"""The folders with pages."""

_HEAD = 512
"""Bytes of a page that are read; its digest is within the first 200."""

_DIGEST = re.compile(rb'<meta name="torchmark-source" content="([0-9a-f]{32})">')


@contextlib.contextmanager
def use_site(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the digest of each page in the folder, which may be missing or empty.

    A second process that publishes there waits until the first one has finished.
    """
    with _as_output_error(folder):
        _claim(folder)
    with hold_lock(folder):
        with _as_output_error(folder):
            _remove_parts(folder)
            pages = dict(_find_pages(folder))
        yield pages


@contextlib.contextmanager
def _as_output_error(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputFileError(
            f"{folder} cannot be used: {error.strerror}; free some space, change its permissions, "
            "or name another directory"
        ) from error


def _claim(folder: Path) -> None:
    """Mark a new or empty folder; raise for one with other files."""
    if folder.exists() and not folder.is_dir():
        raise InvalidArgumentError(f"{folder} is a file; name a directory for the site")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MARKER).is_file():
        return
    if any(not _is_part(name) for name in os.listdir(folder)):
        raise InvalidArgumentError(
            f"{folder} has files that `torchmark publish` did not make; name an empty or a new "
            "directory"
        )
    write_whole(folder / MARKER, _TEXT)


def _is_part(name: str) -> bool:
    """Whether it is a file that a killed process did not finish (see `torchmark.files`)."""
    return name.startswith(".torchmark-") and name.endswith(".part")


def _remove_parts(folder: Path) -> None:
    for part in (*_PARTS, "assets"):
        with contextlib.suppress(FileNotFoundError):
            for name in filter(_is_part, os.listdir(folder / part)):
                (folder / part / name).unlink(missing_ok=True)


def _find_pages(folder: Path) -> Iterator[tuple[str, str]]:
    for part in _PARTS:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder / part):
                if not name.endswith(".html"):
                    continue
                with (folder / part / name).open("rb") as file:
                    found = _DIGEST.search(file.read(_HEAD))
                if found:
                    yield f"{part}/{name}" if part else name, found[1].decode()


def write_file(folder: Path, name: str, content: bytes) -> None:
    """Write a file of the site completely or not at all.

    It is not flushed to disk, which would take longer than making it. A page that a power failure
    left empty has no digest, so the next publish writes it again.
    """
    file = folder / name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content, is_durable=False)
    except OSError as error:
        raise OutputFileError(
            f"{file} cannot be written: {error.strerror}; free some space, or name another "
            "directory, and publish again"
        ) from error


def has_content(folder: Path, name: str, content: bytes) -> bool:
    try:
        return (folder / name).read_bytes() == content
    except OSError:
        return False


def remove_pages(folder: Path, pages: Iterable[str]) -> int:
    """Remove pages, and return how many."""
    count = 0
    with _as_output_error(folder):
        for page in pages:
            (folder / page).unlink(missing_ok=True)
            count += 1
    return count

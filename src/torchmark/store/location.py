"""Where a store lies: a path, a URL, or the file under the user's data directory."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from torchmark.errors import InvalidArgumentError

_POSTGRES = {"postgres", "postgresql", "postgresql+psycopg"}
"""The names under which people know it; psycopg is the driver that torchmark uses."""


def default_path() -> Path:
    """The store of this user, where no other is named."""
    return Path(platformdirs.user_data_dir("torchmark", appauthor=False)) / "store.sqlite3"


def url_of(place: str | os.PathLike[str] | None) -> URL:
    """The URL of a store that is given as one, as a path, or not at all.

    >>> url_of("results.db").drivername, url_of("postgresql://team@host/marks").drivername
    ('sqlite', 'postgresql+psycopg')
    """
    if place is None:
        return _file_url(default_path())
    text = os.fspath(place)
    if "://" not in text:
        return _file_url(_path_of(text))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise InvalidArgumentError(f"the store {text!r} is no URL: {error}") from error
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in {"sqlite", "sqlite+pysqlite"}:
        return _file_url(_path_of(url.database or ""))
    raise InvalidArgumentError(
        f"a store of kind {url.drivername!r} is not supported; give the path of a file, or a URL "
        "such as sqlite:///results.db or postgresql+psycopg://user@host/name"
    )


def name_of(url: URL) -> str:
    """What messages call the store: its path, or its URL without the password."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


def artifact_folder(where: str, run_id: str) -> Path:
    """Where the files of a run lie, such as its models: beside the store, or the user's own."""
    path = Path(where)
    folder = path.parent if path.is_file() else default_path().parent
    return folder / "artifacts" / run_id


def _path_of(text: str) -> Path:
    if text in {"", ":memory:"} or "\0" in text:
        raise InvalidArgumentError(
            f"the store {text!r} names no file; give a path such as results.db"
        )
    return Path(text).expanduser()


def _file_url(path: Path) -> URL:
    return URL.create("sqlite", database=str(path))

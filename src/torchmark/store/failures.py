"""What a database says when it cannot go on, in words that say what to do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from torchmark.errors import DamagedStoreError, StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_SECONDS = 60
"""How long a writer waits for another; a transaction of ours takes milliseconds."""

_NO_SERVER = (
    "the server cannot be reached or does not let this user in; check the URL and the server"
)
_MOVE_AWAY = "or move it away and a new one is made"


class _Cause(NamedTuple):
    """What went wrong, by a part of the database's own text.

    Python 3.10 has no error codes of SQLite, so its texts tell the causes apart; they have been
    the same for twenty years.
    """

    text: str
    kind: type[StoreError]
    remedy: str


_CAUSES = (
    _Cause(
        "file is not a database",
        DamagedStoreError,
        f"the file is no SQLite database; name another with --store, {_MOVE_AWAY}",
    ),
    _Cause(
        "malformed",
        DamagedStoreError,
        f"the file is damaged; bring it back from a backup, {_MOVE_AWAY}",
    ),
    _Cause(
        "disk is full",
        StoreUnavailableError,
        "the disk is full; make room, or remove runs with `torchmark rm`. What was stored is safe",
    ),
    _Cause(
        "readonly",
        StoreUnavailableError,
        "it cannot be written; change the permissions of the file and its directory, "
        "or name another with --store",
    ),
    _Cause(
        "unable to open",
        StoreUnavailableError,
        "it cannot be opened; the file and its directory must be writable for this user",
    ),
    _Cause(
        "disk i/o error",
        StoreUnavailableError,
        "the disk failed, or a quota is used up; make room, or name another place with --store",
    ),
    _Cause(
        "locked",
        StoreUnavailableError,
        f"another process has kept it locked for {BUSY_SECONDS} s; end that one and try again",
    ),
    _Cause(
        "permission denied",
        StoreUnavailableError,
        "this user may not do that there; ask for the rights, or name another with --store",
    ),
    _Cause("connect", StoreUnavailableError, _NO_SERVER),
    _Cause("resolve host", StoreUnavailableError, _NO_SERVER),
)


@contextlib.contextmanager
def as_store_error(where: str) -> Iterator[None]:
    """What the database raises becomes a StoreError that names the store."""
    try:
        yield
    except SQLAlchemyError as error:
        raise store_error(error, where) from error
    except UnicodeDecodeError as error:
        # SQLite's text, or its complaint about a damaged name, was no text.
        raise DamagedStoreError(
            f"the store {where} cannot be used: the file is damaged; "
            f"bring it back from a backup, {_MOVE_AWAY} ({error})"
        ) from error


def store_error(error: SQLAlchemyError, where: str) -> StoreError:
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    said = " ".join(said.split())
    for cause in _CAUSES:
        if cause.text in said.lower():
            return cause.kind(f"the store {where} cannot be used: {cause.remedy} ({said})")
    return StoreError(f"the store {where} cannot be used: {said}")

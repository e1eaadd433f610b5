"""A PostgreSQL server for tests, in a directory of its own, reached by a socket in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

_USERS = ("postgres", "nobody")
"""Whom the server runs as where the tests run as root, which it refuses."""


class Server:
    """Started with the context, stopped with it."""

    def __init__(self) -> None:
        self._programs = _directory_of_programs()
        # Not pytest's directory: others may not enter that, and a socket's path must be short.
        self._directory = Path(tempfile.mkdtemp(prefix="torchmark-pg-"))
        self._user = _other_user() if os.getuid() == 0 else None

    def __enter__(self) -> Server:
        if self._user is not None:
            os.chown(self._directory, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "--username=torchmark", "--auth=trust", "--no-sync", "-D", self._data)
        options = f"-k {self._directory} -c listen_addresses='' -c fsync=off"
        log = str(self._directory / "log")
        self._call("pg_ctl", "start", "-w", "-D", self._data, "-l", log, "-o", options)
        return self

    def __exit__(self, *_: object) -> None:
        self._call("pg_ctl", "stop", "-m", "immediate", "-D", self._data)
        shutil.rmtree(self._directory)

    def new_schema(self, name: str) -> str:
        """The URL of an empty schema: as good as a database, and made in no time."""
        host = str(self._directory)
        with psycopg.connect(host=host, user="torchmark", dbname="postgres") as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        return (
            f"postgresql+psycopg://torchmark@/postgres?host={host}&options=-csearch_path%3D{name}"
        )

    @property
    def _data(self) -> str:
        return str(self._directory / "data")

    def _call(self, program: str, *arguments: str) -> None:
        identity: dict[str, Any] = {}
        if self._user is not None:
            identity = {
                "user": self._user.pw_uid,
                "group": self._user.pw_gid,
                "extra_groups": [],
            }
        # The server inherits the output of pg_ctl, so a pipe would not end with it.
        with (self._directory / "calls").open("ab") as output:
            subprocess.run(
                [str(self._programs / program), *arguments],
                check=True,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=900,
                **identity,
            )


def _directory_of_programs() -> Path:
    """Debian keeps the server's programs away from PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    assert found, "these tests need PostgreSQL: apt-get install postgresql"
    return found[-1].parent


def _other_user() -> pwd.struct_passwd:
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in _USERS if name in known)

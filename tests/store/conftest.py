"""Stores to test: a SQLite file, and databases of a real PostgreSQL server of our own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.store.postgres import Server
from torchmark.store import Store, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    server: Server = request.getfixturevalue("postgres")
    return server.new_schema(f"marks_{next(_NUMBERS)}")


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with open_store(place) as opened:
        yield opened


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"

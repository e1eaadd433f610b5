"""Records in JSON and stores in SQLite: a record or an error, and a record that is read is kept."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import ab_records, records
from tests.fuzz.mutations import ODD_TEXTS, ODD_VALUES, fuzz, texts_like, values_like
from tests.model.test_measurement import SPEC
from tests.store.test_store_damage import filled
from torchmark.errors import NotSerialisableError, TorchmarkError
from torchmark.model.codec import (
    decode_measurement,
    decode_result,
    decode_run,
    decode_stats,
    encode_measurement,
    encode_result,
    encode_run,
)
from torchmark.model.measurement import Measurement
from torchmark.store import open_store

_ADD = records.case("Pointwise", "add")
_RESULTS = (
    records.time_result(_ADD, count=3),
    records.count_result(_ADD),
    ab_records.timed(_ADD, 1.5),
)
_RUN = msgspec.structs.replace(records.run_of(_ADD), results=_RESULTS)
_MEASUREMENT = encode_measurement(Measurement(1, [1e-6, 2e-6], SPEC))
_TEXTS = (encode_run(_RUN), *map(encode_result, _RESULTS), _MEASUREMENT)
_WRITERS: tuple[tuple[Callable[[str | bytes], Any], Callable[[Any], str]], ...] = (
    (decode_run, encode_run),
    (decode_result, encode_result),
    (decode_measurement, encode_measurement),
    (decode_stats, str),
)


_ODD = [*ODD_TEXTS, *(each for each in ODD_VALUES if not isinstance(each, list | dict))]
"""What a column of a table may be set to."""


def check(content: str | bytes) -> None:
    for decode, encode in _WRITERS:
        try:
            record = decode(content)
        except TorchmarkError:
            continue
        try:
            text = encode(record)
        except NotSerialisableError:  # such as numbers that JSON would round
            continue
        assert decode(text) == record


@fuzz
@given(texts_like(*_TEXTS) | st.binary(max_size=80))
def test_text_like_a_record(content: str | bytes) -> None:
    check(content)


@fuzz
@given(values_like(*map(json.loads, _TEXTS)))
def test_records_with_parts_of_other_kinds(content: Any) -> None:
    check(json.dumps(content))


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "intact.db"
    filled(path)
    with open_store(path):
        pass  # nothing is left beside the file
    return path


def read_all(path: Path) -> None:
    try:
        with open_store(path, create=False) as store:
            for run in store.runs():
                store.run(run.id)
    except TorchmarkError:
        pass


@fuzz
@given(
    st.integers(0, 10_000),
    st.sampled_from(_ODD)
    | st.binary(max_size=9)
    | values_like(*map(json.loads, _TEXTS)).map(json.dumps),
)  # fmt: skip
def test_a_store_with_another_value_somewhere(intact: Path, place: int, value: Any) -> None:
    damaged = intact.with_name("damaged.db")
    for leftover in intact.parent.glob("damaged.db*"):
        leftover.unlink()
    damaged.write_bytes(intact.read_bytes())
    connection = sqlite3.connect(damaged)
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    columns = [
        (table, row[1])
        for table in tables
        for row in connection.execute(f"PRAGMA table_info({table})")
    ]
    table, column = columns[place % len(columns)]
    try:
        with connection:
            connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
    except (sqlite3.Error, UnicodeError, OverflowError):
        return  # SQLite itself refuses it
    finally:
        connection.close()
    read_all(damaged)


@fuzz
@given(st.lists(st.tuples(st.integers(0, 200_000), st.binary(min_size=1, max_size=64)), min_size=1,
                max_size=6), st.integers(0, 200_000) | st.none())  # fmt: skip
def test_a_store_with_other_bytes_in_its_pages(
    intact: Path, changes: list[tuple[int, bytes]], length: int | None
) -> None:
    content = bytearray(intact.read_bytes())
    for place, piece in changes:
        at = place % len(content)
        content[at : at + len(piece)] = piece
    damaged = intact.with_name("damaged.db")
    for leftover in intact.parent.glob("damaged.db*"):
        leftover.unlink()
    damaged.write_bytes(content[:length])
    read_all(damaged)

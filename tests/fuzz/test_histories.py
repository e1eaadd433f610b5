"""Rows of a store with any figures, dates and facts: a history, or a message about the damage."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import histories, records
from tests.fuzz.mutations import ODD_TEXTS, ODD_VALUES, fuzz
from torchmark.analyse.history import history_of
from torchmark.errors import TorchmarkError
from torchmark.model.series import Quantity, comparable_time
from torchmark.report import render_view
from torchmark.report.views import history as history_view
from torchmark.store import open_store

ADD = records.case("Pointwise", "add")
RUNS = 9

_FIGURES = st.none() | st.floats() | st.sampled_from([0.0, 5e-324, 1e308, "x", "", b"\xff"])
_TIMES = st.sampled_from([*ODD_TEXTS, "2026-11-01T00:00:00Z", "2026-10-31T23:00:00-09:00"]) | (
    st.datetimes(timezones=st.none() | st.timezones()).map(lambda each: each.isoformat())
)
_FACTS = st.sampled_from([*ODD_VALUES, *ODD_TEXTS, "a" * 40, "2.13.0"]) | _TIMES


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "intact.db"
    with open_store(path) as store:
        for run in histories.runs_of({ADD: [1e-6] * RUNS}, {ADD: [100_000] * RUNS}):
            store.create(run)
    return path


@fuzz
@given(
    st.lists(st.tuples(*[_FIGURES] * 4), min_size=2 * RUNS, max_size=2 * RUNS),
    st.lists(
        st.tuples(_TIMES, _TIMES, _FACTS, _FACTS, _FACTS), min_size=RUNS, max_size=RUNS
    ),
)  # fmt: skip
def test_rows_with_any_figures_dates_and_facts(
    intact: Path, figures: list[tuple[Any, ...]], facts: list[tuple[Any, ...]]
) -> None:
    damaged = intact.with_name("damaged.db")
    for leftover in intact.parent.glob("damaged.db*"):
        leftover.unlink()
    damaged.write_bytes(intact.read_bytes())
    try:
        _put(damaged, figures, facts)
    except (sqlite3.Error, UnicodeError, OverflowError):
        return  # SQLite itself refuses it
    try:
        with open_store(damaged, create=False) as store:
            origins, series = store.origins(), store.series()
    except TorchmarkError:  # text that is no text in a column
        return
    assert len(origins) + len(store.damage) >= RUNS
    places = [each.place for each in origins]
    assert places == sorted(places)
    assert all(comparable_time(each.when) for each in origins)
    points = sum(len(each.points) for each in series if each.quantity is not Quantity.MEMORY)
    assert points <= 2 * RUNS
    view = history_view.make_view([history_of(each) for each in series])
    for form in ("text", "markdown", "csv", "html"):
        assert "\0" not in render_view(view, form)


def _put(
    damaged: Path, figures: list[tuple[Any, ...]], facts: list[tuple[Any, ...]]
) -> None:  # fmt: skip
    """Give the rows other figures, dates and facts."""
    connection = sqlite3.connect(damaged)
    try:
        with connection:
            for place, row in enumerate(figures, 1):
                connection.execute(
                    "UPDATE torchmark_results SET value = ?, low = ?, high = ?, memory = ? "
                    "WHERE place = ?",
                    (*row, place),
                )
            ids = [row[0] for row in connection.execute("SELECT id FROM torchmark_runs")]
            for run_id, (started, committed, commit, version, cpu) in zip(ids, facts, strict=True):
                here = {
                    "git": {"commit": commit, "committed": committed, "branch": version},
                    "torch": {"version": version},
                    "machine": {"cpu": cpu, "cores": version},
                }
                connection.execute(
                    "UPDATE torchmark_runs SET started = ?, environments = ? WHERE id = ?",
                    (started, json.dumps([{"facts": here}]), run_id),
                )
    finally:
        connection.close()

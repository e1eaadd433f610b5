"""A store for tests of sites: a month of two suites, with known changes and hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import text

from tests import histories, records
from torchmark.model.case import Case
from torchmark.model.run import Run
from torchmark.store import open_store
from torchmark.store.database import write_transaction

HOSTILE = (
    "<b>bold</b> </script><script>alert(1)</script> \x1b[31mred \x00 \"quoted\" 'it' [x](y) `c`"
)
"""HTML, a terminal escape, NUL, quotes and Markdown."""

DAYS = 16
STEP = [1e-6] * 8 + [1.1e-6] * 8
PASSING = [2e-6] * 5 + [2.4e-6] * 4 + [2e-6] * 7

CASES = [records.case("Pointwise", name) for name in ("add", "mul", "div", "relu", "exp", HOSTILE)]
OTHERS = [records.case("Matrix", name) for name in ("mm", "bmm")]
ADD, MUL, ODD = CASES[0], CASES[1], CASES[-1]


def runs() -> list[Run]:
    """A run a day of each suite: `add` became slower, `mul` was slower for a while."""
    levels: dict[Case, list[float]] = {each: [3e-6] * DAYS for each in CASES}
    levels |= {ADD: STEP, MUL: PASSING}
    times = {each: histories.noisy(levels[each], seed=at) for at, each in enumerate(CASES)}
    counts = {ADD: [100_000] * 12 + [100_400] * 4}
    first = named(histories.runs_of(times, counts), "standard")
    others = {each: histories.noisy([5e-6] * DAYS, seed=at) for at, each in enumerate(OTHERS, 9)}
    return [*first, *named(histories.runs_of(others), "matrices", "-other")]


def named(made: list[Run], suite: str, end: str = "") -> list[Run]:
    settings: dict[str, Any] = {"suites": [suite]}
    return [msgspec.structs.replace(each, id=f"{each.id}{end}", settings=settings) for each in made]


def make_store(path: Path) -> str:
    with open_store(path) as store:
        for run in runs():
            store.create(run)
    return str(path)


def add_run(place: str, day: int = DAYS + 1, seconds: float = 1.1e-6, **git: Any) -> str:
    """Measure `add` once more; return the id of the run."""
    run = histories.run_on(day, records.time_result(ADD, seconds), **git)
    with open_store(place) as store:
        store.create(run)
    return run.id


def content_of(site: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(file.relative_to(site)): file.read_bytes() for file in site.rglob("*") if file.is_file()
    }


def damage_run(place: str, run: str) -> None:
    _change(place, "UPDATE torchmark_runs SET environments = 'x' WHERE id = :run", run=run)


def damage_result(place: str, run: str, case: str) -> None:
    change = "UPDATE torchmark_results SET record = 'x' WHERE run_id = :run AND case_id = :case"
    _change(place, change, run=run, case=case)


def _change(place: str, statement: str, **names: str) -> None:
    with open_store(place) as store, write_transaction(store._engine) as connection:
        connection.execute(text(statement), names)

"""A sweep in the store: a run whose cases are those of the sweep, each result with its row."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from torchmark.commands.sweeping.rows import result_of
from torchmark.engine.measuring import now
from torchmark.model.result import Metric
from torchmark.model.run import Run
from torchmark.store import new_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchmark.define.sweep.points import SweepCase
    from torchmark.model.sweep_record import SweepRow
    from torchmark.store import Store

_TELLING = (
    ("torchmark",), ("torch", "version"), ("torch", "git"), ("python",), ("machine", "cpu"),
)  # fmt: skip
"""What a run goes on with, and not without: `torchmark run --resume` asks for the same."""


def with_id(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The environment with an id that follows from the facts that change times."""
    facts = [_at(environment, path) for path in _TELLING]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return {**environment, "id": digest}


def run_of_sweep(
    store: Store,
    cases: Sequence[SweepCase],
    environment: Mapping[str, Any],
    file: Path,
    known: Mapping[str, SweepRow],
) -> Run:
    """The run that has this sweep: that of the file if it goes on, otherwise a new one.

    What the file has is in the run, and nothing else: what was not measured is tried again.
    """
    run = _begun(store, cases, environment, file) if known else None
    if run is None:
        run = Run(
            id=new_run_id(),
            started=now(),
            plan=tuple((case.case, Metric.TIME) for case in cases),
            settings={"sweep": {"csv": str(file.resolve())}},
            environment=dict(environment),
        )
        store.create(run)
    there = set()
    for result in store.results(run.id):
        if result.case.id in known:
            there.add(result.case.id)
        else:
            store.retract(run.id, result)
    for case in cases:
        row = known.get(case.row.case_id)
        if row is not None and row.case_id not in there:
            store.add(run.id, result_of(case, row, None))
    return run


def _begun(
    store: Store, cases: Sequence[SweepCase], environment: Mapping[str, Any], file: Path
) -> Run | None:
    ids = {case.row.case_id for case in cases}
    for summary in reversed(store.runs()):
        same_size = summary.planned == len(cases)
        if not same_size or summary.environment.get("id") != environment["id"]:
            continue
        run = store.run(summary.id)
        is_of_file = run.settings.get("sweep") == {"csv": str(file.resolve())}
        if is_of_file and {case.id for case, _ in run.plan} == ids:
            return run
    return None


def _at(facts: Mapping[str, Any], path: Sequence[str]) -> Any:
    value: Any = facts
    for name in path:
        value = value.get(name) if value is not None else None
    return value

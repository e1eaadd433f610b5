"""Which run a sweep belongs to: the one that goes on in its CSV file, or a new one.

A run goes on if it wants the same cases, and nothing else that is not done. Otherwise a new run
begins with the rows that the file has, so that one file may hold several choices of sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchmark.commands.spine import begin_run
from torchmark.commands.sweep_csv import check_file
from torchmark.engine.files import check_free
from torchmark.model.result import Metric, PlannedResult, Status
from torchmark.model.run import Effort, RunKind
from torchmark.model.run_settings import point_of, sizes_setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchmark.define.sweep.points import SweepCase
    from torchmark.define.sweep.spec import SweepSpec
    from torchmark.model.run import Environment, Run
    from torchmark.store import Store


def find_or_begin(
    store: Store,
    spec: SweepSpec,
    cases: Sequence[SweepCase],
    here: Environment,
    file: Path | None,
    *,
    kernels: bool,
    options: Mapping[str, Any],
    tags: Sequence[str],
) -> Run:
    """The run of this sweep; an error if the file has rows that would be lost."""
    metrics = (Metric.TIME, Metric.PROFILE) if kernels else (Metric.TIME,)
    wanted = [PlannedResult(case=case, metric=metric) for metric in metrics for case, _ in cases]
    settings = {
        **options,
        "spec": None if spec.file is None else str(spec.file.resolve()),
        "csv": None if file is None else str(file.resolve()),
    }
    known = _run_of_file(store, here, settings["csv"])
    in_file = check_file(file, known, cases, here.id) if file is not None else frozenset()
    if known is not None and _goes_on(known, wanted, settings["spec"]):
        for tag in tags:
            store.tag(known.id, tag)
        return store.run(known.id)
    done = [] if known is None else [
        each
        for each in known.results
        if each.status is Status.DONE and each.case.id in in_file
    ]  # fmt: skip
    there = {each.key for each in done}
    points = [(each.case, point_of(each.case, known.settings)) for each in done if known]
    return begin_run(
        store,
        RunKind.SWEEP,
        [
            *(PlannedResult(case=each.case, metric=each.metric) for each in done),
            *(each for each in wanted if each.key not in there),
        ],
        environments=[here],
        settings={**settings, **sizes_setting([*points, *cases])},
        effort=Effort(),
        tags=tags,
        results=done,
    )


def _run_of_file(store: Store, here: Environment, file: str | None) -> Run | None:
    """The latest sweep that was written there in this environment."""
    for summary in reversed(store.runs()):
        is_here = any(each.id == here.id for each in summary.environments)
        if file is None or summary.kind is not RunKind.SWEEP or not is_here:
            continue
        run = store.run(summary.id)
        if run.settings.get("csv") == file:
            check_free(run.id)
            return run
    return None


def _goes_on(run: Run, wanted: Sequence[PlannedResult], spec: str | None) -> bool:
    """Whether all that is wanted is planned there, and all else that is planned is done."""
    keys = {each.key for each in wanted}
    done = {each.key for each in run.results if each.status is Status.DONE}
    planned = {each.key for each in run.plan}
    return run.settings.get("spec", "") == spec and keys <= planned and planned - keys <= done

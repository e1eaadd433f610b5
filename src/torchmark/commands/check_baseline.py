"""Finds what `torchmark check` compares a run with: the newest runs of a branch, or one run.

Only runs of `torchmark run` on the same class of machines count. Everything that makes a baseline
doubtful (it is old, was measured with other tools, has uncommitted changes) is said in a note.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from torchmark.analyse.history import History, history_of
from torchmark.errors import InvalidArgumentError, UnknownRunError
from torchmark.model.run import Run, RunKind
from torchmark.model.series import Origin, Quantity, choose_origins, comparable_time
from torchmark.report.figures import number_text
from torchmark.store import Store

NEWEST = 60
"""Runs of the baseline that are read: enough for the last segment, and for its noise."""

USUAL_BRANCHES = ("main", "master")

_OLD_DAYS = 14
"""A baseline whose newest run is older than this is out of date."""

_TOOLS = {"torchmark": ("torchmark",), "torch": ("torch", "version"), "Python": ("python",)}


class Baseline(NamedTuple):
    """The runs that a run is compared with."""

    name: str
    here: Origin
    """The run that is judged."""

    comparable: Sequence[Origin]
    """The newest runs of the baseline on machines of the same class."""

    histories: Mapping[tuple[str, Quantity], History]
    notes: tuple[str, ...]


class _Chosen(NamedTuple):
    """Runs on all machines, and what they are called."""

    origins: list[Origin]
    name: str
    notes: tuple[str, ...] = ()


def find_baseline(store: Store, run: Run, against: str | None) -> Baseline:
    """The baseline of a run: `against` is a branch, a run or a tag, None for the usual branch."""
    origins = store.origins()
    here = next((each for each in origins if each.run == run.id), None)
    if here is None:
        raise InvalidArgumentError(
            f"run {run.id} cannot be checked: it was removed meanwhile, its record is damaged, or "
            "it repeats cases of another run"
        )
    chosen = _choose(store, origins, here, against)
    clean, notes = _without_dirty(chosen.origins)
    comparable = choose_origins(clean, machine=here.machine, newest=NEWEST)
    present = {each.case_id for each in store.series(origins=[here])}
    return Baseline(
        name=chosen.name,
        here=here,
        comparable=comparable,
        histories={
            (each.case_id, each.quantity): history_of(each)
            for each in store.series(origins=comparable)
            if each.case_id in present or each.points[-1].origin.run == comparable[-1].run
        },
        notes=(*chosen.notes, *notes, *_notes(here, clean, comparable, chosen.name)),
    )


def _choose(store: Store, origins: Sequence[Origin], here: Origin, against: str | None) -> _Chosen:
    others = [each for each in origins if each.run != here.run and each.kind is RunKind.RUN]
    branches = {each.branch for each in others if each.branch}
    if against is None:
        usual = next((each for each in USUAL_BRANCHES if each in branches), None)
        if usual is None:
            return _earlier(others, here)
        against = usual
    if against not in branches:
        return _one_run(store, others, branches, here, against)
    notes: tuple[str, ...] = ()
    with contextlib.suppress(UnknownRunError, InvalidArgumentError):
        notes = (f"{against} is also a name of run {store.id_of(against)}; the branch is used",)
    if against == here.branch:
        return _earlier(others, here)._replace(notes=notes)
    on_branch = [each for each in others if each.branch == against]
    other_commits = [each for each in on_branch if not each.commit or each.commit != here.commit]
    if on_branch and not other_commits:
        notes += (f"all runs on branch {against} measured the same commit as this run",)
    return _Chosen(other_commits, f"branch {against}", notes)


def _earlier(others: Sequence[Origin], here: Origin) -> _Chosen:
    """The runs before this one on its branch: what came later must not hide a change."""
    earlier = [each for each in others if each.branch == here.branch and each.place < here.place]
    return _Chosen(earlier, f"earlier runs{f' on branch {here.branch}' if here.branch else ''}")


def _one_run(
    store: Store, others: Sequence[Origin], branches: set[str], here: Origin, name: str
) -> _Chosen:
    try:
        run_id = store.id_of(name)
    except UnknownRunError as error:
        known = f" (there are {', '.join(sorted(branches))})" if branches else ""
        raise InvalidArgumentError(
            f"{name!r} is neither a branch with runs{known}, nor a tag, nor the id of a run"
        ) from error
    if run_id == here.run:
        raise InvalidArgumentError(f"{name} is run {run_id} itself; name another baseline")
    found = [each for each in others if each.run == run_id]
    if not found:
        raise InvalidArgumentError(
            f"run {run_id} cannot be a baseline; name a run of `torchmark run`"
        )
    return _Chosen(found, f"run {run_id}")


def _without_dirty(origins: list[Origin]) -> tuple[list[Origin], list[str]]:
    """Leave out runs with uncommitted changes, whose code nobody else has, if there are others."""
    clean = [each for each in origins if not each.is_dirty]
    count = len(origins) - len(clean)
    if not count:
        return clean, []
    runs = f"{number_text(count, 'run')} of the baseline"
    if not clean:
        return origins, ["the baseline has only runs with uncommitted changes"]
    return clean, [f"{runs} with uncommitted changes {'is' if count == 1 else 'are'} left out"]


def _notes(
    here: Origin, chosen: Sequence[Origin], comparable: Sequence[Origin], name: str
) -> list[str]:
    if not chosen:
        return [f"there is no baseline yet: no {name}"]
    if not comparable:
        others = "; ".join(sorted({each.machine for each in chosen}))
        why = f"the baseline was measured on other machines ({others}) than this run"
        return [f"{why} ({here.machine}), so nothing is compared"]
    newest = comparable[-1]
    notes = []
    days = _days_between(newest.started, here.started)
    if days > _OLD_DAYS:
        notes.append(
            f"the baseline is out of date: its newest run, {newest.run}, was {days} days earlier"
        )
    differing = [
        f"{what} {newest.environment.fact(*path)} → {here.environment.fact(*path)}"
        for what, path in _TOOLS.items()
        if newest.environment.fact(*path) != here.environment.fact(*path)
    ]
    if differing:
        notes.append(f"the baseline was measured with other tools: {', '.join(differing)}")
    return notes


def _days_between(before: str, after: str) -> int:
    """Whole days between two times in UTC; the store gives no runs with damaged times."""
    first, second = (
        datetime.fromisoformat(comparable_time(each)).replace(tzinfo=None)
        for each in (before, after)
    )
    return (second - first).days

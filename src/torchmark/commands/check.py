"""`torchmark check`: judge a run against the history, and measure again what is near its limit."""

from __future__ import annotations

import os
import platform
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from torchmark.analyse.ab import judge, pairs_of
from torchmark.analyse.gate import (
    DEFAULT_LIMIT,
    Gate,
    GateRow,
    Limit,
    LimitRule,
    Outcome,
    agree,
    judge_count_row,
    judge_point,
    judge_time_row,
)
from torchmark.analyse.history import History, history_of
from torchmark.commands.ab import ab
from torchmark.commands.run import run as measure_run
from torchmark.commands.spine import Listener, Place, use_store
from torchmark.define.selection import selected
from torchmark.errors import InvalidArgumentError, UnknownRunError
from torchmark.model.case import Case
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Run, RunKind
from torchmark.model.series import Origin, Quantity, Series, choose_origins, comparable_time
from torchmark.store import Store

NEWEST = 60
"""Runs of the baseline that are read: enough for the last segment, and for its noise."""

USUAL_BRANCHES = ("main", "master")

REPEATS = 3
"""Fresh processes of a case that is measured again without the baseline's environment."""

_OLD_DAYS = 14
"""A baseline whose newest run is older than this is out of date."""

_QUANTITIES = {Metric.TIME: Quantity.TIME, Metric.INSTRUCTIONS: Quantity.INSTRUCTIONS}


def check(
    run: str = "latest",
    *,
    against: str | None = None,
    limits: Sequence[LimitRule] = (),
    pattern: str = "",
    again: bool = True,
    A: str | None = None,  # noqa: N803 - as the environments are called
    store: Place = None,
    progress: Listener | None = None,
) -> Gate:
    """Judge the results of a run, and return what the gate says of each case.

    `against` is a branch, a run or a tag. By default it is the branch main or master, or the
    earlier runs if the run itself is on that branch. Only runs on machines of the same class count.
    `limits` are applied in order. Times that are near their limit or beyond it are measured `again`
    before they are reported: paired with the environment of the baseline (`A` is the shell command
    that activates it; by default, the interpreter of the baseline if it differs from this one), or
    alone if that cannot be started.

    A run of `torchmark ab` is judged by its own comparison.
    """
    with use_store(store) as kept:
        found = kept.run(run)
        if found.kind is RunKind.AB:
            return check_comparison(found, limits, pattern)
        if found.kind is not RunKind.RUN:
            raise InvalidArgumentError(
                f"{found.id} is a run of `torchmark {found.kind.value}`; only runs of `torchmark "
                "run` and `torchmark ab` can be checked"
            )
        baseline = _find_baseline(kept, found, against)
        gate = _judge_by_history(kept, found, baseline, limits, pattern)
        doubtful = [row for row in gate.rows if _is_doubtful(row)]
        if again and doubtful:
            gate = _measure_again(kept, gate, doubtful, baseline, limits, A, progress)
        return gate


def check_comparison(run: Run, limits: Sequence[LimitRule] = (), pattern: str = "") -> Gate:
    """Apply the limits to the verdicts of a run of `torchmark ab`."""
    rows: list[GateRow] = []
    for pair in pairs_of(run):
        judged = judge(run, pair)
        chosen = {each.id for each in selected(_cases_of(run), pattern)}
        limit = _limit_of(_cases_of(run), limits)
        rows += [
            judge_time_row(row, limit(row.case, Quantity.TIME))
            for row in judged.times
            if row.case.id in chosen
        ]
        rows += [
            judge_count_row(row, limit(row.case, Quantity.INSTRUCTIONS))
            for row in judged.counts
            if row.case.id in chosen
        ]
        rows += [_gap(each) for each in judged.results if each.case.id in chosen and _is_gap(each)]
    first = run.environment.name or "A"
    return Gate(run=run, against=f"environment {first} of the same run", rows=tuple(rows))


def limits_of(
    cases: Iterable[Case], rules: Sequence[LimitRule]
) -> Mapping[tuple[str, Quantity], Limit]:
    """The limits of each case; a later rule replaces an earlier one."""
    every = list(cases)
    found = {(case.id, quantity): DEFAULT_LIMIT for case in every for quantity in Quantity}
    for rule in rules:
        for case in selected(every, rule.pattern):
            for quantity in Quantity if rule.quantity is None else [rule.quantity]:
                soft, hard = found[case.id, quantity]
                hard = hard if rule.hard is None else rule.hard
                soft = soft if rule.soft is None else rule.soft
                found[case.id, quantity] = Limit(min(soft, hard), hard)
    return found


def _limit_of(
    cases: Iterable[Case], rules: Sequence[LimitRule]
) -> Callable[[Case, Quantity], Limit]:
    known = limits_of(cases, rules)
    return lambda case, quantity: known.get((case.id, quantity), DEFAULT_LIMIT)


def _cases_of(run: Run) -> list[Case]:
    found = {each.case.id: each.case for each in (*run.plan, *run.results)}
    return list(found.values())


class _Baseline(NamedTuple):
    """The runs that a run is compared with."""

    name: str
    here: Origin
    """The run that is judged."""

    comparable: Sequence[Origin]
    """The newest runs of the baseline on machines of the same class."""

    histories: Mapping[tuple[str, Quantity], History]
    notes: tuple[str, ...]


def _find_baseline(store: Store, run: Run, against: str | None) -> _Baseline:
    origins = store.origins()
    here = next((each for each in origins if each.run == run.id), None)
    if here is None:
        raise InvalidArgumentError(f"run {run.id} cannot be checked: its environment is not known")
    chosen, name = _choose_baseline(store, origins, here, against)
    comparable = choose_origins(chosen, machine=here.machine, newest=NEWEST)
    present = {case_id for case_id, _ in _points_of(store, here)}
    series = store.series(origins=comparable)
    return _Baseline(
        name=name,
        here=here,
        comparable=comparable,
        histories={
            (each.case_id, each.quantity): history_of(each)
            for each in series
            if each.case_id in present or each.points[-1].origin.run == comparable[-1].run
        },
        notes=tuple(_notes(here, chosen, comparable, name)),
    )


def _points_of(store: Store, origin: Origin) -> dict[tuple[str, Quantity], Series]:
    found = store.series(origins=[origin])
    return {(each.case_id, each.quantity): each for each in found}


def _judge_by_history(
    store: Store, run: Run, baseline: _Baseline, limits: Sequence[LimitRule], pattern: str
) -> Gate:
    own = _points_of(store, baseline.here)
    cases = selected(_cases_of(run), pattern)
    wanted = {case.id for case in cases}
    chosen = {key: each for key, each in own.items() if key[0] in wanted}
    rows = _judge_series(chosen, baseline, _limit_of(cases, limits), cases=len(chosen))
    rows += [_gap(each) for each in run.results if each.case.id in wanted and _is_gap(each)]
    rows += _missing(baseline, {row.key for row in rows}, pattern)
    return Gate(run=run, against=baseline.name, rows=tuple(rows), notes=baseline.notes)


def _judge_series(
    own: Mapping[tuple[str, Quantity], Series],
    baseline: _Baseline,
    limit: Callable[[Case, Quantity], Limit],
    *,
    cases: int,
) -> list[GateRow]:
    return [
        judge_point(
            each.case,
            each.quantity,
            each.points[-1],
            baseline.histories.get(key),
            limit(each.case, each.quantity),
            cases=cases,
        )
        for key, each in own.items()
    ]


def _choose_baseline(
    store: Store, origins: Sequence[Origin], here: Origin, against: str | None
) -> tuple[list[Origin], str]:
    """The runs of the baseline, and what it is called."""
    others = [each for each in origins if each.run != here.run and each.kind is RunKind.RUN]
    branches = {each.branch for each in others if each.branch}
    if against is None:
        usual = next((each for each in USUAL_BRANCHES if each in branches), None)
        if usual is None or here.branch == usual:
            branch = here.branch
            earlier = [each for each in others if each.branch == branch and each.place < here.place]
            where = f" on branch {branch}" if branch else ""
            return earlier, f"earlier runs{where}"
        against = usual
    if against not in branches:
        try:
            run_id = store.id_of(against)
        except UnknownRunError as error:
            known = f" (there are {', '.join(sorted(branches))})" if branches else ""
            raise InvalidArgumentError(
                f"{against!r} is neither a branch with runs{known}, nor a tag, nor the id of a run"
            ) from error
        if run_id == here.run:
            raise InvalidArgumentError(f"{against} is run {run_id} itself; name another baseline")
        return [each for each in others if each.run == run_id], f"run {run_id}"
    on_branch = [each for each in others if each.branch == against and each.commit != here.commit]
    return on_branch, f"branch {against}"


def _is_gap(result: Result) -> bool:
    return result.metric in _QUANTITIES and result.status in (Status.FAILED, Status.PARTIAL)


def _gap(result: Result) -> GateRow:
    return GateRow(
        case=result.case,
        quantity=_QUANTITIES[result.metric],
        outcome=Outcome.BROKEN,
        reason=result.reason or "it was cut short",
    )


def _missing(baseline: _Baseline, there: set[tuple[str, Quantity]], pattern: str) -> list[GateRow]:
    """What the newest run of the baseline has, and this one does not."""
    gone = [
        history.series
        for key, history in baseline.histories.items()
        if key not in there and history.latest.origin.run == baseline.comparable[-1].run
    ]
    wanted = {case.id for case in selected([each.case for each in gone], pattern)}
    return [
        GateRow(case=each.case, quantity=each.quantity, outcome=Outcome.MISSING)
        for each in gone
        if each.case_id in wanted
    ]


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


_TOOLS = {"torchmark": ("torchmark",), "torch": ("torch", "version"), "Python": ("python",)}


def _days_between(before: str, after: str) -> int:
    first, second = (datetime.fromisoformat(comparable_time(each)) for each in (before, after))
    return (second - first).days


def _is_doubtful(row: GateRow) -> bool:
    """Whether a time is to be measured again before anybody is alarmed."""
    return row.quantity is Quantity.TIME and row.outcome in (
        Outcome.NEAR,
        Outcome.WARN,
        Outcome.FAIL,
        Outcome.BETTER,
    )


def _measure_again(
    store: Store,
    gate: Gate,
    doubtful: Sequence[GateRow],
    baseline: _Baseline,
    limits: Sequence[LimitRule],
    command: str | None,
    progress: Listener | None,
) -> Gate:
    """The gate with its doubtful times measured again, paired with the baseline if possible."""
    if why_not := _why_not_here(gate.run):
        return replace(gate, notes=(*gate.notes, f"nothing was measured again: {why_not}"))
    common: dict[str, Any] = {
        "suites": gate.run.settings.get("suites") or ("standard",),
        "pattern": " or ".join(row.case.id for row in doubtful),
        "metrics": [Metric.TIME],
        "imports": gate.run.imports,
        "store": store,
        "progress": progress,
    }
    command = command or _command_for(doubtful)
    if command is not None:
        again = ab(A=command, **common)
        found = {row.key: row for row in check_comparison(again, limits).rows}
        rows = [found.get(row.key, row) for row in gate.rows]
    else:
        again = measure_run(repeats=REPEATS, **common)
        origin = next(each for each in store.origins() if each.run == again.id)
        limit = _limit_of([row.case for row in doubtful], limits)
        own = _points_of(store, origin)
        seconds = _judge_series(own, baseline, limit, cases=len(gate.rows))
        found = {row.key: row for row in seconds}
        rows = [agree(row, found[row.key]) if row.key in found else row for row in gate.rows]
    return replace(gate, rows=tuple(rows), again=again.id)


def _why_not_here(run: Run) -> str:
    """Why the cases of the run cannot be measured here; empty if they can."""
    host, executable = run.environment.fact("machine", "host"), run.environment.fact("executable")
    if host and host != platform.node():
        return f"the run was made on {host}, and this is {platform.node()}"
    if executable and executable != sys.executable:
        return f"the run used another interpreter, {executable}"
    return ""


def _command_for(rows: Sequence[GateRow]) -> str | None:
    """Shell command that activates the interpreter of the baseline, if it is another one.

    A store may come from others, so only an interpreter on this machine that nobody but this user
    or root can have put there is started.
    """
    for row in rows:
        facts = row.baseline and row.baseline.last.environment
        executable = facts and facts.fact("executable")
        if not isinstance(executable, str) or executable == sys.executable:
            continue
        if facts and facts.fact("machine", "host") == platform.node() and _is_ours(executable):
            return f"export PATH={shlex.quote(str(Path(executable).parent))}:$PATH"
    return None


def _is_ours(executable: str) -> bool:
    path = Path(executable)
    if not path.is_absolute() or not os.access(path, os.X_OK):
        return False
    owners = {path.lstat().st_uid, path.stat().st_uid, path.parent.stat().st_uid}
    is_private = not path.parent.stat().st_mode & stat.S_IWOTH
    return owners <= {0, os.getuid()} and is_private

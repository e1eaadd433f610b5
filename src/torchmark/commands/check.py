"""`torchmark check`: judge a run against the history, and measure again what is near its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

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
from torchmark.commands.check_again import (
    Again,
    command_for,
    environment_of,
    measure_alone,
    measure_paired,
    why_not_here,
)
from torchmark.commands.check_baseline import Baseline, find_baseline
from torchmark.commands.spine import Listener, Place, use_store
from torchmark.define.selection import selected
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import Run, RunKind
from torchmark.model.series import Origin, Quantity, Series, repeated_run
from torchmark.model.units import first_line
from torchmark.report.figures import number_text
from torchmark.store import Store

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
    first: Callable[[Gate], None] = lambda _gate: None,
) -> Gate:
    """Judge the results of a run, and return what the gate says of each case.

    `against` is a branch, a run or a tag. By default it is the branch main or master, or the
    earlier runs if the run itself is on that branch. Only runs on machines of the same class count.
    `limits` are applied in order. Times that are near their limit or beyond it are measured `again`
    before they are reported: paired with the environment of the baseline (`A` is the shell command
    that activates it), or alone if there is none. `first` is called with what the gate says of the
    stored results, before anything is measured.

    A run of `torchmark ab` is judged by its own comparison.
    """
    with use_store(store) as kept:
        found = _find_run(kept, run)
        if found.kind is RunKind.AB:
            return check_comparison(found, limits, pattern)
        baseline = find_baseline(kept, found, against)
        gate = _judge_by_history(kept, found, baseline, limits, pattern)
        first(gate)
        doubtful = [row for row in gate.rows if _is_doubtful(row)]
        if again and doubtful:
            gate = _measure_again(kept, gate, doubtful, baseline, limits, A, progress)
        return gate


def _find_run(store: Store, name: str) -> Run:
    """The run to judge. The latest is not one in which `check` measured times again."""
    found = store.run(name)
    if name == "latest" and (judged := repeated_run(found.environment)):
        found = store.run(judged)
    if found.kind not in (RunKind.RUN, RunKind.AB):
        raise InvalidArgumentError(
            f"{found.id} is a run of `torchmark {found.kind.value}`; only runs of `torchmark run` "
            "and `torchmark ab` can be checked"
        )
    return found


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


def _judge_by_history(
    store: Store, run: Run, baseline: Baseline, limits: Sequence[LimitRule], pattern: str
) -> Gate:
    own = _series_of(store, baseline.here)
    cases = selected(_cases_of(run), pattern)
    wanted = {case.id for case in cases}
    chosen = {key: each for key, each in own.items() if key[0] in wanted}
    rows = _judge_series(chosen, baseline, _limit_of(cases, limits), times=_count_times(chosen))
    rows += [_gap(each) for each in run.results if each.case.id in wanted and _is_gap(each)]
    rows += [_unmeasured(each, run) for each in _never_measured(run) if each.case.id in wanted]
    rows += _missing(baseline, {row.key for row in rows}, pattern)
    return Gate(run=run, against=baseline.name, rows=tuple(rows), notes=baseline.notes)


def _series_of(store: Store, origin: Origin) -> dict[tuple[str, Quantity], Series]:
    found = store.series(origins=[origin])
    return {(each.case_id, each.quantity): each for each in found}


def _judge_series(
    own: Mapping[tuple[str, Quantity], Series],
    baseline: Baseline,
    limit: Callable[[Case, Quantity], Limit],
    *,
    times: int,
) -> list[GateRow]:
    return [
        judge_point(
            each.case,
            each.quantity,
            each.points[-1],
            baseline.histories.get(key),
            limit(each.case, each.quantity),
            cases=times,
        )
        for key, each in own.items()
    ]


def _count_times(keys: Iterable[tuple[str, Quantity]]) -> int:
    """Counts and sizes repeat, so only times share the false alarms."""
    return sum(quantity is Quantity.TIME for _, quantity in keys)


def _is_gap(result: Result) -> bool:
    return result.metric in _QUANTITIES and result.status in (Status.FAILED, Status.PARTIAL)


def _gap(result: Result) -> GateRow:
    return GateRow(
        case=result.case,
        quantity=_QUANTITIES[result.metric],
        outcome=Outcome.BROKEN,
        reason=result.reason or "it was cut short",
    )


def _never_measured(run: Run) -> list[PlannedResult]:
    there = {each.key for each in run.results}
    return [each for each in run.plan if each.key not in there and each.metric in _QUANTITIES]


def _unmeasured(planned: PlannedResult, run: Run) -> GateRow:
    """What a run that was interrupted or killed did not come to."""
    return GateRow(
        case=planned.case,
        quantity=_QUANTITIES[planned.metric],
        outcome=Outcome.BROKEN,
        reason=f"not measured, because the run is {run.state.value}",
    )


def _missing(baseline: Baseline, there: set[tuple[str, Quantity]], pattern: str) -> list[GateRow]:
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
    baseline: Baseline,
    limits: Sequence[LimitRule],
    command: str | None,
    progress: Listener | None,
) -> Gate:
    """The gate with its doubtful times measured again, paired with the baseline if possible."""
    if why_not := why_not_here(gate.run):
        return _add_notes(gate, f"nothing was measured again: {why_not}")
    again: Again = gate.run, [row.case for row in doubtful]
    hard = [row.limit.hard for row in doubtful]
    if command is not None:
        paired = measure_paired(store, again, command, progress, limits=hard)
        return _with_paired(gate, check_comparison(paired, limits))
    environment = environment_of(doubtful, gate.run)
    if environment is not None:
        try:
            command = command_for(environment)
            paired = measure_paired(
                store, again, command, progress, limits=hard, expected=environment
            )
            return _with_paired(gate, check_comparison(paired, limits))
        except TorchmarkError as error:
            why = f"the baseline's environment cannot be used: {first_line(str(error))}"
            gate = _add_notes(gate, why)
    alone = measure_alone(store, again, progress)
    own = _series_of(store, _origin_of(alone))
    limit = _limit_of([row.case for row in doubtful], limits)
    times = sum(row.quantity is Quantity.TIME for row in gate.rows)
    return _with_alone(gate, alone, _judge_series(own, baseline, limit, times=times))


def _origin_of(run: Run) -> Origin:
    """The origin of a run that is no part of a history."""
    return Origin(
        run=run.id, started=run.started, kind=run.kind, suite="", environment=run.environment
    )


def _with_paired(gate: Gate, comparison: Gate) -> Gate:
    """A comparison replaces what the history says, where it has a verdict."""
    found = {row.key: row for row in comparison.rows if row.ratio is not None}
    rows = [found.get(row.key, row) for row in gate.rows]
    return _again(gate, comparison.run, rows, found)


def _with_alone(gate: Gate, run: Run, seconds: Sequence[GateRow]) -> Gate:
    found = {row.key: row for row in seconds if row.ratio is not None}
    rows = [agree(row, found[row.key]) if row.key in found else row for row in gate.rows]
    gate = _again(gate, run, rows, found)
    unclear = sum(row.outcome is Outcome.NEAR for row in gate.rows)
    if not unclear:
        return gate
    return _add_notes(
        gate,
        f"{number_text(unclear, 'time')} cannot be judged from a history with so much noise; with "
        "--A, the shell command that activates the environment of the baseline, they are measured "
        "in pairs",
    )


def _again(
    gate: Gate, run: Run, rows: Sequence[GateRow], found: Mapping[tuple[str, Quantity], GateRow]
) -> Gate:
    """The gate with these rows, and a note if cases could not be measured again."""
    gate = replace(gate, rows=tuple(rows), again=run.id)
    failed = [each for each in run.plan if (each.case.id, Quantity.TIME) not in found]
    if not failed:
        return gate
    reasons = {each.key: first_line(each.reason) for each in run.results if each.reason}
    reason = next((reasons[each.key] for each in failed if each.key in reasons), "too few samples")
    return _add_notes(
        gate, f"{number_text(len(failed), 'case')} could not be measured again: {reason}"
    )


def _add_notes(gate: Gate, *notes: str) -> Gate:
    return replace(gate, notes=(*gate.notes, *notes))

"""`torchmark ab`: compare environments or statements, and give every case a verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, overload

import msgspec

from torchmark.analyse.ab import Pair
from torchmark.analyse.pairs import ALLOWANCE
from torchmark.arguments import check_member, check_modules, check_positive
from torchmark.commands.functions import BUDGET, FunctionsCompared, compare_functions
from torchmark.commands.planning import folders_of, load_suites, plan_statements, plan_suites
from torchmark.commands.spine import (
    Listener,
    Place,
    begin_run,
    carry_out_on_cores,
    effort_of,
    find_run,
    use_store,
)
from torchmark.define.suites.loading import LoadedSuite
from torchmark.engine.backport import patch as put_timer_into
from torchmark.engine.backport import unpatch as remove_timer_from
from torchmark.engine.cores import Division, begin
from torchmark.engine.paired.comparing import Comparison
from torchmark.engine.paired.counting import remarks_of
from torchmark.engine.under_test import WORKS, UnderTest, open_environments, remarks_on
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.model.case import Language
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import (
    FEWEST_REPLICATES,
    TIME_LIMIT,
    Effort,
    Environment,
    Note,
    Progress,
    Run,
    RunKind,
    Stage,
)
from torchmark.model.units import ordered_unique
from torchmark.report.figures import duration_text, number_text
from torchmark.store import Store

Measure: TypeAlias = Callable[
    [Sequence[UnderTest], Run, Division], Generator["Progress | Run", None, object]
]
"""Measures the missing results of a run in these environments, on these cores."""

DETECT_BUDGET = 120.0
"""Seconds per case at most, if the size of the change to detect is given."""

COUNT_AND_TIME = (Metric.INSTRUCTIONS, Metric.TIME)

_LAUNCH_SECONDS = 5.0
_CROSSOVER_SECONDS = 0.5
"""About how long a launch of two environments and a crossover take; for the estimate only."""

_SAME_FILES = {"Python from": ("executable",), "torch from": ("torch_file",)}
"""Facts that must also be the same when an `ab` run is resumed: in another directory, a relative
path in a command means another environment."""

_REMEDY = "resume it in the directory where it began, or start a new run"


@overload
def ab(
    a: Callable[[], object],
    b: Callable[[], object],
    *,
    budget: float = BUDGET,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
) -> FunctionsCompared: ...


@overload
def ab(
    *,
    A: str | None = None,  # noqa: N803 - as the environments are called
    B: str | None = None,  # noqa: N803
    environments: Mapping[str, str] | None = None,
    suites: Sequence[str] = (),
    pattern: str = "",
    cpp: bool = True,
    statements: Sequence[str] = (),
    setup: str = "pass",
    a_stmt: str | None = None,
    b_stmt: str | None = None,
    metrics: Sequence[Metric | str] | None = None,
    budget: float | None = None,
    detect: float | None = None,
    timeout: float = TIME_LIMIT,
    effort: Effort | None = None,
    backtest: bool = False,
    patch: Collection[str] = (),
    imports: Sequence[str] = (),
    path: Sequence[str] | None = None,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run: ...


def ab(
    a: Callable[[], object] | None = None, b: Callable[[], object] | None = None, **options: Any
) -> FunctionsCompared | Run:
    """Compare two functions, or the cases of suites or statements in two or more environments.

    *Functions* take no arguments and run in forks of this process. Each is called once here first,
    so that its exceptions are raised here. In the forks, torch has one thread. All forks have the
    memory layout of this process, so the layout is part of the result. A comparison of environments
    launches fresh processes and does not have this limit.

    *Environments* are given by the shell commands that activate them: `A` and `B`, or any number
    by name in `environments`. Each is compared with the first. If `A` or `B` is left out, it is the
    environment of this process. The cases are those of `suites` (only those that match `pattern`;
    without C++ if `cpp` is false), or `statements` that run in both environments, or `a_stmt` in A
    and `b_stmt` in B.

    Each case may take `budget` seconds (default: 10); clear cases leave their time to unclear ones.
    With `detect`, it is timed until a change of that size would be found (0.005 is 0.5 %), for at
    most `budget` seconds (default: 120). A case that takes more than `timeout` seconds in one
    process fails. `backtest` skips cases that are known not to work on old versions of torch.
    `patch` names environments whose torch gets a backport of Timer, as `torch.utils_backport`.
    `imports` names modules that every process of the environments imports before it builds a case,
    for example a module that defines operators. Cases find modules in the folders of `path`
    (default: the current folder and those of the suites), then in the environment's PYTHONPATH,
    then where its interpreter looks.

    Every result is in the store as soon as it exists. The `Run` with all results is returned.
    `resume` names a run that was interrupted: its environments are activated again, and the missing
    results are measured.

    >>> import torch
    >>> x = torch.ones(300, 300)
    >>> print(ab(lambda: x + x, lambda: x @ x).verdict.value)
    slower
    """
    if a is None and b is None:
        return _compare_environments(**options)
    return compare_functions(a, b, **options)  # type: ignore[arg-type]  # it refuses None


def _compare_environments(
    *,
    A: str | None = None,  # noqa: N803 - as the environments are called
    B: str | None = None,  # noqa: N803
    environments: Mapping[str, str] | None = None,
    suites: Sequence[str] = (),
    pattern: str = "",
    cpp: bool = True,
    statements: Sequence[str] = (),
    setup: str = "pass",
    a_stmt: str | None = None,
    b_stmt: str | None = None,
    metrics: Sequence[Metric | str] | None = None,
    budget: float | None = None,
    detect: float | None = None,
    timeout: float = TIME_LIMIT,
    effort: Effort | None = None,
    backtest: bool = False,
    patch: Collection[str] = (),
    imports: Sequence[str] = (),
    path: Sequence[str] | None = None,
    store: Place = None,
    tags: Iterable[str] = (),
    resume: str | None = None,
    progress: Listener | None = None,
) -> Run:
    if resume is not None:
        return resume_comparison(RunKind.AB, resume, store, progress, measure_pairs)
    pairs = _pair_statements(statements, a_stmt, b_stmt)
    if pairs and suites:
        raise InvalidArgumentError("give either suites or statements, not both")
    effort = effort or _effort(budget, detect, timeout)
    commands = name_commands(A, B, environments or {}, one_is_enough=a_stmt is not None)
    names = [] if pairs else ordered_unique(suites or ("standard",))
    loaded = _load_all(names)
    # By default, modules in the current folder and next to the suites.
    path = ["", *folders_of(names)] if path is None else [*path]
    modules = check_modules(imports)
    with use_store(store) as kept, activate(commands, path, imports=modules) as sides:
        said = _patch(sides, patch)
        described = describe(sides, progress)
        wanted, why_not = _choose_metrics(metrics, described)
        first, *others = sides
        plan: list[PlannedResult] = []
        for other in others:
            if pairs:
                plan += plan_statements((first.name, other.name), pairs, setup, wanted)
            else:
                plan += plan_suites(
                    first, other, loaded, wanted, pattern=pattern, cpp=cpp, backtest=backtest
                )
        if not plan:
            raise InvalidArgumentError(
                "no case is left to compare; check the suites and the pattern of -k (`torchmark "
                "list` shows the cases of suites)"
            )
        if progress is not None:
            progress(Stage(text=_announce(plan, effort, kept)))
        run = begin_run(
            kept,
            RunKind.AB,
            plan,
            environments=described,
            settings={
                "suites": names,
                "pattern": pattern,
                "backtest": backtest,
                "path": path,
                "imports": modules or None,
            },
            effort=effort,
            notes=[
                *(note for suite in loaded for note in suite.notes),
                *said,
                *why_not,
                *note_environments(sides, statements_differ=a_stmt is not None),
            ],
            tags=tags,
        )
        return carry_out_on_cores(run, kept, partial(measure_pairs, sides), progress)


def _announce(plan: Sequence[PlannedResult], effort: Effort, store: Store) -> str:
    """Say how long a comparison may take and where its results go, before it starts."""
    timed = sum(each.metric is Metric.TIME for each in plan)
    parts = []
    if timed < len(plan):
        parts.append(number_text(len(plan) - timed, "instruction count"))
    if timed and effort.detect is not None:
        parts.append(f"{number_text(timed, 'time')} (a pilot will estimate how long they take)")
    elif timed:
        each = max(effort.budget, FEWEST_REPLICATES * _CROSSOVER_SECONDS)
        longest = duration_text(timed * each + FEWEST_REPLICATES * _LAUNCH_SECONDS)
        parts.append(f"{number_text(timed, 'time')} (up to about {longest})")
    has_cpp = any(each.case.language is Language.CPP for each in plan)
    before = ", after compiling C++" if has_cpp else ""
    return f"comparing {' and '.join(parts)}{before}; results go to {store.where}"


def _effort(budget: float | None, detect: float | None, timeout: float) -> Effort:
    """The budget and the time limit of every case, and the size of the change to detect."""
    limit = check_positive("timeout", timeout)
    if detect is None:
        seconds = BUDGET if budget is None else check_positive("budget", budget)
        return Effort(budget=seconds, timeout=limit)
    least = ALLOWANCE
    if check_positive("detect", detect) <= least:
        raise InvalidArgumentError(
            f"detect must be above {least * 100:g} %, not {detect * 100:g} %: two environments can "
            "differ by that much although their code is the same"
        )
    seconds = DETECT_BUDGET if budget is None else check_positive("budget", budget)
    return Effort(budget=seconds, detect=detect, timeout=limit)


def resume_comparison(
    kind: RunKind,
    name: str,
    store: Place,
    progress: Listener | None,
    measure: Measure,
    modules: Sequence[str] = (),
) -> Run:
    """Measure what is missing in a run that was interrupted, in the same environments."""
    with use_store(store) as kept:
        run = find_run(kept, name, kind)
        commands = {each.name: each.command for each in run.environments}
        with activate(commands, run.settings.get("path", ()), modules, run.imports) as sides:
            described = describe(sides, progress)
            run.check_same_environments(described)
            run.check_same_environments(described, _SAME_FILES, _REMEDY)
            return carry_out_on_cores(run, kept, partial(measure, sides), progress)


def remove_timers(
    A: str | None = None,  # noqa: N803 - as the environments are called
    B: str | None = None,  # noqa: N803
    environments: Mapping[str, str] | None = None,
) -> list[str]:
    """Remove the Timers that `patch` put into the environments; return a sentence for each."""
    with activate(name_commands(A, B, environments or {})) as sides:
        return [remove_timer_from(side.environment) for side in sides]


def name_commands(
    a: str | None, b: str | None, more: Mapping[str, str], *, one_is_enough: bool = False
) -> dict[str, str]:
    """The shell commands by the names of the environments. The first is the baseline.

    With `one_is_enough`, a missing B is the environment of A: two statements need only one.
    """
    commands: dict[str, str] = {}
    if a is not None or b is not None or not more:
        if a is None and b is None and not one_is_enough:
            raise InvalidArgumentError(
                "say what to compare: give A or B (the other one is then the current environment) "
                "or both, at least two named environments, or a statement for A and one for B"
            )
        second = b if b is not None else (a if one_is_enough else None)
        commands = {"A": a or "", "B": second or ""}
    names = [*commands, *more]
    if len(names) < 2 or len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"a comparison needs two environments with different names, not {', '.join(names)}"
        )
    return {**commands, **more}


@contextlib.contextmanager
def activate(
    commands: Mapping[str, str],
    path: Sequence[str] = (),
    modules: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> Generator[list[UnderTest], None, None]:
    """Open the environments that the shell commands activate; close them at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(contextlib.closing(side))
            for side in open_environments(commands, path, modules, imports)
        ]


def describe(sides: Sequence[UnderTest], progress: Listener | None) -> tuple[Environment, ...]:
    """Start all environments at once, and return their descriptions."""
    tell = progress or (lambda _news: None)
    text = f"starting {', '.join(side.name for side in sides)}"
    tell(Stage(text=text))
    checks = [begin(side.describe, "check") for side in sides]
    described = tuple(check.result() for check in checks)
    tell(Stage(text=text, is_over=True))
    return described


def note_environments(sides: Sequence[UnderTest], *, statements_differ: bool = False) -> list[str]:
    """Notes about the environments that the report shows before the results, without duplicates."""
    remarks = [
        remark
        for other in sides[1:]
        for remark in remarks_on(sides[0], other, statements_differ=statements_differ)
    ]
    return ordered_unique(remarks)


def measure_pairs(
    sides: Sequence[UnderTest], run: Run, division: Division
) -> Generator[Progress | Run, None, tuple[Run, list[Result]]]:
    """Compare each environment with the first, and yield the run when it gets a new note.

    Return the run and its new results. On Ctrl-C, the cases that are being measured give partial
    results.
    """
    first, *others = sides
    results: list[Result] = []
    for other in others:
        pair = (first.name, other.name)
        comparison = Comparison(
            [
                each
                for each in run.missing()
                if each.environments == pair and each.metric in COUNT_AND_TIME
            ],
            first,
            other,
            effort=effort_of(run),
            division=division,
            timed_before=_timed_in(run, pair),
        )
        try:
            with contextlib.closing(comparison.results()) as news:
                for each in news:
                    notes = remarks_of(comparison.sentries, first.describe(), other.describe())
                    notes += [each.text] if isinstance(each, Note) else []
                    new = [note for note in notes if note not in run.notes]
                    if new:
                        run = msgspec.structs.replace(run, notes=(*run.notes, *new))
                        yield run
                    if isinstance(each, Result):
                        results.append(each)
                    yield each
        except (KeyboardInterrupt, TorchmarkError):
            yield from comparison.partial_results()
            raise
    return run, results


def _timed_in(run: Run, pair: Pair) -> int:
    return sum(
        each.environments == pair and each.metric is Metric.TIME and each.status is Status.DONE
        for each in run.results
    )


def _pair_statements(
    statements: Sequence[str], a: str | None, b: str | None
) -> list[tuple[str, str | None]]:
    if (a is None) != (b is None):
        raise InvalidArgumentError("give a statement for both A and B, or for neither")
    pairs: list[tuple[str, str | None]] = [(stmt, None) for stmt in statements]
    return [*pairs, *([(a, b)] if a is not None else [])]


def _load_all(names: Sequence[str]) -> list[LoadedSuite]:
    """The suites. If a file of a suite cannot be loaded, its error is raised."""
    loaded = load_suites(names)
    for suite in loaded:
        for failure in suite.failures:
            raise failure
    return loaded


def _patch(sides: Sequence[UnderTest], names: Collection[str]) -> list[str]:
    """Add the Timer to the named environments. "A" and "B" mean the first two, by any name."""
    of_name = {**{side.name: side for side in sides}, **dict(zip("AB", sides, strict=False))}
    unknown = [name for name in names if name not in of_name]
    if unknown:
        raise InvalidArgumentError(
            f"there is no environment {unknown[0]} to patch; choose from {', '.join(of_name)}"
        )
    return [put_timer_into(of_name[name].environment) for name in names]


def _choose_metrics(
    wanted: Sequence[Metric | str] | None, environments: Sequence[Environment]
) -> tuple[Sequence[Metric], list[str]]:
    """The wanted metrics, or all that work here; with a note if counting does not."""
    if wanted is not None:
        return [check_member("metric", metric, Metric) for metric in wanted], []
    counting = environments[0].facts["counting"]
    if counting == WORKS:
        return COUNT_AND_TIME, []
    return (Metric.TIME,), [f"only times are measured: {counting}"]

"""From suites or statements to the plan of a run: what is measured, where, and what cannot be."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torchmark.define.selection import selected
from torchmark.define.skips import EnvironmentFacts, find_known_break
from torchmark.define.suites import standard
from torchmark.define.suites.loading import LoadedSuite, cases_of, load_suite
from torchmark.engine.under_test import UnderTest, Workers
from torchmark.engine.user_files import LOAD_SECONDS, read_suites
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case, Language
from torchmark.model.result import Metric, PlannedResult, ResultKey
from torchmark.model.units import ordered_unique
from torchmark.settings import Settings


def default_suites(settings: Settings) -> tuple[str, ...]:
    """Those of the settings, whose paths start from their file; otherwise the standard suite."""
    if settings.file is None or not settings.suites:
        return ("standard",)
    folder = settings.file.parent
    return tuple(
        str(folder / name) if (folder / name).exists() else name for name in settings.suites
    )


def installed_facts() -> EnvironmentFacts:
    """What can be said of torch here without importing it."""
    try:
        return EnvironmentFacts(torch=importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return EnvironmentFacts()


def load_suites(names: Iterable[str], *, time_limit: float = LOAD_SECONDS) -> list[LoadedSuite]:
    """Load suites by name, and let their cases import modules from the same folder.

    A file that takes longer than the limit to load has failed.
    """
    wanted = ordered_unique(names)
    let_cases_import(wanted)
    return [load_suite(name, partial(read_suites, time_limit=time_limit)) for name in wanted]


def let_cases_import(suites: Iterable[str]) -> None:
    """A setup may import a file beside its suite; children look where this process does."""
    sys.path += [folder for folder in folders_of(suites) if folder not in sys.path]


def folders_of(suites: Iterable[str]) -> list[str]:
    """Where the files of the suites lie, each folder once.

    A trace has no setups of its own: what lies beside it is not for them.
    """
    paths = [path for path in map(Path, suites) if path.is_dir() or path.suffix == ".py"]
    return ordered_unique(
        str((path if path.is_dir() else path.parent).resolve()) for path in paths if path.exists()
    )


def select_cases(
    suites: Sequence[LoadedSuite],
    workers: Workers,
    **choice: Any,
) -> tuple[Case, ...]:
    """The cases that were asked for, with the skips that hold in the workers' environment.

    `choice` are the options of `choose_cases`.
    """
    features = frozenset[str]().union(*(suite.features_asked() for suite in suites))
    facts = EnvironmentFacts(
        torch=str(workers.facts()["torch"]), features=workers.features(features)
    )
    return choose_cases(suites, facts, **choice)


def choose_cases(
    suites: Sequence[LoadedSuite],
    facts: EnvironmentFacts,
    *,
    pattern: str = "",
    cpp: bool = True,
    quick: bool = False,
    threads: int | None = None,
) -> tuple[Case, ...]:
    """The cases that were asked for, with the skips that these facts lead to.

    `pattern` is that of `-k`. `quick` takes the standard suite's quick subset in place of all of
    it. `threads` is for every case, in place of what the definitions say.
    """
    cases = cases_of(suites, facts=facts)
    if quick:
        of_standard = {case.id for case in cases_of(s for s in suites if s.name == "standard")}
        kept = {case.id for case in standard.quick(cases)}
        cases = tuple(case for case in cases if case.id in kept or case.id not in of_standard)
    if not cpp:
        cases = tuple(case for case in cases if case.language is not Language.CPP)
    if threads is not None:
        alike = (replace(case, num_threads=threads) for case in cases)
        cases = tuple({case.id: case for case in alike}.values())
    return selected(cases, pattern)


def plan_suites(
    a: UnderTest,
    b: UnderTest,
    suites: Sequence[LoadedSuite],
    metrics: Sequence[Metric],
    *,
    pattern: str = "",
    cpp: bool = True,
    backtest: bool = False,
) -> list[PlannedResult]:
    """Every case of the suites, with the reason where it cannot run in one of the two."""
    cases = [select_cases(suites, side.workers, pattern=pattern, cpp=cpp) for side in (a, b)]
    plan = []
    for in_a, in_b in zip(*cases, strict=True):
        reason = _reason_against(in_a, a, backtest) or _reason_against(in_b, b, backtest)
        case = replace(in_a, skip=reason)
        plan += [
            PlannedResult(case=case, metric=metric, environments=(a.name, b.name))
            for metric in metrics
        ]
    return plan


def _reason_against(case: Case, side: UnderTest, backtest: bool) -> str | None:
    """Why the case cannot run in the environment."""
    from torchmark.engine.under_test import WORKS  # noqa: PLC0415 - `list` needs no engine

    version, cpp = str(side.facts()["torch"]), side.describe().facts["cpp"]
    reason = case.skip
    if reason is None and backtest:
        reason = find_known_break(case, version)
    if reason is None and case.language is Language.CPP and cpp != WORKS:
        reason = cpp
    return f"in {side.name} (torch {version}): {reason}" if reason else None


def plan_statements(
    pair: tuple[str, str],
    statements: Iterable[tuple[str, str | None]],
    setup: str,
    metrics: Sequence[Metric],
) -> list[PlannedResult]:
    """Statements for both environments, or one for A and another for B; each once."""
    plan: dict[ResultKey, PlannedResult] = {}
    for stmt, other in statements:
        case = Case(label=(), stmt=stmt, setup=setup)
        in_b = replace(case, stmt=other) if other is not None else None
        for metric in metrics:
            planned = PlannedResult(case=case, metric=metric, environments=pair, other=in_b)
            if plan.setdefault(planned.key, planned) != planned:
                raise InvalidArgumentError(
                    f"{stmt!r} is compared with itself and with {other!r}; make two runs of it"
                )
    return list(plan.values())

"""Make the plan of a run from suites or statements: what is measured where, and what is skipped."""

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
    """Return the suites in the settings, or the standard suite.

    Paths in the settings are relative to the settings file.
    """
    if settings.file is None or not settings.suites:
        return ("standard",)
    folder = settings.file.parent
    return tuple(
        str(folder / name) if (folder / name).exists() else name for name in settings.suites
    )


def installed_facts() -> EnvironmentFacts:
    """Return the version of torch that is installed here, without importing torch."""
    try:
        return EnvironmentFacts(torch=importlib.metadata.version("torch"))
    except importlib.metadata.PackageNotFoundError:
        return EnvironmentFacts()


def load_suites(names: Iterable[str], *, time_limit: float = LOAD_SECONDS) -> list[LoadedSuite]:
    """Load suites by name, and let their cases import modules from the folders of the suites.

    A file that takes longer than `time_limit` to load counts as failed.
    """
    if isinstance(names, str):  # its letters would be taken for suites
        raise InvalidArgumentError(
            f"suites must be a list of names, got {names!r}; write [{names!r}]"
        )
    wanted = ordered_unique(names)
    let_cases_import(wanted)
    return [load_suite(name, partial(read_suites, time_limit=time_limit)) for name in wanted]


def let_cases_import(suites: Iterable[str]) -> None:
    """Let setups import files from the folder of their suite; child processes inherit the path."""
    sys.path += [folder for folder in folders_of(suites) if folder not in sys.path]


def folders_of(suites: Iterable[str]) -> list[str]:
    """Return the folders of the files of the suites, each once.

    A trace has no setups, so its folder is not among them.
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
    """Return the chosen cases, with the skips that apply in the environment of the workers.

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
    """Return the chosen cases, with the skips that follow from the facts.

    `pattern` is that of `-k`. `quick` keeps only the quick subset of the standard suite. `threads`
    replaces the number of threads of every case.
    """
    cases = cases_of(suites, facts=facts)
    if quick:
        of_standard = {case.id for case in cases_of(s for s in suites if s.name == "standard")}
        kept = {case.id for case in standard.quick(cases)}
        cases = tuple(case for case in cases if case.id in kept or case.id not in of_standard)
    if not cpp:
        cases = tuple(case for case in cases if case.language is not Language.CPP)
    if threads is not None:
        changed = (replace(case, num_threads=threads) for case in cases)
        cases = tuple({case.id: case for case in changed}.values())
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
    """Plan every case of the suites; skip it if it cannot run in one of the environments."""
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
    """Return why the case cannot run in the environment, or None if it can."""
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
    """Plan each statement once: for both environments, or one for A and another for B."""
    plan: dict[ResultKey, PlannedResult] = {}
    for stmt, other in statements:
        case = Case(label=(), stmt=stmt, setup=setup)
        in_b = replace(case, stmt=other) if other is not None else None
        for metric in metrics:
            planned = PlannedResult(case=case, metric=metric, environments=pair, other=in_b)
            if plan.setdefault(planned.key, planned) != planned:
                raise InvalidArgumentError(
                    f"{stmt!r} would be compared with itself and with {other!r}, but a run has "
                    "one result for each statement of A; use two runs"
                )
    return list(plan.values())

"""Which cases a command measures: suites by name, narrowed down by what was asked."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchmark.define.selection import selected
from torchmark.define.skips import EnvironmentFacts
from torchmark.define.suites import standard
from torchmark.define.suites.loading import LoadedSuite, cases_of, load_suite
from torchmark.model.case import Language

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchmark.engine.under_test import Workers
    from torchmark.model.case import Case
    from torchmark.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cases of the suites are measured."""

    pattern: str = ""
    """As of `-k`; all cases if empty."""

    cpp: bool = True
    """Whether C++ cases run."""

    quick: bool = False
    """Whether the standard suite's quick subset runs in place of all of it."""

    threads: int | None = None
    """The number of threads of every case, in place of what the definitions say."""


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


def load_suites(names: Iterable[str]) -> list[LoadedSuite]:
    """The suites by their names; what lies beside them can be imported by their cases."""
    wanted = list(dict.fromkeys(names))
    let_cases_import(wanted)
    return [load_suite(name) for name in wanted]


def let_cases_import(suites: Sequence[str]) -> None:
    """A setup may import a file beside its suite; children look where this process does.

    A trace has no setups of its own: what lies beside it is not for them.
    """
    for path in map(Path, suites):
        if path.is_dir() or (path.exists() and path.suffix == ".py"):
            entry = str((path if path.is_dir() else path.parent).resolve())
            if entry not in sys.path:
                sys.path.append(entry)


def select_cases(
    suites: Sequence[LoadedSuite], selection: Selection, workers: Workers
) -> tuple[Case, ...]:
    """The cases that were asked for, with the skips that hold in the workers' environment."""
    features = frozenset[str]().union(*(suite.features_asked() for suite in suites))
    facts = EnvironmentFacts(
        torch=str(workers.facts()["torch"]), features=workers.features(features)
    )
    cases = cases_of(suites, facts=facts)
    if selection.quick:
        of_standard = {case.id for case in cases_of(s for s in suites if s.name == "standard")}
        quick = {case.id for case in standard.quick(cases)}
        cases = tuple(case for case in cases if case.id in quick or case.id not in of_standard)
    if not selection.cpp:
        cases = tuple(case for case in cases if case.language is not Language.CPP)
    if selection.threads is not None:
        alike = (replace(case, num_threads=selection.threads) for case in cases)
        cases = tuple({case.id: case for case in alike}.values())
    return selected(cases, selection.pattern)

"""`torchmark ci`: is this pull request slower than the commit that it started from?

The baseline is the merge base: what the pull request would be without its own commits. If there is
a setup command, both commits are built, and the cases that the change can affect are compared in
alternating processes. Otherwise they are measured in this environment and judged against the
history of the base branch in the store.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torchmark.analyse.gate import Gate, LimitRule
from torchmark.commands.ab import ab
from torchmark.commands.check import check, check_comparison
from torchmark.commands.planning import folders_of, load_suites
from torchmark.commands.run import run as measure_run
from torchmark.commands.spine import Listener, Place, use_store
from torchmark.define.affected import Affected, find_affected
from torchmark.define.suites.loading import cases_of
from torchmark.engine.builds import Build, build_commit, find_build, source_folders
from torchmark.engine.repository import Commit, Repository, find_repository
from torchmark.engine.under_test import check_counting
from torchmark.errors import (
    InvalidArgumentError,
    MissingToolError,
    NoBaselineError,
    UnknownRunError,
)
from torchmark.model.result import Metric
from torchmark.model.run import RunKind
from torchmark.settings import AffectsSettings
from torchmark.store import Store

USUAL_BASES = ("origin/main", "origin/master", "main", "master")
"""The base if neither the user nor the CI names one."""

_REMOTE = "origin/"


class Base(NamedTuple):
    """What a pull request is to be merged into."""

    revision: str
    branch: str
    """The branch as runs in the store name it; empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CiPlan:
    """What will be compared, and why."""

    repository: Repository
    base: Base
    before: Commit
    """The merge base of the base and HEAD."""

    head: Commit
    suites: tuple[str, ...]
    pattern: str
    """The words of `-k`; empty if the changed files decide."""

    affected: Affected
    setup: str | None
    """The shell command that builds a commit; None if the history is the baseline."""

    notes: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether no case can be affected."""
        return self.affected.is_nothing and not self.pattern


@dataclass(frozen=True, slots=True, kw_only=True)
class CiReport:
    """The answer to a plan."""

    plan: CiPlan
    gate: Gate | None
    """What the gate says; None if no case can be affected."""


def plan_ci(
    directory: Path,
    variables: Mapping[str, str],
    *,
    base: str | None = None,
    setup: str | None = None,
    suites: Sequence[str] = ("standard",),
    pattern: str = "",
    affects: Sequence[AffectsSettings] = (),
) -> CiPlan:
    """Find the commits to compare, and the cases that their difference can affect.

    `variables` are the environment variables, in which CI services name the base.
    """
    repository = find_repository(directory)
    head = repository.commit("HEAD")
    chosen = find_base(repository, base, variables)
    before = repository.merge_base(repository.commit(chosen.revision), head)
    if before == head:
        raise InvalidArgumentError(
            f"HEAD ({head}) has no commits that {chosen.revision} lacks, so there is nothing to "
            "compare; check out the branch of the pull request, or name an older --base"
        )
    is_dirty = repository.is_dirty()
    # Without a setup command the working tree is measured, with what is not committed.
    changed = repository.changed_files(before, None if setup is None else head)
    inside = [place for name in suites if (place := _place_of(repository, name)) is not None]
    affected = _without_removed(find_affected(changed, inside, affects), repository)
    measured = "are not measured" if setup is not None else "are measured as well"
    return CiPlan(
        repository=repository,
        base=chosen,
        before=before,
        head=head,
        suites=tuple(suites),
        pattern=pattern,
        affected=affected,
        setup=setup,
        notes=(f"there are uncommitted changes; they {measured}",) if is_dirty else (),
    )


def find_base(repository: Repository, given: str | None, variables: Mapping[str, str]) -> Base:
    """Return the base: what the user names, else what the CI names, else the usual branches."""
    of_github = variables.get("GITHUB_BASE_REF")
    of_gitlab = variables.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "")
    commit = variables.get("CI_MERGE_REQUEST_DIFF_BASE_SHA")
    if given is not None:
        return Base(given, given.removeprefix(_REMOTE))
    if of_github:
        return Base(f"{_REMOTE}{of_github}", of_github)
    if commit or of_gitlab:
        return Base(commit or f"{_REMOTE}{of_gitlab}", of_gitlab)
    for name in USUAL_BASES:
        if repository.has(name):
            return Base(name, name.removeprefix(_REMOTE))
    raise InvalidArgumentError(
        f"the repository {repository.root} has none of the branches {', '.join(USUAL_BASES)}; name "
        "the one that the pull request is for: --base REV"
    )


def _place_of(repository: Repository, suite: str) -> str | None:
    """The path of a suite relative to the repository; None if it is not a file in it."""
    path = Path(suite).resolve()
    if not path.exists() or not path.is_relative_to(repository.root):
        return None
    return path.relative_to(repository.root).as_posix()


def _without_removed(affected: Affected, repository: Repository) -> Affected:
    """Without files of suites that the change removes: their cases cannot be measured."""
    there = tuple(file for file in affected.suites if (repository.root / file).exists())
    if there == affected.suites:
        return affected
    return replace(affected, suites=there, why=f"{affected.why}, and some of it was removed")


def describe_plan(plan: CiPlan) -> list[str]:
    """Say what is compared and why, in lines."""
    cases = f"those that match -k {plan.pattern!r}" if plan.pattern else plan.affected.why
    return [
        f"base: {plan.before}, the merge base of HEAD and {plan.base.revision}",
        f"head: {plan.head}",
        f"cases: {_name_cases(plan)} ({cases})",
    ]


def _name_cases(plan: CiPlan) -> str:
    if plan.pattern or plan.affected.is_everything:
        return ", ".join(plan.suites)
    words = [f'"{pattern}"' for pattern in plan.affected.patterns]
    return ", ".join([*plan.affected.suites, *words]) or "none"


def describe_steps(plan: CiPlan) -> list[str]:
    """Say what would be done, in lines, for `--dry-run`."""
    if plan.is_nothing:
        return ["nothing would be built or measured: no case can be affected"]
    if plan.setup is None:
        branch = plan.base.branch or "the base"
        return [
            "nothing would be built: there is no --setup",
            f"the cases would be measured here and judged against the history of {branch}",
        ]
    found = [
        (side, commit, find_build(plan.repository, commit, plan.setup))
        for side, commit in (("base", plan.before), ("head", plan.head))
    ]
    lines = [
        f"{side} {commit.short} is already built in {build.folder}"
        if build is not None
        else f"{side} {commit.short} would be built with: {plan.setup}"
        for side, commit, build in found
    ]
    return [*lines, "the cases would be compared in alternating processes of base and head"]


def ci(
    plan: CiPlan,
    *,
    activate: str | None = None,
    metrics: Sequence[Metric] | None = None,
    budget: float | None = None,
    limits: Sequence[LimitRule] = (),
    against: str | None = None,
    store: Place = None,
    progress: Listener | None = None,
) -> CiReport:
    """Carry out a plan, and return what the gate says.

    `activate` is the shell command that activates the environment of a build; see
    `Build.activation`. `metrics` are all that can be measured here, by default. Each case may take
    `budget` seconds. `limits` are applied in order. `against` is the baseline if the store has no
    run of the base branch; it is not used if commits are built.
    """
    if plan.is_nothing:
        return CiReport(plan=plan, gate=None)
    with use_store(store) as kept:
        if plan.setup is None:
            gate = _judge_by_history(plan, kept, metrics, budget, limits, against, progress)
        else:
            sides = (("base", plan.before), ("head", plan.head))
            base, head = (
                build_commit(plan.repository, commit, plan.setup, side=side, progress=progress)
                for side, commit in sides
            )
            gate = _compare(plan, base, head, activate, metrics, budget, limits, kept, progress)
    return CiReport(plan=plan, gate=gate)


def _compare(
    plan: CiPlan,
    base: Build,
    head: Build,
    activate: str | None,
    metrics: Sequence[Metric] | None,
    budget: float | None,
    limits: Sequence[LimitRule],
    store: Store,
    progress: Listener | None,
) -> Gate:
    """Compare the builds. The suites are those of the head, on both sides."""
    with _importing_from(source_folders(head.tree)):
        suites, pattern = _choose_cases(plan, head.tree)
        sources = {str(folder) for folder in source_folders(head.tree)}
        run = ab(
            environments={each.side: each.activation(activate) for each in (base, head)},
            suites=suites,
            pattern=pattern,
            metrics=metrics,
            budget=budget,
            # From these folders, the base too would import the packages of the head.
            path=[folder for folder in folders_of(suites) if folder not in sources],
            store=store,
            progress=progress,
        )
    return check_comparison(run, limits)


def _judge_by_history(
    plan: CiPlan,
    store: Store,
    metrics: Sequence[Metric] | None,
    budget: float | None,
    limits: Sequence[LimitRule],
    against: str | None,
    progress: Listener | None,
) -> Gate:
    baseline = _find_baseline(store, plan.base.branch, against)
    suites, pattern = _choose_cases(plan, plan.repository.root)
    run = measure_run(
        suites,
        pattern=pattern,
        metrics=metrics or _metrics_here(),
        budget=budget,
        store=store,
        progress=progress,
    )
    return check(run.id, against=baseline, limits=limits, store=store, progress=progress)


def _find_baseline(store: Store, branch: str, other: str | None) -> str:
    """The branch, run or tag in the store; raise an error before anything is measured in vain."""
    branches = {each.branch for each in store.origins() if each.kind is RunKind.RUN}
    for name in filter(None, (branch, other)):
        if name in branches:
            return name
        with contextlib.suppress(UnknownRunError):
            store.id_of(name)
            return name
    raise NoBaselineError(
        f"there is no baseline: {store.where} has no run of branch {branch or '(not known)'}. "
        "Measure it with `torchmark run` on that branch, in a job that keeps the store, or build "
        "both commits with --setup"
    )


def _metrics_here() -> tuple[Metric, ...]:
    try:
        check_counting()
    except MissingToolError:
        return (Metric.TIME,)
    return (Metric.TIME, Metric.INSTRUCTIONS)


def _choose_cases(plan: CiPlan, root: Path) -> tuple[list[str], str]:
    """The suites in this checkout, and the pattern of the cases to measure."""
    suites = [_suite_in(plan, name, root) for name in plan.suites]
    affected = plan.affected
    if plan.pattern or affected.is_everything:
        return suites, plan.pattern
    files = [str(root / file) for file in affected.suites if (root / file).exists()]
    patterns = [f"({pattern})" for pattern in affected.patterns]
    if not patterns:
        return files or suites, ""
    of_files = [case.id for case in cases_of(load_suites(files))]
    return suites, " or ".join([*patterns, *of_files])


def _suite_in(plan: CiPlan, name: str, root: Path) -> str:
    """The suite in this checkout; as it is named if the checkout does not have it."""
    place = _place_of(plan.repository, name)
    return str(root / place) if place is not None and (root / place).exists() else name


@contextlib.contextmanager
def _importing_from(folders: Iterable[Path]) -> Iterator[None]:
    """Let files of suites import packages of the commit, unless they are installed here."""
    added = [str(folder) for folder in folders]
    before = [*sys.path]
    sys.path += added
    try:
        yield
    finally:
        sys.path[:] = before

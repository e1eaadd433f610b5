"""Measures doubtful times again before `torchmark check` alarms anybody.

*Paired*: together with the environment of the baseline, whose processes alternate with ours
(`torchmark ab`). *Alone*: in fresh processes of this environment, if the baseline's is not given.

The plan is made of the cases as they are stored, so it has the threads of the run, its suite files
are not read again, and a case of the same name that was edited since is not taken for it. What is
measured must still be what the run measured: the same machine, interpreter, torch and commit.

A run that repeats cases is marked by a fact of its environment. It is no part of any history,
because its cases were chosen for their figures.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import stat
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from torchmark.analyse.gate import GateRow
from torchmark.commands.ab import (
    DETECT_BUDGET,
    activate,
    describe,
    measure_pairs,
    note_environments,
)
from torchmark.commands.planning import folders_of
from torchmark.commands.run import run as measure_run
from torchmark.commands.spine import Listener, begin_run, carry_out_on_cores, effort_of
from torchmark.define.suites import SHIPPED
from torchmark.engine.machine import describe_checkout
from torchmark.engine.under_test import UnderTest, Workers, describe_environment
from torchmark.engine.zygote.process import Launch
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run import DECISIVE, Effort, Environment, Run, RunKind
from torchmark.model.series import REPEATED_RUN, Origin
from torchmark.store import Store

REPEATS = 3
"""Fresh processes of a case that is measured alone: their median is steadier than one process, and
a single disturbed process does not decide."""

_FOUND = 1.5
_FINEST = 0.01
"""A comparison lasts until a change of 1.5 times the limit is detectable (with 80 % power), but no
finer one than 1 %. A change of twice the limit is then found in more than 95 %: the interval has a
half of about 4 standard errors, so the detectable change has 5, and 95 % power needs 6."""

Again: TypeAlias = tuple[Run, Sequence[Case]]
"""The run whose times are doubtful, and their cases."""


def why_not_here(run: Run) -> str:
    """Why the cases of the run cannot be measured again here; empty if they can."""
    environment = run.environment
    host, executable = environment.fact("machine", "host"), environment.fact("executable")
    if host and host != platform.node():
        return f"the run was made on {host}, and this is {platform.node()}"
    if executable and executable != sys.executable:
        return f"the run used another interpreter, {executable}"
    lost = [name for name in _files_of(run) if not Path(name).exists()]
    if lost:
        return f"there is no {lost[0]} here; check the run in the directory where it was made"
    return _why_other_code(environment)


def _files_of(run: Run) -> list[str]:
    """The suites of the run that are files or folders by their names."""
    names = run.settings.get("suites") or ()
    return [
        each
        for each in names
        if isinstance(each, str)
        and each not in SHIPPED
        and (Path(each).suffix or os.sep in each)
        and not _is_dotted_name(each)
    ]


def _is_dotted_name(name: str) -> bool:
    """Whether it can be a module, such as "package.suite"."""
    return not name.endswith(".py") and all(part.isidentifier() for part in name.split("."))


def _why_other_code(environment: Environment) -> str:
    """Why the code here is not the code that was measured; empty as far as git can tell."""
    commit = environment.fact("git", "commit")
    if commit is None:
        return ""
    checkout = describe_checkout(Path.cwd())
    if checkout is None:
        return f"the run measured commit {commit[:10]}, and this directory is not in git"
    if checkout["commit"] != commit:
        return f"the run measured commit {commit[:10]}, and this is {checkout['commit'][:10]}"
    if checkout["dirty"] and not environment.fact("git", "dirty"):
        return "files have been changed since the run"
    return ""


def measure_alone(store: Store, again: Again, progress: Listener | None) -> Run:
    """Measure the times of these cases again, in this environment, with the run's own effort."""
    run, cases = again
    with contextlib.closing(Workers(Launch(imports=run.imports))) as workers:
        here = describe_environment(workers.facts())
    run.check_same_environments((here,))
    effort = effort_of(run)
    settings = {name: run.settings.get(name) for name in ("suites", "imports", "budget")}
    planned = begin_run(
        store,
        RunKind.RUN,
        [PlannedResult(case=case, metric=Metric.TIME) for case in cases],
        environments=[_mark(here, run)],
        settings=settings,
        effort=msgspec.structs.replace(effort, repeats=max(effort.repeats, REPEATS), detect=None),
        notes=[f"`torchmark check` measured these times of run {run.id} again"],
    )
    return measure_run(resume=planned.id, store=store, progress=progress)


def measure_paired(
    store: Store,
    again: Again,
    command: str,
    progress: Listener | None,
    *,
    limits: Sequence[float],
    expected: Environment | None = None,
) -> Run:
    """Compare the cases with those in the environment that the command activates.

    `limits` are their hard limits. With `expected`, that environment must be this one still.
    """
    run, cases = again
    suites = [each for each in run.settings.get("suites") or () if isinstance(each, str)]
    path = ["", *folders_of(suites)]
    with activate({"A": command, "B": ""}, path, imports=run.imports) as sides:
        _check_differ(*sides)
        described = describe(sides, progress)
        run.check_same_environments((described[1],))
        _check_expected(described[0], expected)
        names = sides[0].name, sides[1].name
        planned = begin_run(
            store,
            RunKind.AB,
            [PlannedResult(case=case, metric=Metric.TIME, environments=names) for case in cases],
            environments=[_mark(each, run) for each in described],
            settings={"suites": suites, "path": path, "imports": run.imports or None},
            effort=Effort(
                timeout=effort_of(run).timeout, detect=_wanted(limits), budget=DETECT_BUDGET
            ),
            notes=[
                f"`torchmark check` measured these times of run {run.id} again",
                *note_environments(sides),
            ],
        )
        return carry_out_on_cores(planned, store, partial(measure_pairs, sides), progress)


def _wanted(limits: Sequence[float]) -> float:
    """The size of the change that each case must be able to show."""
    return max(_FINEST, _FOUND * min(limits))


def _check_differ(a: UnderTest, b: UnderTest) -> None:
    """A must not be what is judged, or every regression would seem to be gone."""
    if a.environment.is_same_installation(b.environment):
        raise InvalidArgumentError(
            f"{a.environment.command!r} leads to the environment of this process, so a comparison "
            "with it shows no regression; --A must activate the environment of the baseline"
        )


def _check_expected(found: Environment, expected: Environment | None) -> None:
    for name, path in DECISIVE.items() if expected is not None else ():
        if expected is not None and expected.fact(*path) != found.fact(*path):
            raise InvalidArgumentError(
                f"its {name} was {expected.fact(*path)} and is {found.fact(*path)}"
            )


def _mark(environment: Environment, run: Run) -> Environment:
    facts = {**environment.facts, REPEATED_RUN: run.id}
    return msgspec.structs.replace(environment, facts=facts)


def environment_of(rows: Iterable[GateRow], run: Run) -> Environment | None:
    """The environment of the baseline, if it can be launched and surely holds the baseline's code.

    It must have another interpreter of this machine. If the commits differ, that interpreter may
    import the code from the same checkout as ours: then both would run the new code, and a
    regression would seem to be gone. So the commit must be the same, or unknown in both.
    """
    for row in rows:
        if row.baseline is None:
            continue
        last: Origin = row.baseline.last
        executable, host = (
            last.environment.fact(*path) for path in (("executable",), ("machine", "host"))
        )
        is_other = isinstance(executable, str) and executable != sys.executable
        is_same_code = last.commit == run.environment.fact("git", "commit") and not last.is_dirty
        if is_other and is_same_code and host == platform.node() and _is_ours(executable):
            return last.environment
    return None


def command_for(environment: Environment) -> str:
    """Shell command that activates the interpreter of an environment."""
    folder = Path(environment.fact("executable")).parent
    return f"export PATH={shlex.quote(str(folder))}:$PATH"


def _is_ours(executable: str) -> bool:
    """Whether nobody but this user or root can have put the interpreter there.

    A store may come from others, and this path is in it.
    """
    path = Path(executable)
    if not path.is_absolute() or not os.access(path, os.X_OK):
        return False
    places = [path.lstat(), path.stat(), path.parent.stat(), path.resolve().parent.stat()]
    owners = {each.st_uid for each in places}
    writable = any(
        each.st_mode & stat.S_IWOTH or (each.st_mode & stat.S_IWGRP and each.st_gid != os.getgid())
        for each in places
        if not stat.S_ISLNK(each.st_mode)
    )
    return owners <= {0, os.getuid()} and not writable

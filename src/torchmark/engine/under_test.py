"""An environment under test: its zygotes, its facts, and remarks on a pair of environments.

This process does not import torch. The facts about torch come from a zygote that has imported it,
as the mapping that the probe's `facts` returns.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torchmark import __version__
from torchmark.engine.cpp.compiler import Toolchain, find_compiler_version, toolchain_of
from torchmark.engine.environments import ActivatedEnvironment, activate_environment
from torchmark.engine.machine import describe_checkout, describe_machine
from torchmark.engine.zygote.pool import ZygotePool
from torchmark.engine.zygote.process import Launch, valgrind
from torchmark.engine.zygote.zygote import Zygote
from torchmark.errors import ImportFailedError, MissingToolError, TorchmarkError
from torchmark.model.run import Environment
from torchmark_probe.zygote.valgrind import COUNTABLE_MACHINES

WORKS = "works"

FIRST_LAYOUT = 0
"""The layout of the zygotes in which cases are tried, and of the first launch that is timed."""

SETUP_MODULES = ("torchmark_probe.replay.order",)
"""Modules of the probe that the setups of recorded calls import. A child can no longer read the
archive, so every zygote that may get such a case imports them at its start."""

_SEATS = 1024
"""In effect no limit: the callers decide how many cases run at once."""


class Workers:
    """The zygotes of one environment, one for each number of threads and mode.

    `close` must be called in any case; it ends every process.
    """

    def __init__(self, launch: Launch | None = None, pool: ZygotePool | None = None) -> None:
        """`launch` describes everything except the number of threads and the mode."""
        self._launch = launch or Launch()
        self._pool = pool or ZygotePool(at_once=_SEATS)

    def launch(self, threads: int, *, under_callgrind: bool) -> Launch:
        """Describe how to start a zygote with this number of threads.

        The launch's modules are imported only in zygotes that take times: under callgrind an import
        takes minutes.
        """
        modules = () if under_callgrind else self._launch.modules
        return replace(
            self._launch,
            threads=threads,
            under_callgrind=under_callgrind,
            modules=(*SETUP_MODULES, *modules),
            copies_code=self._launch.copies_code and not under_callgrind,
        )

    def start(self, threads: int, *, under_callgrind: bool) -> Zygote:
        """Return a running zygote; one that failed to start is not tried again for each case."""
        return self._pool.start(self.launch(threads, under_callgrind=under_callgrind))

    def fresh(self, threads: int, *, layout: int, under_callgrind: bool = False) -> Zygote:
        """Return a new zygote that is not started yet, with the addresses of this layout."""
        launch = self.launch(threads, under_callgrind=under_callgrind)
        return self._pool.fresh(replace(launch, layout=layout))

    def facts(self) -> dict[str, Any]:
        """Return the facts that the environment reports; raise if torch cannot be used there."""
        return self.start(1, under_callgrind=False).start()

    def another(self) -> Workers:
        """Return workers of the same environment with their own zygotes."""
        return Workers(self._launch)

    def features(self, paths: Iterable[str]) -> dict[str, bool]:
        """Say whether torch has each of these attributes, given by path ("torch.func.vmap")."""
        asked = sorted(paths)
        if not asked:
            return {}
        zygote = self.start(1, under_callgrind=False)
        found: dict[str, bool] = zygote.call("torchmark_probe.zygote.warmup.torch_has", asked)
        return found

    def close(self) -> None:
        self._pool.close()


class UnderTest:
    """One environment, found by its activation command; zygotes start as needed until `close`."""

    def __init__(
        self,
        environment: ActivatedEnvironment,
        path: Sequence[str] = (),
        modules: Sequence[str] = (),
        imports: Sequence[str] = (),
        *,
        copies_code: bool = False,
    ) -> None:
        """`path` is added to the environment's path, so that cases find the user's modules.

        `modules` are imported once in each zygote that takes times, instead of in every case.
        `imports` are modules that the user wants to have imported in every zygote.
        `copies_code` is set if the environment is compared with another build of torch.
        """
        self.environment = environment
        self.workers = Workers(
            Launch(
                interpreter=environment.interpreter,
                environment=tuple(sorted(environment.variables)),
                layout=FIRST_LAYOUT,
                modules=tuple(modules),
                imports=tuple(imports),
                path=tuple(path),
                copies_code=copies_code,
            )
        )
        self._described: Environment | None = None

    @property
    def name(self) -> str:
        return self.environment.name

    def facts(self) -> dict[str, Any]:
        """Return the facts that it reports; an error names the environment if torch fails there."""
        try:
            return self.workers.facts()
        except ImportFailedError as error:
            raise ImportFailedError(f"in {self.name}: {error}") from error

    def toolchain(self) -> Toolchain:
        """Return the compiler and flags for this environment's torch; raise if there is none."""
        return toolchain_of(self.facts())

    def describe(self) -> Environment:
        """Return what is known before measuring; collected once."""
        if self._described is None:
            facts = self.facts()
            self._described = Environment(
                name=self.name,
                command=self.environment.command,
                facts={
                    **_usual_facts(facts),
                    "torch_file": self.environment.interpreter.torch_file,
                    "threads": facts["threads"],
                    "fixed_addresses": facts["fixed_addresses"],
                    "variables": dict(self.environment.variables),
                    "directory": self.environment.directory,
                    **self._abilities(),
                },
            )
        return self._described

    def _abilities(self) -> dict[str, str]:
        abilities = {"counting": WORKS, "cpp": WORKS}
        try:
            check_counting()
        except MissingToolError as error:
            abilities["counting"] = str(error)
        try:
            abilities["compiler"] = self.toolchain().version
        except TorchmarkError as error:
            abilities["cpp"] = str(error)
        return abilities

    def close(self) -> None:
        self.workers.close()


def open_environments(
    commands: Mapping[str, str],
    path: Sequence[str] = (),
    modules: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> list[UnderTest]:
    """Activate the environments of these commands, given by name."""
    found = [activate_environment(name, command) for name, command in commands.items()]
    builds = {os.path.realpath(each.interpreter.torch_file) for each in found}
    copies_code = len(builds) > 1
    return [UnderTest(each, path, modules, imports, copies_code=copies_code) for each in found]


def describe_environment(probe_facts: Mapping[str, Any]) -> Environment:
    """Describe the environment of a run that is started from this directory."""
    facts = {
        **_usual_facts(probe_facts),
        "compiler": find_compiler_version(),
        "git": describe_checkout(Path.cwd()),
    }
    return Environment(facts=facts)


def _usual_facts(probe_facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "torchmark": __version__,
        "torch": describe_torch(probe_facts),
        "python": probe_facts.get("python", platform.python_version()),
        "executable": probe_facts.get("executable"),
        "machine": describe_machine(),
    }


def describe_torch(probe_facts: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the build of torch: its version, its commit and its configuration."""
    names = {"version": "torch", "git": "torch_git", "config": "torch_config"}
    return {name: str(probe_facts[key]) for name, key in names.items() if probe_facts.get(key)}


def check_counting() -> None:
    """Raise if instructions cannot be counted on this machine."""
    valgrind()
    if platform.machine() not in COUNTABLE_MACHINES:
        raise MissingToolError(
            f"instructions can be counted only on {' and '.join(COUNTABLE_MACHINES)}, and this "
            f"machine is {platform.machine()}; measure only times"
        )


def remarks_on(a: UnderTest, b: UnderTest, *, statements_differ: bool = False) -> list[str]:
    """Return remarks that a reader should know before the results.

    If A and B run different statements, using one environment for both is intended.
    """
    is_one = a.environment.is_same_installation(b.environment)
    remarks = [] if is_one and statements_differ else _remarks_on_installations(a, b)
    if not (a.facts()["fixed_addresses"] and b.facts()["fixed_addresses"]):
        remarks.append(
            "the kernel does not let torchmark choose addresses (some containers forbid it), so "
            "times of small ops vary by about 1 % between launches, and more replicates are needed"
        )
    return remarks


def _remarks_on_installations(a: UnderTest, b: UnderTest) -> list[str]:
    """Return a remark if A and B use the same torch."""
    one, other = a.environment, b.environment
    if os.path.realpath(one.interpreter.torch_file) != os.path.realpath(
        other.interpreter.torch_file
    ):
        return []
    said = f"{a.name} and {b.name} are the same installation of torch"
    if one.is_same_installation(other):
        return [f"{said}, started the same way: no difference is expected"]
    changed = sorted({name for name, _ in set(one.variables) ^ set(other.variables)})
    return [f"{said}, with other variables ({', '.join(changed)})" if changed else said]

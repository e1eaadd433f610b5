"""An environment under test: its zygotes, what is known of it, and what to remark on two of them.

torch is not imported here: what it says of itself comes from the zygote that has imported it, as
the mapping that the probe's `facts` makes.
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
"""That of the zygotes which cases are tried in, and of the first start that times are taken of."""

SETUP_MODULES = ("torchmark_probe.replay.order",)
"""Modules of the probe that setups of recorded calls import: a child cannot read the archive any
more, so every zygote that may get such a case imports them."""

_SEATS = 1024
"""Whoever hands over cases decides how many run at once; here nobody waits."""


class Workers:
    """The zygotes of one environment, one for each number of threads and mode.

    Whatever the run ends with, `close` ends every process.
    """

    def __init__(self, launch: Launch | None = None, pool: ZygotePool | None = None) -> None:
        """`launch` says all but the threads and the mode."""
        self._launch = launch or Launch()
        self._pool = pool or ZygotePool(at_once=_SEATS)

    def launch(self, threads: int, *, under_callgrind: bool) -> Launch:
        """How a zygote with these threads is started.

        The launch's modules are imported where times are taken alone: under callgrind an import
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
        """A zygote that runs; one that could not be started is not tried again for every case."""
        return self._pool.start(self.launch(threads, under_callgrind=under_callgrind))

    def fresh(self, threads: int, *, layout: int, under_callgrind: bool = False) -> Zygote:
        """A zygote of its own, not yet started, at the addresses of this layout."""
        launch = self.launch(threads, under_callgrind=under_callgrind)
        return self._pool.fresh(replace(launch, layout=layout))

    def facts(self) -> dict[str, Any]:
        """What the environment says of itself; an error if torch cannot be used there."""
        return self.start(1, under_callgrind=False).start()

    def another(self) -> Workers:
        """Workers of the same environment, with zygotes of their own."""
        return Workers(self._launch)

    def features(self, paths: Iterable[str]) -> dict[str, bool]:
        """Whether torch has these attributes, by their paths ("torch.func.vmap")."""
        asked = sorted(paths)
        if not asked:
            return {}
        zygote = self.start(1, under_callgrind=False)
        found: dict[str, bool] = zygote.call("torchmark_probe.zygote.warmup.torch_has", asked)
        return found

    def close(self) -> None:
        self._pool.close()


class UnderTest:
    """Found by its source command, checked once, then started as needed; ended with `close`."""

    def __init__(
        self,
        environment: ActivatedEnvironment,
        path: Sequence[str] = (),
        modules: Sequence[str] = (),
        imports: Sequence[str] = (),
        *,
        copies_code: bool = False,
    ) -> None:
        """`path` is where cases find the user's own modules, beside the environment's.

        `modules` are imported once in each zygote where times are taken, and not by every case.
        `imports` are what the user wants imported in every zygote.
        `copies_code` is for an environment that is compared with another build of torch.
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
        """What it says of itself; an error with its own text if torch cannot be imported."""
        try:
            return self.workers.facts()
        except ImportFailedError as error:
            raise ImportFailedError(f"in {self.name}: {error}") from error

    def toolchain(self) -> Toolchain:
        """The compiler with the flags for this environment's torch; an error if there is none."""
        return toolchain_of(self.facts())

    def describe(self) -> Environment:
        """What is known before anything is measured; asked once."""
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
    """The environments that the source commands lead to, by their names."""
    found = [activate_environment(name, command) for name, command in commands.items()]
    builds = {os.path.realpath(each.interpreter.torch_file) for each in found}
    copies_code = len(builds) > 1
    return [UnderTest(each, path, modules, imports, copies_code=copies_code) for each in found]


def describe_environment(probe_facts: Mapping[str, Any]) -> Environment:
    """All that is known of where a run takes place, which is started from this directory."""
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
    """The build of torch: its version, the commit it was built from, and its flags."""
    names = {"version": "torch", "git": "torch_git", "config": "torch_config"}
    return {name: str(probe_facts[key]) for name, key in names.items() if probe_facts.get(key)}


def check_counting() -> None:
    """An error if no instructions can be counted on this machine."""
    valgrind()
    if platform.machine() not in COUNTABLE_MACHINES:
        raise MissingToolError(
            f"instructions can be counted on {' and '.join(COUNTABLE_MACHINES)} only, and this is "
            f"{platform.machine()}; take times alone"
        )


def remarks_on(a: UnderTest, b: UnderTest, *, statements_differ: bool = False) -> list[str]:
    """What a reader should know before the figures.

    Where statements differ, one environment for both is what was asked for.
    """
    is_one = a.environment.is_same_installation(b.environment)
    remarks = [] if is_one and statements_differ else _remarks_on_installations(a, b)
    if not (a.facts()["fixed_addresses"] and b.facts()["fixed_addresses"]):
        remarks.append(
            "the kernel does not let torchmark choose addresses (some containers forbid it), so "
            "times of small ops differ by a per cent from start to start, and more pairs are needed"
        )
    return remarks


def _remarks_on_installations(a: UnderTest, b: UnderTest) -> list[str]:
    """That A and B use the same torch, if they do."""
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

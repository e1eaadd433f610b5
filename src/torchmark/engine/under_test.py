"""An environment under test: found by its source command, checked once, then started as needed."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from torchmark import __version__
from torchmark.engine.cpp.compiler import toolchain_of
from torchmark.engine.environment_facts import describe_torch
from torchmark.engine.environments import ActivatedEnvironment, activate_environment
from torchmark.engine.machine import describe_machine
from torchmark.engine.workers import Workers
from torchmark.engine.zygote.process import Launch, valgrind
from torchmark.errors import MissingToolError, TorchmarkError
from torchmark.model.run import Environment
from torchmark_probe.zygote.valgrind import COUNTABLE_MACHINES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.engine.cpp.compiler import Toolchain

WORKS = "works"

FIRST_LAYOUT = 0
"""That of the zygotes which cases are tried in, and of the first start that times are taken of."""


class UnderTest:
    """Ends all its processes with `close`."""

    def __init__(
        self,
        environment: ActivatedEnvironment,
        path: Sequence[str] = (),
        modules: Sequence[str] = (),
    ) -> None:
        """`path` is where cases find the user's own modules, beside the environment's.

        `modules` are imported once in each zygote where times are taken, and not by every case.
        """
        self.environment = environment
        self.workers = Workers(
            Launch(
                interpreter=environment.interpreter,
                environment=tuple(sorted(environment.variables)),
                layout=FIRST_LAYOUT,
                modules=tuple(modules),
                path=tuple(path),
            )
        )
        self._described: Environment | None = None

    @property
    def name(self) -> str:
        return self.environment.name

    def facts(self) -> dict[str, Any]:
        """What it says of itself; an error with its own text if torch cannot be imported."""
        return self.workers.facts()

    def toolchain(self) -> Toolchain:
        """The compiler with the flags for this environment's torch; an error if there is none."""
        return toolchain_of(self.facts())

    def describe(self) -> Environment:
        """What is known before anything is measured; asked once."""
        if self._described is None:
            self._described = self._description()
        return self._described

    def _description(self) -> Environment:
        facts = self.facts()
        interpreter = self.environment.interpreter
        return Environment(
            name=self.name,
            command=self.environment.command,
            facts={
                "torchmark": __version__,
                "machine": describe_machine(),
                "executable": facts["executable"],
                "python": facts["python"],
                "torch": describe_torch(facts),
                "torch_file": interpreter.torch_file,
                "threads": facts["threads"],
                "fixed_addresses": facts["fixed_addresses"],
                "variables": dict(self.environment.variables),
                "directory": self.environment.directory,
                **self._abilities(),
            },
        )

    def _abilities(self) -> dict[str, str]:
        abilities = {"counting": _reason_against_counting() or WORKS, "cpp": WORKS}
        try:
            abilities["compiler"] = self.toolchain().version
        except TorchmarkError as error:
            abilities["cpp"] = str(error)
        return abilities

    def close(self) -> None:
        self.workers.close()


def open_environment(
    name: str, command: str, path: Sequence[str] = (), modules: Sequence[str] = ()
) -> UnderTest:
    """The environment that the source command leads to."""
    return UnderTest(activate_environment(name, command), path, modules)


def _reason_against_counting() -> str | None:
    try:
        valgrind()
    except MissingToolError as error:
        return str(error)
    if platform.machine() not in COUNTABLE_MACHINES:
        return f"instructions can be counted on {' and '.join(COUNTABLE_MACHINES)} only"
    return None


def remarks_on(a: UnderTest, b: UnderTest, *, statements_differ: bool = False) -> list[str]:
    """What a reader should know before the figures.

    Where statements differ, one environment for both is what was asked for.
    """
    is_one = a.environment.is_same_installation(b.environment)
    remarks = [None if is_one and statements_differ else remark_on_installations(a, b)]
    if not (a.facts()["fixed_addresses"] and b.facts()["fixed_addresses"]):
        remarks.append(
            "the kernel does not let torchmark choose addresses (some containers forbid it), so "
            "times of small ops differ by a per cent from start to start, and more pairs are needed"
        )
    return [remark for remark in remarks if remark is not None]


def remark_on_installations(a: UnderTest, b: UnderTest) -> str | None:
    """That A and B use the same torch, if they do."""
    one, other = a.environment, b.environment
    if os.path.realpath(one.interpreter.torch_file) != os.path.realpath(
        other.interpreter.torch_file
    ):
        return None
    said = f"{a.name} and {b.name} are the same installation of torch"
    if one.is_same_installation(other):
        return f"{said}, started the same way: no difference is expected"
    changed = sorted({name for name, _ in set(one.variables) ^ set(other.variables)})
    return f"{said}, with other variables ({', '.join(changed)})" if changed else said

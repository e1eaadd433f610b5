"""The code to measure, as text: a case of a suite, and the task of a Timer.

Definitions expand to cases, and a worker measures one case at a time. The ID of a case is a hash of
its contents, so it is the same in another file, on another machine and on another day.
"""

from __future__ import annotations

import enum
import hashlib
import json
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, TypeAlias

import msgspec

from torchmark.errors import UnknownLanguageError
from torchmark_probe.loops import measurement

MODEL_PATH = "@TORCHMARK_MODEL@"
"""Placeholder in a setup for the path of the saved scripted model, which a run fills in."""

Threads: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
"""Number of threads that torch may use."""


class Language(enum.Enum):
    """The language of a statement: 0 is Python and 1 is C++, as in torch."""

    PYTHON = 0
    CPP = 1


_LANGUAGE_NAMES = {
    "py": Language.PYTHON,
    "python": Language.PYTHON,
    "cpp": Language.CPP,
    "c++": Language.CPP,
}
"""Names that users may write for a Language, as in torch."""


class Runtime(enum.Enum):
    """The runtime that executes the statement."""

    EAGER = "eager"
    TORCHSCRIPT = "torchscript"
    COMPILED = "compiled"
    EXPLICIT = "explicit"
    """Defined with TimerArgs, so the runtime is not known."""


class Autograd(enum.Enum):
    """The passes that the statement runs."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward + backward"
    EXPLICIT = "explicit"
    """Defined with TimerArgs, so the passes are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel:
    """A model that a run scripts and saves once, and that the cases load."""

    source: str
    """Source of a Python module that defines `jit_model`, a ScriptModule, with its imports."""

    @property
    def id(self) -> str:
        return digest({"source": self.source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One statement in one language, with one runtime and number of threads."""

    label: tuple[str, ...]
    """The names of the case in its suite, outermost first."""

    stmt: str
    """The code that is measured."""

    setup: str = "pass"
    """Code that runs once before; MODEL_PATH in it is the path of the saved model."""

    global_setup: str = ""
    """C++ code for the top of the file."""

    language: Language = Language.PYTHON
    runtime: Runtime = Runtime.EXPLICIT
    autograd: Autograd = Autograd.EXPLICIT
    num_threads: Threads = 1

    params: tuple[tuple[str, str], ...] = ()
    """The values from the grid of the definition, as name and text."""

    model: ScriptedModel | None = None
    """The scripted model that the setup loads."""

    skip: str | None = None
    """The reason to skip the case, from its definition; None for a case that runs."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits: a hash of the labels and the code."""
        return _id_of(self)

    @property
    def title(self) -> str:
        """Name and facts of the case in one line.

        >>> Case(label=("Pointwise", "add"), stmt="x + y", runtime=Runtime.EAGER,
        ...      autograd=Autograd.FORWARD, num_threads=2).title
        'Pointwise / add · Python, eager, forward, 2 threads'
        """
        return " ".join(f"{self.name} · {', '.join(self.facts)}".splitlines())

    @property
    def name(self) -> str:
        """The labels, or the statement if there are no labels."""
        return " / ".join(self.label) or self.stmt.partition("\n")[0]

    @property
    def facts(self) -> tuple[str, ...]:
        """Words that tell cases of the same name apart."""
        facts = ["Python" if self.language is Language.PYTHON else "C++"]
        facts += [self.runtime.value] if self.runtime is not Runtime.EXPLICIT else []
        facts += [self.autograd.value] if self.autograd is not Autograd.EXPLICIT else []
        facts += [f"{name}={value}" for name, value in self.params]
        facts += [f"{self.num_threads} threads"] if self.num_threads > 1 else []
        return tuple(facts)


@lru_cache(maxsize=10_000)
def _id_of(case: Case) -> str:
    """Kept, because a check of a thousand cases asks for each of them eight times."""
    return digest(
        {
            "label": case.label,
            "stmt": case.stmt,
            "setup": case.setup,
            "global_setup": case.global_setup,
            "language": case.language.name,
            "runtime": case.runtime.value,
            "autograd": case.autograd.value,
            "num_threads": case.num_threads,
            "params": case.params,
            "model": case.model.source if case.model else None,
        }
    )


@dataclass(frozen=True, repr=False)
class TaskSpec(measurement.TaskSpec):
    """All arguments of a Timer except its globals; results with equal specs are replicates."""

    num_threads: Threads = 1


def spec_of(case: Case) -> TaskSpec:
    """The spec of a case, with the labels that tables use."""
    return TaskSpec(
        stmt=case.stmt,
        setup=case.setup,
        global_setup=case.global_setup,
        label=" / ".join(case.label[:-1]) or None,
        sub_label=case.name.rpartition(" / ")[2],
        description=", ".join(case.facts),
        num_threads=case.num_threads,
    )


def find_language(given: Language | str) -> Language:
    """The language from its name or as a Language."""
    if isinstance(given, Language):
        return given
    if given not in _LANGUAGE_NAMES:
        names = ", ".join(map(repr, _LANGUAGE_NAMES))
        raise UnknownLanguageError(f"unknown language {given!r}; use {names} or a Language")
    return _LANGUAGE_NAMES[given]


def trimmed(source: str) -> str:
    r"""Source without common indentation, leading newline and trailing blanks.

    >>> trimmed('''
    ...     x = 1
    ...     y = 2
    ... ''')
    'x = 1\ny = 2'
    """
    return textwrap.dedent(source).removeprefix("\n").rstrip()


def joined(*parts: str) -> str:
    """The parts of a setup that are not empty, one below the other."""
    return "\n".join(part for part in parts if part)


def indented(source: str) -> str:
    return textwrap.indent(source, "    ")


def digest(content: object) -> str:
    """Sixteen hexadecimal digits: a hash of plain JSON."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""What runs, as text: a case of a suite, and the task of a Timer.

Definitions expand to cases, and a case maps one to one to what a worker measures. Its id follows
from what it says alone, so it is the same in another file, on another machine and on another day.
"""

from __future__ import annotations

import enum
import hashlib
import json
import textwrap
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import msgspec

from torchmark.errors import UnknownLanguageError
from torchmark_probe.loops import measurement

MODEL_PATH = "@TORCHMARK_MODEL@"
"""Stands in a setup for the path of the saved scripted model, which is known only in a run."""

Threads: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
"""How many threads torch may use."""


class Language(enum.Enum):
    """What a statement is written in: 0 is Python and 1 is C++, as in torch."""

    PYTHON = 0
    CPP = 1


_LANGUAGE_NAMES = {
    "py": Language.PYTHON,
    "python": Language.PYTHON,
    "cpp": Language.CPP,
    "c++": Language.CPP,
}
"""What people may write for a Language, as in torch."""


class Runtime(enum.Enum):
    """Who executes the statement."""

    EAGER = "eager"
    TORCHSCRIPT = "torchscript"
    COMPILED = "compiled"
    EXPLICIT = "explicit"
    """Given as TimerArgs: the definition does not say."""


class Autograd(enum.Enum):
    """Which passes the statement makes."""

    FORWARD = "forward"
    FORWARD_BACKWARD = "forward + backward"
    EXPLICIT = "explicit"
    """Given as TimerArgs: the definition does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel:
    """A model that is scripted once in a run, saved, and loaded by all cases that use it."""

    source: str
    """A module in Python that defines `jit_model`, a ScriptModule; it imports what it needs."""

    @property
    def id(self) -> str:
        return digest({"source": self.source})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One statement in one language, runtime and pass, with one number of threads."""

    label: tuple[str, ...]
    """The names under which the suite holds it, outermost first."""

    stmt: str
    """What is run again and again."""

    setup: str = "pass"
    """What runs once before; MODEL_PATH in it stands for the saved model."""

    global_setup: str = ""
    """C++: what stands at the top of the file."""

    language: Language = Language.PYTHON
    runtime: Runtime = Runtime.EXPLICIT
    autograd: Autograd = Autograd.EXPLICIT
    num_threads: Threads = 1

    params: tuple[tuple[str, str], ...] = ()
    """The values from the definition's grid, as name and text."""

    model: ScriptedModel | None = None
    """The scripted model whose path the setup names, if it names one."""

    skip: str | None = None
    """Why the definition wants it left out; None for a case that runs."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that follow from the labels and from what runs."""
        return digest(
            {
                "label": self.label,
                "stmt": self.stmt,
                "setup": self.setup,
                "global_setup": self.global_setup,
                "language": self.language.name,
                "runtime": self.runtime.value,
                "autograd": self.autograd.value,
                "num_threads": self.num_threads,
                "params": self.params,
                "model": self.model.source if self.model else None,
            }
        )

    @property
    def title(self) -> str:
        """One line for a person.

        >>> Case(label=("Pointwise", "add"), stmt="x + y", runtime=Runtime.EAGER,
        ...      autograd=Autograd.FORWARD, num_threads=2).title
        'Pointwise / add · Python, eager, forward, 2 threads'
        """
        return " ".join(f"{self.name} · {', '.join(self.facts)}".splitlines())

    @property
    def name(self) -> str:
        """The labels, or the statement where there are none."""
        return " / ".join(self.label) or self.stmt.partition("\n")[0]

    @property
    def facts(self) -> tuple[str, ...]:
        """What sets it apart from cases of the same name, for a person."""
        facts = ["Python" if self.language is Language.PYTHON else "C++"]
        facts += [self.runtime.value] if self.runtime is not Runtime.EXPLICIT else []
        facts += [self.autograd.value] if self.autograd is not Autograd.EXPLICIT else []
        facts += [f"{name}={value}" for name, value in self.params]
        facts += [f"{self.num_threads} threads"] if self.num_threads > 1 else []
        return tuple(facts)


@dataclass(frozen=True, repr=False)
class TaskSpec(measurement.TaskSpec):
    """Everything that defines a Timer but its globals; equal specs are replicates."""

    num_threads: Threads = 1


def spec_of(case: Case) -> TaskSpec:
    """The case under the names that tables use."""
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
    """The language that a person names."""
    if isinstance(given, Language):
        return given
    if given not in _LANGUAGE_NAMES:
        names = ", ".join(map(repr, _LANGUAGE_NAMES))
        raise UnknownLanguageError(f"unknown language {given!r}; write {names} or a Language")
    return _LANGUAGE_NAMES[given]


def trimmed(source: str) -> str:
    r"""Source without common indent, leading newline and trailing blanks.

    >>> trimmed('''
    ...     x = 1
    ...     y = 2
    ... ''')
    'x = 1\ny = 2'
    """
    return textwrap.dedent(source).removeprefix("\n").rstrip()


def joined(*parts: str) -> str:
    """Parts of a setup under each other, the empty ones left out."""
    return "\n".join(part for part in parts if part)


def indented(source: str) -> str:
    return textwrap.indent(source, "    ")


def digest(content: object) -> str:
    """Sixteen hexadecimal digits that follow from plain JSON."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]

"""The two environments of a comparison in words: what they share, and what sets them apart.

Which facts are there is up to whoever looked; both spellings are understood, nested as in the
record of a run (`{"torch": {"version": …}}`) and flat as the probe tells them (`"torch_git"`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchmark.report.ab_names import cut
from torchmark.report.figures import environment_facts, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.ab_record import ComparedEnvironment, Comparison

_VERSIONS = (
    ("torch {}", ("torch.version", "torch", "torch_version")),
    ("git {:.10}", ("torch.git", "torch_git", "torch.commit", "torch.git_version")),
    ("Python {}", ("python",)),
    ("threads: {}", ("threads", "num_threads")),
    ("{}", ("compiler", "compiler.version")),
)
_ABILITIES = (("counting", "counting"), ("C++", "cpp"))
_ELSEWHERE = {"command"}
"""Has a row of its own."""

_NOT_COMPARED = {"pid", "load", "machine.load"}
"""Differ between any two processes."""

_NOT_TOLD = {"pid", "host", "machine.host"}
"""Of no use to a reader, and not everybody's business."""

_NAMED = 6
"""Facts that are named where only their names are told."""


class Fact(NamedTuple):
    """One fact of both environments; empty where it is not known."""

    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        return self.a != self.b and self.name not in _NOT_COMPARED


def facts_of(comparison: Comparison) -> list[Fact]:
    """All facts, by their dotted names, the command first."""
    a, b = (dict(environment_facts(each.facts)) for each in (comparison.a, comparison.b))
    names = [name for name in {**a, **b} if name not in _NOT_TOLD | _ELSEWHERE]
    return [
        Fact("command", _command(comparison.a), _command(comparison.b)),
        *(Fact(name, a.get(name, ""), b.get(name, "")) for name in names),
    ]


def descriptions(comparison: Comparison) -> list[str]:
    """A line for each environment with what sets it apart, and one for what they have in common."""
    a, b = _phrases(comparison.a), _phrases(comparison.b)
    lines = [
        f"{cut(environment.name)}: {', '.join([_command(environment), *own])}"
        for environment, own in (
            (comparison.a, [each for each in a if each not in b]),
            (comparison.b, [each for each in b if each not in a]),
        )
    ]
    shared = [each for each in a if each in b]
    return [*lines, f"both: {', '.join(shared)}"] if shared else lines


def other_differences(comparison: Comparison) -> str:
    """The names of facts that differ and are not part of the descriptions."""
    told = {name for _, names in _VERSIONS for name in names} | {name for _, name in _ABILITIES}
    names = [
        fact.name
        for fact in facts_of(comparison)
        if fact.differs and fact.name not in told and fact.name != "command"
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Also not alike: {', '.join(names[:_NAMED])}{more}." if names else ""


def _phrases(environment: ComparedEnvironment) -> list[str]:
    facts = dict(environment_facts(environment.facts))
    found = []
    for phrase, names in _VERSIONS:
        value = _first(facts, names)
        found += [phrase.format(cut(first_line(value)))] if value else []
    for ability, name in _ABILITIES:
        value = cut(first_line(facts.get(name, "")))
        if value:
            found.append(f"{ability} works" if value == "works" else f"no {ability} ({value})")
    return found


def _first(facts: dict[str, str], names: Sequence[str]) -> str:
    return next((facts[name] for name in names if facts.get(name)), "")


def _command(environment: ComparedEnvironment) -> str:
    return cut(environment.command) if environment.command.strip() else "where torchmark was called"

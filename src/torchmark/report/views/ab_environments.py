"""The environments of a comparison in words: what they share, and what sets them apart.

Both spellings of facts are understood, nested as in the record of a run
(`{"torch": {"version": …}}`) and flat as the probe tells them (`"torch_git"`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.model.units import ordered_unique
from torchmark.report.figures import environment_facts, first_line
from torchmark.report.view import FactTable
from torchmark.report.views.ab_names import cut_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.run import Environment

_VERSIONS = (
    ("torch {}", ("torch.version", "torch", "torch_version")),
    ("git {:.10}", ("torch.git", "torch_git", "torch.commit", "torch.git_version")),
    ("Python {}", ("python",)),
    ("threads: {}", ("threads", "num_threads")),
    ("{}", ("compiler", "compiler.version")),
)
_ABILITIES = (("counting", "counting"), ("C++", "cpp"))

_LEFT_OUT = {"command", "pid", "host", "machine.host", "load", "machine.load"}
"""Told elsewhere, different between any two processes, or not everybody's business."""

_NAMED = 6
"""Facts that are named where only their names are told."""


def compare_facts(environments: Sequence[Environment]) -> FactTable:
    """All facts, by their dotted names, the command first."""
    known = [dict(environment_facts(each.facts)) for each in environments]
    names = ordered_unique(name for facts in known for name in facts if name not in _LEFT_OUT)
    return FactTable(
        names=tuple(each.name for each in environments),
        facts=(
            ("command", tuple(map(_command, environments))),
            *((name, tuple(facts.get(name, "") for facts in known)) for name in names),
        ),
    )


def describe_environments(environments: Sequence[Environment]) -> list[str]:
    """A line for each with what sets it apart, one for what they share, one for what is left."""
    phrases = [_phrases(each) for each in environments]
    shared = [each for each in phrases[0] if all(each in of for of in phrases)] if phrases else []
    lines = [
        ", ".join([f"{cut_line(environment.name)}: {_command(environment)}", *own])
        for environment, own in (
            (environment, [each for each in of if each not in shared])
            for environment, of in zip(environments, phrases, strict=True)
        )
    ]
    if shared:
        lines.append(f"{'both' if len(phrases) == 2 else 'all'}: {', '.join(shared)}")
    return [*lines, *_other_differences(environments)]


def _other_differences(environments: Sequence[Environment]) -> list[str]:
    """The names of facts that differ and are not part of the descriptions."""
    told = {name for _, names in _VERSIONS for name in names} | {name for _, name in _ABILITIES}
    differing = compare_facts(environments).differing
    names = [name for name, _ in differing if name not in told | {"command"}]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return [f"Also different: {', '.join(names[:_NAMED])}{more}."] if names else []


def _phrases(environment: Environment) -> list[str]:
    facts = dict(environment_facts(environment.facts))
    found = []
    for phrase, names in _VERSIONS:
        value = next((facts[name] for name in names if facts.get(name)), "")
        found += [phrase.format(cut_line(first_line(value)))] if value else []
    for ability, name in _ABILITIES:
        value = cut_line(first_line(facts.get(name, "")))
        if value:
            found.append(f"{ability} works" if value == "works" else f"no {ability} ({value})")
    return found


def _command(environment: Environment) -> str:
    has_command = environment.command.strip()
    return cut_line(environment.command) if has_command else "where torchmark was called"

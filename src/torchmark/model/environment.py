"""Where something was measured: how to get there, and what was found there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

DECISIVE = {
    "torchmark": ("torchmark",),
    "torch": ("torch", "version"),
    "torch's commit": ("torch", "git"),
    "Python": ("python",),
    "the processor": ("machine", "cpu"),
}
"""The facts that change results: where one differs, results do not belong together."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One environment, as it was found before anything was measured."""

    name: str = ""
    """What people call it: "A", "B", "base"; empty for the one that torchmark runs in."""

    command: str = ""
    """The shell command that activates it; empty for the one that torchmark runs in."""

    facts: Mapping[str, Any] = {}
    """Plain JSON: interpreter, Python, torch build, compiler, machine, git commit."""

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that follow from the decisive facts."""
        decisive = [self.fact(*path) for path in DECISIVE.values()]
        return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:16]

    def fact(self, *path: str) -> Any:
        """The fact at a path of names; None if it is not known.

        >>> Environment(facts={"torch": {"version": "2.13.0"}}).fact("torch", "version")
        '2.13.0'
        """
        value: Any = self.facts
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

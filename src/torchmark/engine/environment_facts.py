"""The environment of a run: what may explain a difference between two runs.

torch is not imported here: what it says of itself comes from the zygote that has imported it, as
the mapping that the probe's `facts` makes.
"""

from __future__ import annotations

import platform
import subprocess
from typing import TYPE_CHECKING, Any

from torchmark import __version__
from torchmark.engine.cpp.compiler import find_compiler_version
from torchmark.engine.machine import describe_machine, find_tool
from torchmark.model.run import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_GIT_SECONDS = 10
"""How long git may take to look at a working directory; a large one on a slow disk needs a few."""


def describe_environment(probe_facts: Mapping[str, Any], directory: Path) -> Environment:
    """All that is known of where a run takes place; `directory` is the one it is started from."""
    facts = {
        "torchmark": __version__,
        "torch": describe_torch(probe_facts),
        "python": probe_facts.get("python", platform.python_version()),
        "executable": probe_facts.get("executable"),
        "compiler": find_compiler_version(),
        "machine": describe_machine(),
        "git": describe_checkout(directory),
    }
    return Environment(facts=facts)


def describe_torch(probe_facts: Mapping[str, Any]) -> dict[str, Any]:
    """The build of torch: its version, the commit it was built from, and its flags."""
    names = {"version": "torch", "git": "torch_git", "config": "torch_config"}
    return {name: str(probe_facts[key]) for name, key in names.items() if probe_facts.get(key)}


def describe_checkout(directory: Path) -> dict[str, Any] | None:
    """The commit that is checked out and whether files differ from it; None outside of git."""
    commit = _git(directory, "rev-parse", "HEAD")
    if commit is None:
        return None
    status = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit,
        "branch": _git(directory, "rev-parse", "--abbrev-ref", "HEAD"),
        "dirty": None if status is None else bool(status),
    }


def _git(directory: Path, *arguments: str) -> str | None:
    """What git prints; None if it is missing, fails or takes too long."""
    git = find_tool("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - a list of arguments, no shell
            # No locks are taken: a look at a repository must not get in anyone's way.
            [git, "--no-optional-locks", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()

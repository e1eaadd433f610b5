"""Git repositories made for tests: real commits of a small package, with a suite."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchmark.engine.repository import OF_HOOKS

WORK = """
def double(numbers):
    return [2 * number for number in numbers]
"""
TWICE_THE_WORK = """
def double(numbers):
    [2 * number for number in numbers]
    return [2 * number for number in numbers]
"""
SUITE = """
from torchmark import TimerArgs

SETUP = "from lists import double; numbers = list(range(300))"
SUITE = {
    "Lists": {
        "double": TimerArgs("double(numbers)", setup=SETUP),
        "sort": TimerArgs("sorted(numbers)", setup=SETUP),
    }
}
"""
FILES = {
    "README.md": "Lists.\n",
    "src/lists/__init__.py": WORK,
    "benchmarks/bench_lists.py": SUITE,
}


@dataclass
class Checkout:
    """The working tree of a repository."""

    root: Path
    first: str = ""
    """The first commit."""

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        done = subprocess.run(
            ["git", *who, *arguments],
            cwd=self.root,
            env={name: text for name, text in os.environ.items() if name not in OF_HOOKS},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, message: str, files: Mapping[str, str]) -> str:
        """Commit these files on the present branch; return the id of the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str = "topic") -> None:
        self.git("checkout", "--quiet", "-b", name)

    def worktrees(self) -> list[str]:
        """The folders of the worktrees, that of the user first."""
        lines = self.git("worktree", "list", "--porcelain").splitlines()
        return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]

    def state(self) -> list[str]:
        """What a build must not touch: working tree, index, HEAD, branches and stash."""
        return [
            self.git("status", "--porcelain", "--branch"),
            self.git("ls-files", "--stage"),
            self.git("symbolic-ref", "--short", "HEAD"),
            self.git("for-each-ref"),
            self.git("stash", "list"),
            *sorted(
                f"{path.relative_to(self.root)}: {path.read_text()}"
                for path in self.root.rglob("*")
                if path.is_file() and ".git" not in path.relative_to(self.root).parts
            ),
        ]


def make_checkout(root: Path, files: Mapping[str, str] = FILES) -> Checkout:
    """A repository on the branch main, whose first commit has these files."""
    root.mkdir(parents=True)
    made = Checkout(root)
    made.git("init", "--quiet", "--initial-branch", "main")
    made.first = made.commit("Lists that double", files)
    return made

"""A git repository: its revisions, merge bases and changed files.

Nothing here changes the repository. `git` is the one way to run git in it: without optional locks,
so that nobody who works in it is blocked, and without the variables that git sets for hooks, which
would lead to the index of the user.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from torchmark.engine.machine import need_tool, run_tool
from torchmark.errors import RepositoryError, UnknownRevisionError

OF_HOOKS: dict[str, str | None] = dict.fromkeys(
    ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
)
"""Variables that git sets for hooks. With them, git would use that repository and that index,
whatever the directory is. None removes them."""

_SECONDS = 120.0
"""How long git may take to answer. It reads from a slow disk, and from a network drive."""

_SHORT = 10
"""Digits of a commit that people are shown: unique in the largest repositories."""

_WHOLE_HISTORY = (
    "the clone is shallow; fetch the whole history: `fetch-depth: 0` of actions/checkout, "
    "`GIT_DEPTH: 0` in GitLab, or `git fetch --unshallow`"
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit."""

    id: str
    """Forty hexadecimal digits."""

    subject: str
    """The first line of its message."""

    @property
    def short(self) -> str:
        return self.id[:_SHORT]

    def __str__(self) -> str:
        """
        >>> print(Commit("0123456789abcdef", "Add a case"))
        0123456789 Add a case
        """
        return f"{self.short} {self.subject}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A git repository with a working tree."""

    root: Path
    """The top folder of the working tree."""

    common: Path
    """The folder that all working trees of the repository share; it identifies the repository."""

    def git(self, *arguments: str, seconds: float | None = _SECONDS) -> str:
        """Return what git prints; raise an error with its message if it fails."""
        done = _run(self.root, arguments, seconds)
        if done.returncode != 0:
            raise RepositoryError(
                f"git {' '.join(arguments)} failed in {self.root}:\n{done.stderr.strip()}"
            )
        return done.stdout

    def commit(self, revision: str) -> Commit:
        """Return the commit that a revision names; raise an error if there is none."""
        found = None
        if revision and not revision.startswith("-"):  # git would take it for an option
            asked = ("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
            found = _run(self.root, asked, _SECONDS).stdout.strip()
        if not found:
            remedy = _WHOLE_HISTORY if self.is_shallow() else "fetch it, or name another one"
            raise UnknownRevisionError(
                f"the repository {self.root} has no commit {revision!r}; {remedy}"
            )
        return Commit(found, self.git("log", "-1", "--format=%s", found).strip())

    def has(self, revision: str) -> bool:
        try:
            self.commit(revision)
        except UnknownRevisionError:
            return False
        return True

    def merge_base(self, one: Commit, other: Commit) -> Commit:
        """Return the newest commit that both contain; raise an error if there is none."""
        found = _run(self.root, ("merge-base", one.id, other.id), _SECONDS).stdout.strip()
        if not found:
            why = _WHOLE_HISTORY if self.is_shallow() else "they have no common history"
            raise RepositoryError(f"no merge base of {one.short} and {other.short} is known: {why}")
        return self.commit(found)

    def is_shallow(self) -> bool:
        return self.git("rev-parse", "--is-shallow-repository").strip() == "true"

    def is_dirty(self) -> bool:
        """Whether files that git knows differ from HEAD."""
        return bool(self.git("status", "--porcelain", "--untracked-files=no").strip())

    def changed_files(self, before: Commit, after: Commit | None = None) -> tuple[str, ...]:
        """Return the files that differ, relative to the root; a renamed file has both names.

        Without `after`, they are those of the working tree.
        """
        sides = [before.id] if after is None else [before.id, after.id]
        text = self.git("diff", "--name-only", "--no-renames", "-z", *sides, "--")
        return tuple(filter(None, text.split("\0")))


def find_repository(directory: Path) -> Repository:
    """Return the repository whose working tree has this directory."""
    done = _run(directory, ("rev-parse", "--show-toplevel", "--git-common-dir"), _SECONDS)
    if done.returncode != 0:
        raise RepositoryError(
            f"{directory} is not in the working tree of a git repository "
            f"({done.stderr.strip().partition(chr(10))[0]}); change to a checkout"
        )
    root, common = done.stdout.splitlines()
    return Repository(root=Path(root), common=(directory / common).resolve())


def _run(
    directory: Path, arguments: tuple[str, ...], seconds: float | None
) -> subprocess.CompletedProcess[str]:
    git = need_tool("git", "git is not on PATH; install the package 'git'")
    options = ["--no-optional-locks", "-c", "log.showSignature=false"]
    command = [git, *options, "-C", str(directory), *arguments]
    try:
        return run_tool(command, seconds, variables=OF_HOOKS)
    except subprocess.TimeoutExpired as error:
        raise RepositoryError(
            f"git {arguments[0]} did not end within {error.timeout:.0f} s in {directory}"
        ) from error

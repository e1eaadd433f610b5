"""Which cases a change can affect: from the names of the changed files, and what the project says.

Nothing is guessed from the code. A file affects every case, except:

- documentation and the configuration of CI affect none;
- a file of a suite affects its own cases;
- a file that an entry of [[affects]] in the settings names affects the cases of that entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchmark.define.suites.loading import PATTERN
from torchmark.model.units import ordered_unique
from torchmark.settings import AffectsSettings

NO_CODE = (
    "*.md", "*.rst", "*.txt", "docs/**", "doc/**", "LICENSE*", "NOTICE*", "AUTHORS*",
    "CITATION.cff", ".github/**", ".gitlab/**", ".gitlab-ci.yml", ".circleci/**",
    ".azure-pipelines/**", ".pre-commit-config.yaml", ".gitignore", ".gitattributes", ".mailmap",
    ".editorconfig",
)  # fmt: skip
"""Files that no benchmark reads: documentation, and the configuration of CI, git and editors."""

NEEDED_TEXT = ("requirements*.txt", "constraints*.txt", "CMakeLists.txt")
"""Text that builds read, although its name is that of documentation."""

_SHOWN = 3
"""Names of files in one sentence; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """The cases that a change can affect."""

    is_everything: bool = False
    suites: tuple[str, ...] = ()
    """The changed files of suites, relative to the repository: all of their cases."""

    patterns: tuple[str, ...] = ()
    """Patterns as for `-k`: the cases of all suites that match one of them."""

    why: str
    """A sentence."""

    @property
    def is_nothing(self) -> bool:
        return not (self.is_everything or self.suites or self.patterns)


def find_affected(
    changed: Sequence[str], suites: Iterable[str], entries: Sequence[AffectsSettings]
) -> Affected:
    """Return which cases the changed files can affect.

    `changed` are paths relative to the root of the repository, and so are `suites`: the files and
    folders of the suites in it.

    >>> find_affected(["README.md", "docs/conf.py"], [], []).is_nothing
    True
    >>> find_affected(["README.md", "src/ops.py"], [], []).why
    'src/ops.py can affect any case'
    >>> find_affected(["README.md", "marks/bench_a.py"], ["marks"], []).suites
    ('marks/bench_a.py',)
    """
    code = [file for file in changed if not is_no_code(file)]
    places = ordered_unique(suites)
    own = [file for file in code if _is_of_suite(file, places)]
    named = {file: found for file in code if (found := _entries_for(file, entries))}
    rest = [file for file in code if file not in own and file not in named]
    if rest:
        return Affected(is_everything=True, why=f"{_some(rest)} can affect any case")
    patterns = [each.cases for found in named.values() for each in found if each.cases is not None]
    if "" in patterns:
        every = [file for file, found in named.items() if any(each.cases == "" for each in found)]
        return Affected(is_everything=True, why=f"[[affects]]: {_some(every)} affects all cases")
    if not own and not patterns:
        return Affected(why=_why_nothing(changed, code))
    told = [f"the suite {_some(own)} has changed"] if own else []
    told += [f"[[affects]] names the cases of {_some([*named])}"] if patterns else []
    return Affected(
        suites=tuple(own), patterns=tuple(ordered_unique(patterns)), why="; ".join(told)
    )


def is_no_code(file: str) -> bool:
    """
    >>> [is_no_code(file) for file in ("a/b.md", "docs/x/y.py", "src/docs/x.py", "CMakeLists.txt")]
    [True, True, False, False]
    """
    return _matches_any(file, NO_CODE) and not _matches_any(file, NEEDED_TEXT)


def matches(file: str, pattern: str) -> bool:
    """Whether a path matches a pattern: `*` stands for a part of a name, `**` for folders too.

    A pattern without a slash matches files of that name in any folder.

    >>> [matches("src/nn/conv.py", each) for each in ("src/*.py", "src/**/*.py", "conv.*", "**")]
    [False, True, True, True]
    >>> matches("src/ops.py", "src/**/*.py")
    True
    """
    return _compiled(pattern).fullmatch(file) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    whole = pattern if "/" in pattern else f"**/{pattern}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", whole.removeprefix("./").removeprefix("/"))
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(each) or re.escape(each) for each in parts), re.DOTALL)


def _matches_any(file: str, patterns: Iterable[str]) -> bool:
    return any(matches(file, pattern) for pattern in patterns)


def _is_of_suite(file: str, suites: Iterable[str]) -> bool:
    """Whether it is the file of a suite, or a file that a folder of benchmarks loads."""
    path = Path(file)
    return any(
        path == Path(suite) or (path.parent == Path(suite) and path.match(PATTERN))
        for suite in suites
    )


def _entries_for(file: str, entries: Iterable[AffectsSettings]) -> list[AffectsSettings]:
    return [
        each
        for each in entries
        if _matches_any(file, [each.files] if isinstance(each.files, str) else each.files)
    ]


def _why_nothing(changed: Sequence[str], code: Sequence[str]) -> str:
    if not changed:
        return "no file differs"
    if not code:
        return f"only documentation and CI files differ: {_some(changed)}"
    return f"[[affects]]: no case depends on {_some(code)}"


def _some(files: Sequence[str]) -> str:
    """
    >>> _some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more files'
    """
    more = len(files) - _SHOWN
    if more <= 0:
        return ", ".join(files)
    return f"{', '.join(files[:_SHOWN])} and {more} more file{'' if more == 1 else 's'}"

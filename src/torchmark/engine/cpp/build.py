"""Statements in, shared objects out; what does not compile costs itself alone.

What is cached is reused statement by statement; the rest becomes one translation unit. If that
does not compile, the statements that the errors name are taken out and the others compiled again,
until they compile; where the errors name none, the unit is halved.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torchmark.engine.cpp.cache import (
    Cache,
    CacheUnusableError,
    digest_of,
    private_cache,
    user_cache,
    warn_unusable,
)
from torchmark.engine.cpp.compiler import Toolchain, find_toolchain
from torchmark.engine.cpp.diagnostics import PART_NAMES, Problem, first_errors, problems_in
from torchmark.engine.cpp.headers import Header, header_for, larger_header, prelude_of
from torchmark.engine.cpp.source import (
    RUN_SYMBOL,
    CppStatement,
    imbalance_of,
    includes_of,
    quotes_an_include,
    render,
    stands_alone,
)
from torchmark.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_MOST_PROBLEMS = 3
"""Errors of one statement that are shown; the later ones are mostly echoes of the first."""


@dataclass(frozen=True, slots=True)
class Built:
    """A statement that is ready to be loaded."""

    statement: CppStatement
    library: str
    """Path of the shared object."""
    symbol: str
    """Its entry point: `double (int64_t number, int64_t warmup, before, after)`."""


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """A statement that does not compile."""

    statement: CppStatement
    problems: tuple[Problem, ...]
    """The errors at places of the user's code; empty where the compiler named none."""
    message: str
    """What to tell the user: the own lines, and what the compiler said of them."""

    def error(self) -> CompileError:
        return CompileError(self.message)


class _Unit(NamedTuple):
    """Statements, by number, that are compiled together."""

    members: tuple[int, ...]
    header: Header


def build(
    statements: Sequence[CppStatement],
    *,
    toolchain: Toolchain | None = None,
    cache: Cache | None = None,
    precompile: bool | None = None,
) -> list[Built | BuildFailure]:
    """Compile what is not in the cache; one result for each statement, in their order.

    `precompile` is for a build of a single statement: True makes the precompiled header first,
    False does not, None makes it when one asks for the second time (see headers.py).
    """
    toolchain = toolchain or find_toolchain()
    cache = cache or user_cache()
    try:
        return _Builder(statements, toolchain, cache, precompile).results()
    except CacheUnusableError as error:
        warn_unusable(cache.root, str(error))
        try:
            return _Builder(statements, toolchain, private_cache(), precompile).results()
        except CacheUnusableError as again:
            raise CompileError(
                f"C++ statements cannot be built: {again}, in {private_cache().root} too"
            ) from again


def key_of(statement: CppStatement, toolchain: Toolchain) -> str:
    """What decides the build of a statement, as a digest; not the statements beside it."""
    # An include in quotes is looked up from the working directory.
    where = os.getcwd() if quotes_an_include(statement) else ""
    facts = "\0".join([toolchain.key, where, *statement])
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Builder:
    """One call of `build`, with one cache."""

    def __init__(
        self,
        statements: Sequence[CppStatement],
        toolchain: Toolchain,
        cache: Cache,
        precompile: bool | None,
    ) -> None:
        self._statements = statements
        self._toolchain = toolchain
        self._cache = cache
        self._keys = [key_of(statement, toolchain) for statement in statements]
        self._done: dict[str, Built | BuildFailure] = {}
        self._is_batch = len(set(self._keys)) > 1
        self._precompile = precompile

    def results(self) -> list[Built | BuildFailure]:
        missing = self._look_up(range(len(self._statements)))
        if missing:
            keys = " ".join(sorted(self._keys[number] for number in missing))
            with self._cache.lock("unit", keys):
                # Whoever had the lock before may have built the same.
                self._compile_all(self._look_up(missing))
            self._cache.trim()
        return [self._done[key] for key in self._keys]

    def _look_up(self, numbers: Iterable[int]) -> list[int]:
        """Take from the cache what is there; the numbers of the rest, without repetitions."""
        missing: dict[str, int] = {}
        for number in numbers:
            key = self._keys[number]
            stored = self._cache.find(key)
            if stored is None:
                missing.setdefault(key, number)
            else:
                self._done[key] = Built(self._statements[number], stored.library, stored.symbol)
        return sorted(missing.values())

    def _compile_all(self, numbers: Sequence[int]) -> None:
        units = self._units(numbers)
        while units:
            unit = units.pop(0)
            output = self._compile(unit)
            if output is not None:
                units = self._after_failure(unit, output) + units

    def _units(self, numbers: Sequence[int]) -> list[_Unit]:
        for number in numbers:
            statement = self._statements[number]
            # No compiler need be asked, unless a macro of the user has the other half.
            if imbalance_of(statement) and not any("#" in part for part in statement):
                self._fail(number, [], "")
        numbers = [number for number in numbers if self._keys[number] not in self._done]
        headers = {number: header_for(self._statements[number]) for number in numbers}
        alone = [number for number in numbers if stands_alone(self._statements[number])]
        together = tuple(number for number in numbers if number not in alone)
        units = [_Unit((number,), headers[number]) for number in alone]
        if together:
            units.insert(0, _Unit(together, max(headers[number] for number in together)))
        return units

    def _compile(self, unit: _Unit) -> str | None:
        """Build and keep a unit; None, or what the compiler said against it."""
        source = render({number: self._statements[number] for number in unit.members})
        precompile = False if self._is_batch else self._precompile
        with self._cache.workspace() as workspace, prelude_of(
            unit.header, self._toolchain, self._cache, workspace, precompile=precompile
        ) as prelude:  # fmt: skip
            file, library = workspace / "unit.cpp", workspace / "unit.so"
            depends = workspace / "unit.d"
            _write(file, source)
            needs_python = unit.header is Header.PYTHON
            done = self._toolchain.build(file, prelude, library, depends, uses_python=needs_python)
            if done.disk_was_full():
                raise CacheUnusableError("No space left on device")
            if not done.succeeded:
                return done.output
            read = _files_read(depends, besides=(file, prelude))
            symbols = {self._keys[number]: f"{RUN_SYMBOL}{number}" for number in unit.members}
            stored = self._cache.keep(library, symbols, read)
        for number in unit.members:
            key = self._keys[number]
            self._done[key] = Built(self._statements[number], *stored[key])
        return None

    def _after_failure(self, unit: _Unit, output: str) -> list[_Unit]:
        """Note whom the errors name; the units to compile next."""
        problems = self._problems(unit, output)
        if not problems and len(unit.members) > 1:
            middle = len(unit.members) // 2
            return [unit._replace(members=half)
                    for half in (unit.members[:middle], unit.members[middle:])]  # fmt: skip
        guilty = _surely_guilty(problems) or unit.members
        larger = []
        for number in guilty:
            own = [problem for problem in problems if problem.number == number]
            next_header = larger_header(unit.header, own, self._toolchain.api_folders)
            if next_header is not None:
                larger.append(number)
            else:
                self._fail(number, own, output)
        others = tuple(number for number in unit.members if number not in guilty)
        units = [unit._replace(members=others)] if others else []
        return [*units, _Unit(tuple(larger), Header.TORCH)] if larger else units

    def _problems(self, unit: _Unit, output: str) -> list[Problem]:
        """What the output says, and the same of others that include the same missing header."""
        problems = [found for found in problems_in(output) if found.number in unit.members]
        for problem in list(problems):
            if problem.part != "global_setup":
                continue
            include = includes_of(self._statements[problem.number]).get(problem.line)
            for number in unit.members:
                for line, text in includes_of(self._statements[number]).items():
                    if text == include and number != problem.number:
                        problems.append(
                            Problem(number, "global_setup", line, problem.message)
                        )  # fmt: skip
        return problems

    def _fail(self, number: int, problems: list[Problem], output: str) -> None:
        statement = self._statements[number]
        message = _explain(statement, problems, output, shlex.join(self._toolchain.command))
        self._done[self._keys[number]] = BuildFailure(statement, tuple(problems), message)


def _surely_guilty(problems: Sequence[Problem]) -> tuple[int, ...]:
    """The statements named, up to the first that breaks the syntax: the rest may be its victims."""
    guilty = []
    for number in sorted({problem.number for problem in problems}):
        guilty.append(number)
        if any(problem.breaks_syntax() for problem in problems if problem.number == number):
            break
    return tuple(guilty)


def _explain(
    statement: CppStatement, problems: Sequence[Problem], output: str, compiler: str
) -> str:
    lines = ["the C++ statement does not compile:"]
    imbalance = imbalance_of(statement)
    if imbalance is not None:
        lines += _at(statement, imbalance.part, imbalance.line, imbalance.message)
    for problem in problems[:_MOST_PROBLEMS]:
        lines += _at(statement, problem.part, problem.line, problem.message)
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"  and {len(problems) - _MOST_PROBLEMS} more errors")
    if len(lines) == 1:
        said = first_errors(output) or ["nothing"]
        lines += [f"  {compiler} said:", *(f"    {line}" for line in said)]
    return "\n".join(lines)


def _at(statement: CppStatement, part: str, line: int, message: str) -> list[str]:
    own = statement.parts().get(part, "").split("\n")
    if not 1 <= line <= len(own):
        return [f"  {PART_NAMES[part]}: {message}"]
    return [f"  {PART_NAMES[part]}, line {line}: {message}", f"    {own[line - 1].strip()}"]


def _write(file: Path, source: str) -> None:
    try:
        file.write_text(source, encoding="utf-8", errors="surrogatepass")
    except OSError as error:
        raise CacheUnusableError(error.strerror or str(error)) from error


def _files_read(depends: Path, besides: tuple[Path, ...]) -> dict[str, str]:
    """The user's own headers that the compiler read, with digests of their content."""
    try:
        rule = depends.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return {}
    # Make's format: `target: file file \\\n file`, blanks in names escaped.
    names = rule.partition(": ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    folders = {str(path.parent) for path in besides}
    paths = [os.path.abspath(name.replace("\0", " ")) for name in names]
    return {path: digest_of(path) for path in paths if os.path.dirname(path) not in folders}

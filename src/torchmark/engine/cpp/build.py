"""Statements in, shared objects out; what does not compile costs itself alone.

What is cached is reused statement by statement; the rest becomes one translation unit. If that
does not compile, the statements that the errors name are taken out and the others compiled again,
until they compile; where the errors name none, the unit is halved.

Measured with torch 2.13 and g++ 12, in seconds of CPU for one statement: `torch/types.h` 15,
`torch/torch.h` 34. Precompiling takes twice as long as compiling once (29 and 53) and half a
gigabyte; from then on a statement takes 4.3 and 12. So a header is precompiled when a second
single statement asks for it: whoever times one statement waits no longer, and from the fourth on
everybody is better off. A batch (forty: 15.5, or 6.3 with the precompiled header) uses what is
there, and never waits for one.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from torchmark.engine.cpp.cache import (
    Cache,
    CacheUnusableError,
    digest_of,
    or_unusable,
    private_cache,
    warn_unusable,
)
from torchmark.engine.cpp.compiler import Toolchain, find_toolchain
from torchmark.engine.cpp.diagnostics import (
    explain,
    problems_in,
    surely_guilty,
    what_is_lacking,
)
from torchmark.engine.cpp.source import (
    CppStatement,
    Header,
    Problem,
    header_for,
    imbalance_of,
    includes_of,
    larger_header,
    quotes_an_include,
    render,
    stands_alone,
    template_key,
)
from torchmark.errors import CompileError
from torchmark.files import cache_directory
from torchmark_probe.loops.clocks import Clock
from torchmark_probe.loops.native import RUN_SYMBOL, WARM_UP_RUNS, NativeBlocks, NativeLoop
from torchmark_probe.zygote.messages import NativeCase

_PRELUDE = "prelude.h"
_NO_SPACE = "No space left on device"


class _Unit(NamedTuple):
    """Statements, by number, that are compiled together."""

    members: tuple[int, ...]
    header: Header


def build(
    statements: Sequence[CppStatement],
    *,
    toolchain: Toolchain | None = None,
    cache: Cache | None = None,
) -> list[NativeCase | CompileError]:
    """Compile what is not in the cache; one result for each statement, in their order."""
    toolchain = toolchain or find_toolchain()
    cache = cache or Cache(cache_directory() / "cpp")
    try:
        return _Builder(statements, toolchain, cache).results()
    except CacheUnusableError as error:
        warn_unusable(cache.root, str(error))
        try:
            return _Builder(statements, toolchain, private_cache()).results()
        except CacheUnusableError as again:
            raise CompileError(
                f"C++ statements cannot be built: {again}, in {private_cache().root} too"
            ) from again


def key_of(statement: CppStatement, toolchain: Toolchain) -> str:
    """What decides the build of a statement, as a digest; not the statements beside it."""
    # An include in quotes is looked up from the working directory.
    where = os.getcwd() if quotes_an_include(statement) else ""
    facts = "\0".join([toolchain.key, template_key(), where, *statement])
    return hashlib.sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Builder:
    """One call of `build`, with one cache."""

    def __init__(
        self, statements: Sequence[CppStatement], toolchain: Toolchain, cache: Cache
    ) -> None:
        self._statements = statements
        self._toolchain = toolchain
        self._cache = cache
        self._keys = [key_of(statement, toolchain) for statement in statements]
        self._done: dict[str, NativeCase | CompileError] = {}
        self._is_batch = len(set(self._keys)) > 1

    def results(self) -> list[NativeCase | CompileError]:
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
                self._done[key] = stored
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
        header = unit.header
        with self._cache.workspace() as workspace, self._prelude(header, workspace) as prelude:
            file = workspace / "unit.cpp"
            with or_unusable():
                file.write_text(source, encoding="utf-8", errors="surrogatepass")
            needs_python = header is Header.PYTHON
            said = self._toolchain.build(file, prelude, uses_python=needs_python)
            if said is not None:
                if _NO_SPACE in said:
                    raise CacheUnusableError(_NO_SPACE)
                return said
            read = _files_read(file.with_suffix(".d"), besides=(file, prelude))
            symbols = {self._keys[number]: f"{RUN_SYMBOL}{number}" for number in unit.members}
            self._done |= self._cache.keep(file.with_suffix(".so"), symbols, read)
        return None

    @contextmanager
    def _prelude(self, header: Header, workspace: Path) -> Iterator[Path]:
        """The path of the header to include first, precompiled if that exists or is worth it."""
        text = header.prelude()
        key = hashlib.sha256(f"{self._toolchain.key}\n{text}".encode()).hexdigest()[:32]
        if not self._is_batch and self._cache.asked_before(key):
            self._precompile_header(text, key, workspace)
        with self._cache.header_in_use(key, f"{_PRELUDE}.gch") as compiled:
            if compiled is not None:
                yield compiled.with_name(_PRELUDE)
            else:
                plain = workspace / _PRELUDE
                plain.write_text(text)
                yield plain

    def _precompile_header(self, text: str, key: str, workspace: Path) -> None:
        with self._cache.lock("header", key):
            if self._cache.has_header(key, f"{_PRELUDE}.gch"):
                return
            folder = workspace / "header"
            folder.mkdir()
            plain, compiled = folder / _PRELUDE, folder / f"{_PRELUDE}.gch"
            plain.write_text(text)
            # Where it cannot be made (a full disk), the statement compiles without it.
            if self._toolchain.precompile(plain, compiled):
                self._cache.keep_header(key, [plain, compiled])

    def _after_failure(self, unit: _Unit, output: str) -> list[_Unit]:
        """Note whom the errors name; the units to compile next."""
        problems = self._problems(unit, output)
        if not problems and len(unit.members) > 1:
            middle = len(unit.members) // 2
            return [unit._replace(members=half)
                    for half in (unit.members[:middle], unit.members[middle:])]  # fmt: skip
        guilty = surely_guilty(problems) or unit.members
        larger = []
        for number in guilty:
            own = problems.get(number, [])
            if larger_header(unit.header, own, self._toolchain.api_folders) is not None:
                larger.append(number)
            else:
                self._fail(number, own, output)
        others = tuple(number for number in unit.members if number not in guilty)
        units = [unit._replace(members=others)] if others else []
        return [*units, _Unit(tuple(larger), Header.TORCH)] if larger else units

    def _problems(self, unit: _Unit, output: str) -> dict[int, list[Problem]]:
        """What the output says, and the same of others that include the same missing header."""
        named = problems_in(output)
        problems = {number: named[number] for number in unit.members if number in named}
        missing = {
            includes_of(self._statements[number]).get(problem.line): problem.message
            for number, found in problems.items()
            for problem in found
            if problem.part == "global_setup"
        }
        for number in unit.members:
            includes = includes_of(self._statements[number])
            same = [
                Problem("global_setup", line, missing[include])
                for line, include in includes.items()
                if include in missing
            ]
            if same:
                problems.setdefault(number, same)
        return problems

    def _fail(self, number: int, problems: Sequence[Problem], output: str) -> None:
        compiler = shlex.join(self._toolchain.command)
        message = explain(self._statements[number], problems, output, compiler)
        version = self._toolchain.torch_build.partition(" ")[0]
        lacking = what_is_lacking(problems, version)
        self._done[self._keys[number]] = CompileError(message, lacking=lacking)


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


class CppLoop:
    """`timeit`, and blocks that share one setup.

    The time is that of the loop's own steady clock, unless a clock of another kind is given: one
    that waits for an accelerator, or the user's own. That one is read right outside of the loop.
    """

    def __init__(
        self,
        stmt: str = "",
        setup: str = "",
        global_setup: str = "",
        clock: Clock = time.perf_counter,
    ) -> None:
        self.statement = CppStatement(stmt, setup, global_setup)
        self._clock = clock

    @cached_property
    def built(self) -> NativeCase:
        """The library and symbol; compiles at the first use, or raises a CompileError."""
        build_together([self])
        return self.built

    @cached_property
    def _native(self) -> NativeLoop:
        return NativeLoop(str(self.built.library), self.built.symbol)

    def timeit(self, number: int) -> float:
        """Run the setup, then the statement `number` times; seconds for all of them."""
        if self._clock is time.perf_counter:
            return self._native.run(number, WARM_UP_RUNS)
        readings: list[float] = []

        def read() -> None:
            readings.append(self._clock())

        self._native.run(number, WARM_UP_RUNS, read, read)
        return readings[1] - readings[0]

    def blocks(self) -> NativeBlocks:
        """Run the setup once, and the warm-up, and return the loop that is ready to run."""
        return self._native.blocks(WARM_UP_RUNS, self._clock)


def build_together(loops: Sequence[CppLoop]) -> None:
    """Build the loops that are not yet built as one batch; raise for the first that fails."""
    waiting = [loop for loop in loops if "built" not in vars(loop)]
    results = build([loop.statement for loop in waiting]) if waiting else []
    for loop, result in zip(waiting, results, strict=True):
        if isinstance(result, CompileError):
            raise result
        loop.built = result

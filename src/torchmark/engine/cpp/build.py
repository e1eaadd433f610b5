"""Builds C++ statements as shared objects; a statement that does not compile fails alone.

Cached builds are reused per statement. The rest becomes one translation unit. If the unit does not
compile, the statements named by the errors are removed and the others are compiled again. If the
errors name none, the unit is split in half.

Seconds of CPU with torch 2.13 and g++ 12, for one statement: 15 with `torch/types.h`, 34 with
`torch/torch.h`. Precompiling takes twice as long as compiling once (29 and 53) and half a gigabyte
on disk. With the precompiled header, a statement takes 4.3 and 12. So a header is precompiled when
a second single statement needs it: the first statement does not wait longer, and from the fourth
on precompiling has paid off. A batch (40 statements: 15.5, or 6.3 with the precompiled header) uses
a precompiled header if there is one, but never waits for one.
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
    """Statements, by number, that are compiled together, and the header that they need."""

    members: tuple[int, ...]
    header: Header


def build(
    statements: Sequence[CppStatement],
    *,
    toolchain: Toolchain | None = None,
    cache: Cache | None = None,
) -> list[NativeCase | CompileError]:
    """Compile the statements that are not cached; return one result per statement, in order."""
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
                f"C++ statements cannot be built: {again} (also in {private_cache().root})"
            ) from again


def key_of(statement: CppStatement, toolchain: Toolchain) -> str:
    """Return a digest of everything that affects the build, except other statements in the unit."""
    # An include in quotes is resolved from the working directory.
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
                # The previous holder of the lock may have built the same statements.
                self._compile_all(self._look_up(missing))
            self._cache.trim()
        return [self._done[key] for key in self._keys]

    def _look_up(self, numbers: Iterable[int]) -> list[int]:
        """Take builds from the cache; return the numbers of the rest, without duplicates."""
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
            # Fails without compiling, unless a macro of the user may contain the other half.
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
        """Build a unit and keep it; return None, or the compiler's output if it failed."""
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
            read = _files_read(file.with_suffix(".d"), other_than=(file, prelude))
            symbols = {self._keys[number]: f"{RUN_SYMBOL}{number}" for number in unit.members}
            self._done |= self._cache.keep(file.with_suffix(".so"), symbols, read)
        return None

    @contextmanager
    def _prelude(self, header: Header, workspace: Path) -> Iterator[Path]:
        """Yield the path of the header to include first, precompiled if that is worthwhile."""
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
            # If this fails (for example on a full disk), the statement compiles without it.
            if self._toolchain.precompile(plain, compiled):
                self._cache.keep_header(key, [plain, compiled])

    def _after_failure(self, unit: _Unit, output: str) -> list[_Unit]:
        """Record the failed statements that the errors name; return the units to compile next."""
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
        """Return the problems in the output, repeated for statements with the same bad include."""
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


def _files_read(depends: Path, other_than: tuple[Path, ...]) -> dict[str, str]:
    """Return the user's own headers that the compiler read, with digests of their content."""
    try:
        rule = depends.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return {}
    # The format is make's: `target: file file \\\n file`, with escaped blanks in names.
    names = rule.partition(": ")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    folders = {str(path.parent) for path in other_than}
    paths = [os.path.abspath(name.replace("\0", " ")) for name in names]
    return {path: digest_of(path) for path in paths if os.path.dirname(path) not in folders}


class CppLoop:
    """A C++ loop with `timeit`, and with blocks that share one setup.

    Time is measured by the loop's own steady clock. A different clock (one that waits for an
    accelerator, or the user's own) is read right before and after the loop.
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
        """The library and symbol; compiled on first use; raises CompileError if that fails."""
        build_together([self])
        return self.built

    @cached_property
    def _native(self) -> NativeLoop:
        return NativeLoop(str(self.built.library), self.built.symbol)

    def timeit(self, number: int) -> float:
        """Run the setup, then the statement `number` times; return the seconds for all runs."""
        if self._clock is time.perf_counter:
            return self._native.run(number, WARM_UP_RUNS)
        readings: list[float] = []

        def read() -> None:
            readings.append(self._clock())

        self._native.run(number, WARM_UP_RUNS, read, read)
        return readings[1] - readings[0]

    def blocks(self) -> NativeBlocks:
        """Run the setup and the warm-up once, and return a loop that is ready to run blocks."""
        return self._native.blocks(WARM_UP_RUNS, self._clock)


def build_together(loops: Sequence[CppLoop]) -> None:
    """Build the loops that are not built yet as one batch; raise for the first that fails."""
    waiting = [loop for loop in loops if "built" not in vars(loop)]
    results = build([loop.statement for loop in waiting]) if waiting else []
    for loop, result in zip(waiting, results, strict=True):
        if isinstance(result, CompileError):
            raise result
        loop.built = result

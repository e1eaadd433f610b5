"""A fake compiler for the logic, and one real batch, built once, for what the compiler promises."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Cache
from torchmark.engine.cpp.compiler import Toolchain
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.zygote.cases import NativeCase

if TYPE_CHECKING:
    from torchmark.errors import CompileError

FAKE = Path(__file__).with_name("fake_compiler.py")


@dataclass
class FakeBuilds:
    """A cache, the fake compiler, and the log of its runs."""

    cache: Cache
    toolchain: Toolchain
    log: Path

    def build(
        self, *statements: str, precompile: bool | None = None
    ) -> list[NativeCase | CompileError]:
        return self.build_all([CppStatement(text) for text in statements], precompile)

    def build_all(
        self, statements: list[CppStatement], precompile: bool | None = None
    ) -> list[NativeCase | CompileError]:
        """`precompile` says whether somebody has asked for the header before."""
        with pytest.MonkeyPatch.context() as patch:
            if precompile is not None:
                patch.setattr(Cache, "asked_before", lambda *_: precompile)
            return build(statements, toolchain=self.toolchain, cache=self.cache)

    def runs(self) -> list[str]:
        """What was compiled since the last time this was asked."""
        runs = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return runs


def fake_toolchain(api: Path) -> Toolchain:
    return Toolchain(
        command=(sys.executable, "-S", str(FAKE)),
        version="fake 1",
        flags=("-O2",),
        link_flags=("-shared",),
        torch_build="none",
        api_folders=(api,),
    )


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBuilds:
    log = tmp_path / "compiler.log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    api = tmp_path / "api"
    api.mkdir()
    (api / "larger.h").write_text("namespace torch { int MISSING_NAME(); }\n")
    return FakeBuilds(Cache(tmp_path / "builds"), fake_toolchain(api), log)


@dataclass
class RealBatch:
    """Real statements, compiled together by the real compiler."""

    home: Path
    """What XDG_CACHE_HOME must be for Timer to find them."""

    statements: dict[str, CppStatement]
    results: dict[str, NativeCase | CompileError]

    def built(self, name: str) -> NativeCase:
        result = self.results[name]
        assert isinstance(result, NativeCase), result
        return result


@pytest.fixture(scope="session")
def real_batch(tmp_path_factory: pytest.TempPathFactory) -> RealBatch:
    home = tmp_path_factory.mktemp("cpp")
    shared = home / "shared.h"
    shared.write_text("#pragma once\n#include <cstdint>\ninline int64_t counted = 0;\n")
    statements = {
        "add": CppStatement(
            "torch::Tensor z = x + y;", "auto x = torch::ones({4});\nauto y = torch::ones({4});"
        ),
        "helper is a function": CppStatement(
            'if (helper() != LIMIT) throw std::runtime_error("the helper of another");',
            "",
            "#include <stdexcept>\n#define LIMIT 10\nstatic int helper() { return 10; }",
        ),
        "helper is a type": CppStatement(
            'if (helper{}.value != LIMIT) throw std::runtime_error("the helper of another");',
            "",
            "#include <stdexcept>\n#define LIMIT 11L\nstruct helper { long value = LIMIT; }",
        ),
        "misspelt": CppStatement("x + y", "int x = 1;\nauto y = torch::onse({2});"),
        "counts": CppStatement("++counted;", "counted = 0;", f'#include "{shared}"'),
        "reads": CppStatement(
            "throw std::runtime_error(std::to_string(counted));", "", f'#include "{shared}"'
        ),
        "torch throws": CppStatement(
            "torch::mm(x, y);", "auto x = torch::ones({4, 4}), y = torch::ones({3, 4});"
        ),
        "throws a number": CppStatement("throw 3;"),
        "breaks": CppStatement("break;"),
        "without grad": CppStatement(
            'if ((x * x).requires_grad()) throw std::runtime_error("the grad mode of another");',
            "torch::NoGradGuard guard;\nauto x = torch::ones({4}).set_requires_grad(true);",
        ),
        "with grad": CppStatement(
            'if (!(x * x).requires_grad()) throw std::runtime_error("the grad mode of another");',
            "auto x = torch::ones({4}).set_requires_grad(true);",
        ),
        "threads": CppStatement(
            "at::parallel_for(0, 2, 1, [&](int64_t begin, int64_t) { seen[begin] = true; });\n"
            "if (at::get_num_threads() != 2) throw std::runtime_error("
            '"threads: " + std::to_string(at::get_num_threads()));\n'
            "std::set<int> ids;\n"
            "std::mutex mutex;\n"
            "at::parallel_for(0, 2, 1, [&](int64_t, int64_t) {\n"
            "  std::lock_guard<std::mutex> guard(mutex);\n"
            "  ids.insert(at::get_thread_num()); });\n"
            'if (ids.size() != 2) throw std::runtime_error("one thread did all");',
            "bool seen[2] = {false, false};",
            "#include <ATen/Parallel.h>\n#include <mutex>\n#include <set>\n#include <string>",
        ),
    }
    cache = Cache(home / "torchmark" / "cpp")
    results = build(list(statements.values()), cache=cache)
    return RealBatch(home, statements, dict(zip(statements, results, strict=True)))


@pytest.fixture
def real(real_batch: RealBatch, monkeypatch: pytest.MonkeyPatch) -> RealBatch:
    """The batch, and a cache of this test in which Timer finds it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(real_batch.home))
    return real_batch

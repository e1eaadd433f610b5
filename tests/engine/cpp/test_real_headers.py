"""The real compiler with torch's real headers: precompiled, the next larger one, and the linker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Cache
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.zygote.cases import NativeCase
from torchmark.errors import CompileError
from torchmark_probe.loops.native import NativeLoop

if TYPE_CHECKING:
    from pathlib import Path

SETUP = "auto x = torch::ones({4});"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("headers"))


def built(cache: Cache, statement: CppStatement, *, precompile: bool) -> NativeCase:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cache, "asked_before", lambda *_: precompile)
        (result,) = build([statement], cache=cache)
    assert isinstance(result, NativeCase), result
    assert NativeLoop(str(result.library), result.symbol).run(3, 1) >= 0
    return result


def only(cache: Cache, name: str) -> Path:
    (path,) = cache.root.rglob(name)
    return path


def test_a_precompiled_header_serves_the_next_statements(cache: Cache) -> None:
    built(cache, CppStatement("auto z = x + 1;", SETUP), precompile=True)
    compiled = only(cache, "prelude.h.gch")
    made = compiled.stat().st_ino
    # The compiler reads this text only if it does not take the precompiled form.
    only(cache, "prelude.h").write_text("#error the precompiled header was not used\n")
    built(cache, CppStatement("auto z = x + 2;", SETUP), precompile=True)
    assert only(cache, "prelude.h.gch").stat().st_ino == made


def test_what_the_small_header_lacks_is_looked_for_in_the_large_one(cache: Cache) -> None:
    statement = CppStatement("d.size();", "torch::OrderedDict<std::string, int> d;")
    built(cache, statement, precompile=False)


def test_what_the_linker_misses_is_said(cache: Cache) -> None:
    statement = CppStatement("nowhere();", "", "void nowhere();")
    (result,) = build([statement], cache=cache)
    assert isinstance(result, CompileError)
    assert "nowhere" in str(result)
    assert "undefined" in str(result)

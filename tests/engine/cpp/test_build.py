"""Batches, culprits and the cache, with a compiler whose answers are known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchmark.engine.cpp import source
from torchmark.engine.cpp.build import build
from torchmark.engine.cpp.cache import Cache, private_cache, warn_unusable
from torchmark.engine.cpp.source import CppStatement
from torchmark.engine.zygote.cases import NativeCase
from torchmark.errors import CompileError

from .conftest import FakeBuilds, fake_toolchain


def kinds(results: list[NativeCase | CompileError]) -> str:
    return "".join("." if isinstance(result, NativeCase) else "F" for result in results)


def test_a_batch_is_one_unit(fake: FakeBuilds) -> None:
    results = fake.build("a;", "b;", "c;")
    assert kinds(results) == "..."
    assert fake.runs() == ["unit 0 1 2"]
    assert [result.symbol for result in results if isinstance(result, NativeCase)] == [
        "torchmark_run_0",
        "torchmark_run_1",
        "torchmark_run_2",
    ]


def test_any_subset_is_found_again(fake: FakeBuilds) -> None:
    first = fake.build("a;", "b;", "c;")
    fake.runs()
    assert fake.build("c;", "a;") == [first[2], first[0]]
    assert fake.runs() == []


@pytest.mark.parametrize("text", ["_FUNCTION", "support"])
def test_what_another_torchmark_built_around_a_statement_is_not_used(
    fake: FakeBuilds, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    fake.build("a;", precompile=False)
    fake.runs()
    now = getattr(source, text)
    other = (lambda: now() + "//\n") if callable(now) else now + "//\n"
    monkeypatch.setattr(source, text, other)
    fake.build("a;", precompile=False)
    assert fake.runs() == ["unit 0"]


def test_only_what_is_new_is_compiled(fake: FakeBuilds) -> None:
    fake.build("a;", "b;")
    fake.runs()
    assert kinds(fake.build("a;", "new;", "b;", "newer;")) == "...."
    assert fake.runs() == ["unit 1 3"]


def test_a_statement_given_twice_is_compiled_once(fake: FakeBuilds) -> None:
    first, second = fake.build("a;", "a;")
    assert first == second
    assert fake.runs() == ["unit 0"]


def test_a_batch_survives_bad_statements(fake: FakeBuilds) -> None:
    results = fake.build("a;", "BAD;", "b;", "BAD(2);")
    assert kinds(results) == ".F.F"
    assert fake.runs() == ["unit 0 1 2 3", "unit 0 2"]
    failure = results[1]
    assert isinstance(failure, CompileError)
    assert str(failure) == (
        "the C++ statement does not compile:\n  statement, line 1: a bad word\n    BAD;"
    )


def test_a_name_that_torch_lacks_is_told_from_a_mistake(fake: FakeBuilds) -> None:
    lacking, mistake = fake.build("at::LACKING(1);", "BAD;")
    assert isinstance(lacking, CompileError)
    assert lacking.lacking == "torch none has no at::LACKING"
    assert "'LACKING' is not a member of 'at'" in str(lacking)
    assert isinstance(mistake, CompileError)
    assert mistake.lacking == ""


def test_victims_of_a_syntax_error_get_another_chance(fake: FakeBuilds) -> None:
    assert kinds(fake.build("a;", "BAD;", "SYNTAX;", "b;", "c;")) == ".FF.."
    assert fake.runs() == ["unit 0 1 2 3 4", "unit 0 3 4"]


def test_errors_that_name_nobody_are_found_by_halving(fake: FakeBuilds) -> None:
    results = fake.build("a;", "b;", "c;", "HIDDEN;", "d;")
    assert kinds(results) == "...F."
    assert fake.runs() == ["unit 0 1 2 3 4", "unit 0 1", "unit 2 3 4", "unit 2", "unit 3 4",
                           "unit 3", "unit 4"]  # fmt: skip
    assert isinstance(results[3], CompileError)
    assert "something is wrong" in str(results[3])


def test_an_unclosed_bracket_asks_no_compiler(fake: FakeBuilds) -> None:
    results = fake.build("a;", "f(1;")
    assert kinds(results) == ".F"
    assert fake.runs() == ["unit 0"]
    assert isinstance(results[1], CompileError)
    assert "'(' is never closed\n    f(1;" in str(results[1])


def test_what_stands_alone_has_its_own_unit(fake: FakeBuilds) -> None:
    alone = CppStatement("f();", "", 'extern "C" int f();')
    assert kinds(fake.build_all([CppStatement("a;"), alone, CppStatement("b;")])) == "..."
    assert fake.runs() == ["unit 0 2", "unit 1"]


def test_a_missing_name_is_looked_for_in_the_larger_header(fake: FakeBuilds) -> None:
    assert kinds(fake.build("a;", "MISSING_NAME;")) == ".."
    assert fake.runs() == ["unit 0 1", "unit 0", "unit 1"]


def test_a_failure_is_not_kept(fake: FakeBuilds) -> None:
    fake.build("BAD;", precompile=False)
    fake.build("BAD;", precompile=False)
    assert fake.runs() == ["unit 0", "unit 0"]


def test_the_second_single_statement_precompiles(fake: FakeBuilds) -> None:
    for statement in ("a;", "b;", "c;"):
        fake.build(statement)
    assert fake.runs() == ["unit 0", "header", "pch 0", "pch 0"]


def test_a_batch_uses_a_precompiled_header_and_makes_none(fake: FakeBuilds) -> None:
    fake.build("a;", "b;")
    fake.build("c;", "d;")
    assert fake.runs() == ["unit 0 1", "unit 0 1"]
    fake.build("e;", precompile=True)
    fake.build("f;", "g;")
    assert fake.runs() == ["header", "pch 0", "pch 0 1"]


def test_a_changed_header_of_the_user_is_compiled_again(fake: FakeBuilds, tmp_path: Path) -> None:
    header = tmp_path / "mine.h"
    header.write_text("int f();")
    statement = CppStatement("f();", "", f'#include "{header}"')
    fake.build_all([statement])
    fake.build_all([statement])
    assert fake.runs() == ["unit 0"]
    header.write_text("long f();")
    fake.build_all([statement], precompile=False)
    assert fake.runs() == ["unit 0"]


def test_another_compiler_or_torch_has_its_own_builds(fake: FakeBuilds, tmp_path: Path) -> None:
    fake.build("a;", precompile=False)
    other = fake_toolchain(tmp_path / "elsewhere")
    object.__setattr__(other, "torch_build", "another")
    build([CppStatement("a;")], toolchain=other, cache=fake.cache)
    assert fake.runs() == ["unit 0", "unit 0"]


@pytest.fixture
def unusable(tmp_path: Path) -> Cache:
    """What a read-only cache is to root: a directory that cannot be made."""
    (tmp_path / "file").write_text("")
    warn_unusable.cache_clear()
    return Cache(tmp_path / "file" / "builds")


def test_a_cache_that_cannot_be_written_is_said_once_and_done_without(
    fake: FakeBuilds, unusable: Cache
) -> None:
    fake.cache = unusable
    with pytest.warns(UserWarning, match="cannot be kept in .*Not a directory"):
        (first,) = fake.build("kept privately;", precompile=False)
    # Warnings are errors here, so a second one would be seen.
    assert fake.build("kept privately;", precompile=False) == [first]
    fake.build("another;", precompile=False)
    assert isinstance(first, NativeCase)
    assert private_cache().root in Path(first.library).parents
    assert fake.runs() == ["unit 0", "unit 0"]


def test_a_full_disk_is_said_and_the_message_names_it(fake: FakeBuilds) -> None:
    warn_unusable.cache_clear()
    with (
        pytest.warns(UserWarning, match="No space left on device"),
        pytest.raises(CompileError, match="No space left"),
    ):
        fake.build("FULL;", precompile=False)


def test_nothing_is_left_of_a_build(fake: FakeBuilds) -> None:
    fake.build("a;", "BAD;")
    assert os.listdir(fake.cache.root / "work") == []

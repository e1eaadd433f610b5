"""Which cases a change can affect: everything, unless the files or the settings say otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.affected import Affected, find_affected, matches
from torchmark.settings import AffectsSettings

LINEAR = AffectsSettings(files="src/nn/**", cases="linear")
SUITES = ["benchmarks", "more/extra.py"]


def found(*changed: str, entries: tuple[AffectsSettings, ...] = ()) -> Affected:
    return find_affected(changed, SUITES, entries)


@pytest.mark.parametrize(
    "file", ["README.md", "docs/conf.py", ".github/workflows/ci.yml", "LICENSE", "a/notes.rst"]
)
def test_documentation_and_ci_affect_no_case(file: str) -> None:
    nothing = found(file)
    assert nothing.is_nothing
    assert nothing.why == f"only documentation and CI files differ: {file}"


@pytest.mark.parametrize(
    "file",
    ["src/a.py", "setup.cfg", "requirements.txt", "sub/CMakeLists.txt", "benchmarks/util.py"],
)
def test_any_other_file_affects_every_case(file: str) -> None:
    everything = found("README.md", file, "benchmarks/bench_a.py")
    assert everything.is_everything
    assert everything.why == f"{file} can affect any case"


def test_a_file_of_a_suite_affects_its_own_cases() -> None:
    own = found("benchmarks/bench_a.py", "more/extra.py")
    assert (own.suites, own.patterns) == (("benchmarks/bench_a.py", "more/extra.py"), ())
    assert not own.is_everything
    assert found("benchmarks/deeper/bench_a.py").is_everything


def test_settings_narrow_the_cases_if_they_name_every_file() -> None:
    narrow = found("src/nn/linear.py", entries=(LINEAR,))
    assert narrow.patterns == ("linear",)
    assert narrow.why == "[[affects]] names the cases of src/nn/linear.py"
    assert found("src/nn/linear.py", "src/ops.py", entries=(LINEAR,)).is_everything
    both = found("src/nn/linear.py", "benchmarks/bench_a.py", entries=(LINEAR,))
    assert (both.suites, both.patterns) == (("benchmarks/bench_a.py",), ("linear",))


def test_all_entries_that_name_a_file_count() -> None:
    more = AffectsSettings(files=("*.cu", "src/**/linear.py"), cases="matmul")
    assert found("src/nn/linear.py", entries=(LINEAR, more)).patterns == ("linear", "matmul")


def test_settings_can_say_that_files_affect_no_case_or_all() -> None:
    tests = AffectsSettings(files="tests/**")
    assert found("tests/test_a.py", entries=(tests,)).is_nothing
    every = AffectsSettings(files="tests/**", cases="")
    assert found("tests/test_a.py", entries=(tests, every)).is_everything


def test_without_a_difference_nothing_is_affected() -> None:
    assert find_affected([], [], []).why == "no file differs"


def test_many_files_are_counted() -> None:
    assert found(*(f"{number}.py" for number in range(5))).why == (
        "0.py, 1.py, 2.py and 2 more files can affect any case"
    )


@given(st.text(), st.text())
def test_any_text_is_a_pattern(file: str, pattern: str) -> None:
    assert matches(file, pattern) in (True, False)
    assert matches("a.py", "a.py")
    assert not matches("apy", "a.py"), "a point is no wildcard"

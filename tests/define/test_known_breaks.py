"""The table of known breaks: how it is read, whom it means, and that an old torch agrees."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.test_old_torch import OLD_PYTHON
from torchmark.define import skips
from torchmark.define.expansion import materialize
from torchmark.define.grouped import GroupedStmts
from torchmark.define.skips import breaks_in, find_known_break, known_breaks
from torchmark.define.suites import standard
from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.engine.cpp.compiler import toolchain_of
from torchmark.engine.environments import ask_interpreter
from torchmark.engine.preparing import Models, prepare_cases
from torchmark.engine.under_test import Workers
from torchmark.engine.zygote.process import Launch
from torchmark.errors import KnownBreaksError, TorchmarkError
from torchmark.model.case import Autograd, Case, Language, Runtime, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = {
    "1.4.0": 23, "1.5.1": 6, "1.6.0": 6, "1.7.1": 6, "1.8.1+cu102": 3, "1.9.1+cu102": 0,
    "1.10.0+cu102": 8, "1.11.0+cu102": 8, "1.12.0+cu102": 8, "1.13.1+cu117": 8, "2.0.1+cu117": 8,
}  # fmt: skip
"""How many cases of the standard suite failed where all of it was run, by torch from PyPI."""


@pytest.fixture(scope="module")
def suite() -> tuple[Case, ...]:
    return cases_of([load_suite("standard")])


def case(stmt: str, **options: Any) -> Case:
    return Case(label=("group", "case"), stmt=stmt, **options)


def cpp(stmt: str, **options: Any) -> Case:
    return case(stmt, language=Language.CPP, **options)


def using(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let this be the table."""
    entries = breaks_in(text)
    monkeypatch.setattr(skips, "known_breaks", lambda: entries)


@pytest.mark.parametrize(
    ("version", "is_left_out"),
    [
        ("1.8", True),
        ("1.8.1+cu102", True),
        ("1.10.0", False),
        ("1.13.0a0", False),
        ("1.9.0a0+git1234", False),
        ("2.13.0+cpu", False),
        ("0.4.1", True),
        ("Unknown", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, is_left_out: bool) -> None:
    guard = cpp("c10::InferenceMode guard;")
    assert (find_known_break(guard, version) is not None) == is_left_out


def test_a_range_has_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    using(monkeypatch, '[[break]]\ntorch = ">=1.10,<2.1"\nuses = "x"\nreason = "a bug"')
    versions = ("1.9.1", "1.10.0", "2.0.1+cu117", "2.1.0a0")
    assert [find_known_break(case("x"), version) for version in versions] == [
        None, "a bug", "a bug", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "place",
    [
        case("word"),
        case("y", setup="word"),
        case("y", global_setup="word"),
        case("y", model=ScriptedModel(source="word")),
    ],
    ids=["statement", "setup", "global setup", "model"],
)
def test_what_a_case_uses_is_looked_for_in_all_of_its_text(
    place: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    using(monkeypatch, '[[break]]\ntorch = "<2.0"\nuses = "w.rd"\nreason = "no words"')
    assert find_known_break(place, "1.13.1") == "no words"
    assert find_known_break(case("y"), "1.13.1") is None


@pytest.mark.parametrize(
    ("condition", "meant", "other"),
    [
        ('language = "cpp"', cpp("x"), case("x")),
        ('language = "python"', case("x"), cpp("x")),
        (
            'runtime = "torchscript"',
            case("x", runtime=Runtime.TORCHSCRIPT),
            case("x", runtime=Runtime.EAGER),
        ),
        (
            'autograd = "forward + backward"',
            case("x", autograd=Autograd.FORWARD_BACKWARD),
            case("x", autograd=Autograd.FORWARD),
        ),
    ],
)
def test_an_entry_means_a_language_a_runtime_or_passes(
    condition: str, meant: Case, other: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    using(monkeypatch, f'[[break]]\ntorch = "<2.0"\n{condition}\nreason = "broken"')
    assert find_known_break(meant, "1.0") == "broken"
    assert find_known_break(other, "1.0") is None


def test_all_that_an_entry_says_must_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    using(
        monkeypatch,
        '[[break]]\ntorch = "<2.0"\nlanguage = "cpp"\nuses = "word"\nreason = "broken"',
    )
    assert find_known_break(cpp("word"), "1.0") == "broken"
    assert find_known_break(cpp("x"), "1.0") is None
    assert find_known_break(case("word"), "1.0") is None


def test_the_first_entry_that_holds_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    using(
        monkeypatch,
        '[[break]]\ntorch = "<1.0"\nuses = "x"\nreason = "first"\n'
        '[[break]]\ntorch = "<2.0"\nuses = "x"\nreason = "second"',
    )
    assert find_known_break(case("x"), "0.4") == "first"
    assert find_known_break(case("x"), "1.0") == "second"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[break", r"known_breaks\.toml: "),
        ("[[brake]]", "brake"),
        ('[[break]]\nuses = "x"\nreason = "r"', "missing required field `torch`.*break"),
        ('[[break]]\ntorch = "<2.0"\nuses = "x"', "missing required field `reason`"),
        ('[[break]]\ntorch = 2.0\nuses = "x"\nreason = "r"', "Expected `str`"),
        ('[[break]]\ntorch = "2.0"\nuses = "x"\nreason = "r"', "entry 1: versions of torch"),
        ('[[break]]\ntorch = ""\nuses = "x"\nreason = "r"', "entry 1: "),
        ('[[break]]\ntorch = "<2.0"\nuses = "x"\nreason = " "', "entry 1: .*reason"),
        ('[[break]]\ntorch = "<2.0"\nuses = "("\nreason = "r"', "entry 1: uses is not a regular"),
        ('[[break]]\ntorch = "<2.0"\nreason = "r"', "entry 1 matches every case"),
        ('[[break]]\ntorch = "<2.0"\nuses = "x"\nreason = "r"\nsince = "1"', "since"),
        ('[[break]]\ntorch = "<2.0"\nlanguage = "rust"\nreason = "r"', "rust"),
        ('[[break]]\ntorch = "<2.0"\nruntime = "slow"\nreason = "r"', "slow"),
    ],
)
def test_a_damaged_table_is_an_error_that_names_the_place(text: str, said: str) -> None:
    with pytest.raises(KnownBreaksError, match=said):
        breaks_in(text)


OUTSIDE_OF_THE_SUITE = {
    "torch.inference_mode was added in torch": case("with torch.inference_mode(): pass"),
    "torch.compile was added in torch": case("f(1)", setup="f = torch.compile(lambda x: x)"),
    "torch.func and torch.vmap": case("torch.func.grad(f)(x)"),
    "scaled_dot_product_attention": case("F.scaled_dot_product_attention(q, k, v)"),
}
"""Entries for what other suites use, by the start of their reasons, with a case for each."""


def test_every_entry_means_a_case_of_the_standard_suite_or_one_of_these(
    suite: tuple[Case, ...],
) -> None:
    for entry in known_breaks():
        reason = entry.condition.reason
        others = [each for start, each in OUTSIDE_OF_THE_SUITE.items() if reason.startswith(start)]
        assert any(entry.means(each) for each in (*suite, *others)), reason


@pytest.mark.parametrize("start", OUTSIDE_OF_THE_SUITE)
def test_what_came_later_is_left_out_before(start: str) -> None:
    reason = find_known_break(OUTSIDE_OF_THE_SUITE[start], "1.8.1")
    assert reason is not None
    assert reason.startswith(start)
    assert find_known_break(OUTSIDE_OF_THE_SUITE[start], "2.0.1") is None


def test_the_runtime_of_torch_compile_is_left_out_before_2_0() -> None:
    cases = materialize(GroupedStmts("y = x + 1", signature="f(x) -> y", compile=True))
    left_out = {each.runtime for each in cases if find_known_break(each, "1.13.1")}
    assert left_out == {Runtime.COMPILED}


@pytest.mark.parametrize("version", FAILED)
def test_every_break_that_was_seen_is_in_the_table(suite: tuple[Case, ...], version: str) -> None:
    left_out = [each for each in suite if find_known_break(each, version) is not None]
    assert len(left_out) == FAILED[version]


def test_before_1_0_no_cpp_runs(suite: tuple[Case, ...]) -> None:
    for each in suite:
        assert (find_known_break(each, "0.4.1") is not None) == (each.language is Language.CPP)


def test_the_torch_of_today_runs_all_of_the_standard_suite(suite: tuple[Case, ...]) -> None:
    assert {find_known_break(each, "2.13.0+cpu") for each in suite} == {None}


@pytest.fixture
def old_workers() -> Iterator[Workers]:
    workers = Workers(Launch(interpreter=ask_interpreter(OLD_PYTHON)))
    yield workers
    workers.close()


def no_stage(_: str) -> AbstractContextManager[None]:
    return nullcontext()


def test_what_the_table_leaves_of_the_quick_subset_runs_in_an_old_torch(
    old_workers: Workers, suite: tuple[Case, ...]
) -> None:
    """Python, TorchScript and C++, forward and backward, with models and builds of that torch."""
    facts = old_workers.facts()
    left = [each for each in standard.quick(suite) if not find_known_break(each, facts["torch"])]
    assert {(each.language, each.runtime) for each in left} == {
        (language, runtime)
        for language in Language
        for runtime in (Runtime.EAGER, Runtime.TORCHSCRIPT)
    }
    models = Models(old_workers, cores=(), kept=None, time_limit=60.0)
    ready = prepare_cases(
        left, models, units_at_once=1, stage=no_stage, toolchain=partial(toolchain_of, facts)
    )
    zygote = old_workers.start(1, under_callgrind=False)
    failures, done = {}, 0
    for each, what in ready:
        try:
            if isinstance(what, TorchmarkError):
                raise what
            zygote.run(what)
            done += 1
        except TorchmarkError as error:
            failures[each.title] = str(error)
    models.close()
    assert failures == {}
    assert done == len(left) >= 12

"""How many cases a definition gives, in which order, and under which labels and ids."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.expansion import expand, features_asked, materialize
from torchmark.define.grouped import (
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    GroupedVariants,
    TimerArgs,
)
from torchmark.define.skips import EnvironmentFacts, skip_if
from torchmark.errors import DefinitionError
from torchmark.model.case import Autograd, Case, Language, Runtime

GRIDS = st.dictionaries(
    st.sampled_from(["n", "m"]), st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
)
THREADS = st.lists(st.integers(1, 8), min_size=1, max_size=3, unique=True)


def ways_of(cases: tuple[Case, ...]) -> list[tuple[Language, Runtime, Autograd, int]]:
    return [(case.language, case.runtime, case.autograd, case.num_threads) for case in cases]


@given(
    has_cpp=st.booleans(),
    torchscript=st.booleans(),
    compiled=st.booleans(),
    autograd=st.booleans(),
    threads=THREADS,
    params=GRIDS,
    from_model=st.booleans(),
)
def test_a_definition_gives_the_product_of_all_its_options(
    has_cpp: bool,
    torchscript: bool,
    compiled: bool,
    autograd: bool,
    threads: list[int],
    params: dict[str, list[int]],
    from_model: bool,
) -> None:
    make = GroupedModules if from_model else GroupedStmts
    cases = materialize(
        make(
            "model = y = x",
            "auto model = x, y = x;" if has_cpp else None,
            signature="f(x) -> y",
            torchscript=torchscript,
            compile=compiled,
            autograd=autograd,
            num_threads=threads,
            params=params,
        )
    )
    ways = 1 + has_cpp + torchscript * (1 + has_cpp) + compiled
    grid = math.prod(len(values) for values in params.values())
    assert len(cases) == ways * (1 + autograd) * len(threads) * grid
    assert len({case.id for case in cases}) == len(cases)
    assert len({case.title for case in cases}) == len(cases)
    assert all((case.model is not None) == (case.runtime is Runtime.TORCHSCRIPT) for case in cases)
    scripted = {case.model for case in cases if case.model}
    assert len(scripted) == (grid if torchscript else 0), "scripted once for all that load it"


def test_the_order_is_language_runtime_passes_threads() -> None:
    benchmark = GroupedStmts(
        "y = x", "auto y = x;", signature="f(x) -> y", torchscript=True, autograd=True,
        num_threads=(1, 2),
    )  # fmt: skip
    assert ways_of(materialize(benchmark)) == [
        (language, runtime, autograd, threads)
        for language in (Language.PYTHON, Language.CPP)
        for runtime in (Runtime.EAGER, Runtime.TORCHSCRIPT)
        for autograd in (Autograd.FORWARD, Autograd.FORWARD_BACKWARD)
        for threads in (1, 2)
    ]


def test_timer_args_are_explicit_and_taken_as_they_are() -> None:
    args = TimerArgs("x + y;", "auto x = 1;", "#include <vector>", (1, 4), Language.CPP)
    first, second = materialize({"explicit": args})
    assert ways_of((first, second)) == [
        (Language.CPP, Runtime.EXPLICIT, Autograd.EXPLICIT, threads) for threads in (1, 4)
    ]
    assert (first.stmt, first.setup, first.global_setup) == (args.stmt, args.setup,
                                                             args.global_setup)  # fmt: skip


def test_a_setup_that_does_nothing_is_so_in_its_language() -> None:
    suite = {"a": [TimerArgs("1"), TimerArgs("1;", language="cpp"), GroupedStmts("1", "1;")]}
    assert [case.setup for case in materialize(suite)] == ["pass", "", "pass", ""]


def test_labels_nest() -> None:
    suite = {
        "Pointwise": {
            ("Math", "add"): [TimerArgs("x + 1"), TimerArgs("x + x")],
            "Data": GroupedVariants("# @clone\nx.clone()"),
            None: {"bare": TimerArgs("x")},
        },
        "alone": (TimerArgs("1"),),
    }
    assert [case.label for case in materialize(suite)] == [
        ("Pointwise", "Math", "add", "Case:  0"),
        ("Pointwise", "Math", "add", "Case:  1"),
        ("Pointwise", "Data", "clone"),
        ("Pointwise", "bare"),
        ("alone",),
    ]


@pytest.mark.parametrize(
    ("suite", "says"),
    [
        ({"a": {"b": 5}}, "the suite at 'a / b' holds 5"),
        ({"a": "x + 1"}, "holds 'x \\+ 1'"),
        ({3: TimerArgs("x")}, "the label 3"),
        ({"a": {"": TimerArgs("x")}}, "the suite at 'a' has the label ''"),
        ({"a": {"b": TimerArgs("x")}, ("a", "b"): TimerArgs("x")}, "same case twice: a / b"),
    ],
)
def test_what_is_no_suite_is_named_with_its_place(suite: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        materialize(suite)


def test_the_id_follows_from_what_runs_and_not_from_the_day() -> None:
    """A change of this id is a change of what all stored results are found by."""
    (case,) = materialize({"Math": {"add": GroupedStmts("x + 1", params={"n": [4]})}})
    assert case.params == (("n", "4"),)
    assert case.setup == "n = 4"
    assert case.id == "1c5e66a868101272"


def test_a_skipped_case_keeps_its_id_and_says_why() -> None:
    condition = skip_if(torch="<2.0", missing="torch.func", reason="not there yet")
    suite = {"a": GroupedStmts("x", skip=condition), "b": TimerArgs("x")}
    assert features_asked(expand(suite)) == {"torch.func"}
    old = EnvironmentFacts(torch="1.13.1", features={"torch.func": False})
    skipped, other = materialize(suite, facts=old)
    assert (skipped.skip, other.skip) == ("not there yet", None)
    assert [case.skip for case in materialize(suite)] == [None, None]
    assert [case.id for case in materialize(suite)] == [skipped.id, other.id]


def test_a_scripted_model_runs_in_cpp_where_its_inputs_are_made() -> None:
    model = "model = torch.nn.ReLU()"
    setup = GroupedSetup("x = torch.ones(4)", "auto x = torch::ones({4});")
    cases = materialize(GroupedModules(model, None, setup, "f(x) -> y", torchscript=True))
    assert [(case.language, case.runtime) for case in cases] == [
        (Language.PYTHON, Runtime.EAGER),
        (Language.PYTHON, Runtime.TORCHSCRIPT),
        (Language.CPP, Runtime.TORCHSCRIPT),
    ]


def test_defining_and_expanding_import_no_torch() -> None:
    script = (
        "import sys, torchmark\n"
        "from torchmark.define.suites import standard\n"
        "assert len(torchmark.materialize(standard.SUITE)) >= 181\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

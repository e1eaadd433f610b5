"""The standard suite covers its list, and every statement of it runs."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import pytest

from torchmark.define.expansion import materialize
from torchmark.define.suites.standard import QUICK, SUITE, quick
from torchmark.model.case import Autograd, Case, Language, Runtime

from ..running import NO_SCRIPT_WARNING, build_cpp, run_cpp, run_python, save_models

if TYPE_CHECKING:
    from pathlib import Path

CASES = materialize(SUITE)

# shared/standard-suite.md: the benchmarks of each group, and how many cases they give.
LIST: dict[tuple[str, ...], tuple[int, int]] = {
    ("Empty", "no allocation"): (1, 2),
    ("Empty", "with allocation"): (1, 2),
    ("Empty", "overloads", "TensorOptions overload"): (3, 3),
    ("Empty", "overloads", "faithful overload"): (3, 3),
    ("Pointwise", "Math", "add"): (7, 14),
    ("Pointwise", "Math", "multiply"): (7, 14),
    ("Pointwise", "Math", "equality"): (2, 4),
    **{("Pointwise", "Data movement", name): (1, 2)
       for name in ("contiguous (trivial)", "contiguous (non-trivial)", "clone", "copy_", "zero_",
                    "RNG")},
    **{("Reduction", name): (1, 2) for name in ("max", "sum", "variance")},
    ("Indexing", "Tensor-Scalar"): (3, 6),
    ("Indexing", "Tensor-Scalar (Advanced)"): (5, 10),
    ("Indexing", "Tensor-Tensor"): (3, 6),
    ("Indexing", "Tensor-Tensor (Advanced)"): (5, 10),
    **{("Metadata and views", name): (1, 2)
       for name in ("size", "stride", "as_strided", "select", "unsqueeze", "view", "transpose",
                    "reshape")},
    **{("nn Modules", name): (1, 4)
       for name in ("BatchNorm2d", "GroupNorm", "LayerNorm", "Conv1d", "Conv2d", "MaxPool2d",
                    "ReLU", "Sigmoid", "Linear")},
    ("nn Modules", "LSTM"): (1, 2),
    ("training", "simple"): (1, 16),
    ("training", "ensemble"): (1, 16),
    **{("InferenceMode", name): (1, 1) for name in ("View", "Inplace", "Mixed")},
}  # fmt: skip


def without_number(label: tuple[str, ...]) -> tuple[str, ...]:
    return label[:-1] if label[-1].startswith("Case: ") else label


def test_the_suite_has_the_72_definitions_and_181_cases_of_the_list() -> None:
    definitions = collections.Counter(without_number(label) for label in {c.label for c in CASES})
    cases = collections.Counter(without_number(case.label) for case in CASES)
    assert {label: (definitions[label], cases[label]) for label in cases} == LIST
    assert (sum(definitions.values()), len(CASES)) == (72, 181)


def test_training_is_every_language_runtime_pass_and_number_of_threads() -> None:
    for name in ("simple", "ensemble"):
        ways = {
            (case.language, case.runtime, case.autograd, case.num_threads)
            for case in CASES
            if case.label == ("training", name)
        }
        assert ways == {
            (language, runtime, autograd, threads)
            for language in Language
            for runtime in (Runtime.EAGER, Runtime.TORCHSCRIPT)
            for autograd in (Autograd.FORWARD, Autograd.FORWARD_BACKWARD)
            for threads in (1, 2)
        }


def test_the_quick_subset_has_some_of_every_group_in_both_languages() -> None:
    few = quick(CASES)
    assert 18 <= len(few) <= 24
    assert {case.label for case in few} == set(QUICK)
    assert {case.label[:-1] for case in few} >= {("training",), ("nn Modules",)}
    assert {case.label[0] for case in few} == {case.label[0] for case in CASES}
    for language in Language:
        assert sum(case.language is language for case in few) >= 8
    assert {case.runtime for case in few} == {Runtime.EAGER, Runtime.TORCHSCRIPT}
    assert {case.num_threads for case in few} == {1}


@pytest.mark.filterwarnings(NO_SCRIPT_WARNING)
def test_every_case_in_python_runs(tmp_path: Path) -> None:
    cases = [case for case in CASES if case.language is Language.PYTHON]
    assert len(cases) == 86
    save_models(cases, tmp_path)
    for case in cases:
        run_python(case, tmp_path)


@pytest.mark.filterwarnings(NO_SCRIPT_WARNING)
def test_every_case_in_cpp_compiles_and_runs(tmp_path: Path) -> None:
    cases: list[Case] = [case for case in CASES if case.language is Language.CPP]
    assert len(cases) == 95
    save_models(cases, tmp_path)
    for case, built in zip(cases, build_cpp(cases, tmp_path, [""] * len(cases)), strict=True):
        run_cpp(case, built)

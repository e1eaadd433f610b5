from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.sweep.axes import (
    JobConfig,
    configs_of,
    linspace,
    logspace,
    setting,
    sizes_of,
)
from torchmark.errors import DefinitionError, InvalidArgumentError
from torchmark.model.run_settings import Phase


@pytest.mark.parametrize(
    ("given_sizes", "sizes"),
    [
        ([1, 2, 2, 4], (1, 2, 4)),
        (range(1, 4), (1, 2, 3)),
        (8, (8,)),
        ([8.0], (8,)),
        ({"range": [1, 9, 4]}, (1, 5)),
        ({"linspace": [1, 100, 4]}, (1, 34, 67, 100)),
        ({"logspace": {"start": 0, "end": 3, "steps": 4}}, (1, 10, 100, 1000)),
        ("logspace(3, 5, 3, base=2)", (8, 16, 32)),
        ("1, 2, 4", (1, 2, 4)),
    ],
)
def test_sizes_are_read_in_every_form(given_sizes: Any, sizes: tuple[int, ...]) -> None:
    assert sizes_of("batch", given_sizes) == sizes


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 50))
def test_equal_steps_begin_and_end_where_they_are_told_to(a: int, b: int, steps: int) -> None:
    sizes = linspace(a, b, steps)
    assert sizes[0] == a
    assert steps == 1 or sizes[-1] == b
    assert len(set(sizes)) == len(sizes) <= steps


@given(st.integers(0, 10), st.integers(0, 10), st.integers(2, 30))
def test_logarithmic_steps_have_whole_ends(a: int, b: int, steps: int) -> None:
    sizes = logspace(a, b, steps, base=2)
    assert (sizes[0], sizes[-1]) == (2**a, 2**b)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ([1, 2.5], "2.5"),
        ([], "no sizes"),
        ([True], "True"),
        (["many"], "'many'"),
        ({"arange": [1, 2]}, "arange"),
        ({"range": [1, 2, 0]}, "range"),
        ("__import__('os')", "__import__"),
        ("range(10", "range(10"),
        ([2**60], str(2**60)),
        ("logspace(1, 1024, 11)", "torch.logspace"),
    ],
)
def test_what_is_no_size_is_told_with_the_dimension_and_the_value(wrong: Any, named: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        sizes_of("batch", wrong)
    assert named in str(raised.value)
    assert "batch" in str(raised.value) or "torch.logspace" in named


@pytest.mark.parametrize(
    "given_sizes",
    [
        "linspace(1, 2, 1000000000)",
        "logspace(0, 10, 1000000000, base=2)",
        "range(1, 1000000000)",
        "1," * 20_000,
        range(10**12),
        itertools.count(1),
        {"linspace": [1, 2, 10**9]},
    ],
)
def test_sizes_are_bounded_before_they_are_made(given_sizes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"batch.* 10,000 "):
        sizes_of("batch", given_sizes)


@pytest.mark.parametrize(
    "wrong",
    [
        "-" * 90_000 + "1",
        "(" * 90_000,
        "9" * 5_000,
        "0x" + "f" * 5_000,
        "{[]: 1}",
        "linspace(1, 1e300, 3)",
        "logspace(0, 10, 3, base=1e999)",
        [10**5_000],
        [float("nan")],
        [torch.ones(2)],
        {"linspace": [float("nan"), 2, 3]},
        {"logspace": [0, float("nan"), 3]},
        {"logspace": [0, 10, 3, float("nan")]},
        {"range": [10**5_000, "a"]},
    ],
)
def test_numbers_without_end_and_odd_text_are_refused_in_a_line(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^the dimension 'batch'") as raised:
        sizes_of("batch", wrong)
    assert len(str(raised.value)) < 600


def test_configs_that_stand_there_again_and_again_are_multiplied_once() -> None:
    many = {"dtype": ["fp32"] * 10_000, "backend": ["pt"] * 10_000, "threads": [1] * 10_000}
    assert configs_of(many) == (JobConfig(),)


def test_a_setting_without_a_value_says_how_to_write_it() -> None:
    assert setting("batch=range(1, 3)") == ("batch", (1, 2))
    with pytest.raises(InvalidArgumentError, match="batch=8"):
        setting("batch")


def texts(given: Any) -> list[str]:
    return [f"{config.backend} {config.dtype}" for config in configs_of(given)]


@pytest.mark.parametrize(
    "given",
    [
        ["pt fp16", "ort fp32"],
        [("pt", "fp16"), ("fp32", "ort")],
        [{"backend": "pt", "dtype": "fp16"}, {"backend": "ort", "dtype": "fp32"}],
        ["pt/fp16", ("ort", torch.float32)],
    ],
)
def test_configs_are_read_one_by_one_in_every_form(given: Any) -> None:
    assert texts(given) == ["pt fp16", "ort fp32"]


@pytest.mark.parametrize(
    "given",
    [
        ["fp16", "fp32", "pt", "ort"],
        [["fp16", "fp32"], ["pt", "ort"]],
        {"dtype": ["fp16", "fp32"], "backend": ["pt", "ort"]},
    ],
)
def test_what_is_given_loosely_is_combined(given: Any) -> None:
    assert texts(given) == ["pt fp16", "ort fp16", "pt fp32", "ort fp32"]


@pytest.mark.parametrize(
    "given",
    [["compile-static fp16"], ["compile-static-fp16"], ["fp16/compile-static"],
     ["fp16", "compile-static"], {"backend": "compile-static", "dtype": "fp16"}],
)  # fmt: skip
def test_static_compilation_is_a_backend_of_its_own(given: Any) -> None:
    assert texts(given) == ["compile-static fp16"]
    assert texts(["compile-fp16"]) == ["compile fp16"]


def test_a_config_has_its_own_phase_and_threads() -> None:
    assert configs_of([{"backend": "compile", "phase": "backward", "threads": 2}]) == (
        JobConfig(backend="compile", phase=Phase.BACKWARD, threads=2),
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["pt fp8"], "'fp8' of the job config 'pt fp8'"),
        (["onnx"], "'onnx' is not a backend (pt, compile, compile-static, ort)"),
        ([{"backend": "tf"}], "backend 'tf'"),
        ([{"device": "cpu"}], "'device'"),
        ([{"threads": 0}], "threads=0"),
        ([], "[]"),
        ({"dtype": []}, "{'dtype': []}"),
    ],
)
def test_a_wrong_config_is_told_by_its_word(wrong: Any, named: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        configs_of(wrong)
    assert named in str(raised.value)

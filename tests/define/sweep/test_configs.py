from __future__ import annotations

from typing import Any

import pytest
import torch

from torchmark.define.sweep.axes import JobConfig, configs_of
from torchmark.errors import DefinitionError
from torchmark.model.run_settings import Phase


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


def test_a_config_has_its_own_phase_and_threads() -> None:
    assert configs_of([{"backend": "compile", "phase": "backward", "threads": 2}]) == (
        JobConfig(backend="compile", phase=Phase.BACKWARD, threads=2),
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["pt fp8"], "'fp8' of the job config 'pt fp8'"),
        (["onnx"], "'onnx' is no backend (pt, compile, ort)"),
        ([{"backend": "tf"}], "backend 'tf'"),
        ([{"device": "cpu"}], "'device'"),
        ([{"threads": 0}], "threads=0"),
        ([], "[]"),
    ],
)
def test_a_wrong_config_is_told_by_its_word(wrong: Any, named: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        configs_of(wrong)
    assert named in str(raised.value)

"""The smallest header that may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchmark.engine.cpp.diagnostics import Problem
from torchmark.engine.cpp.headers import Header, header_for, larger_header
from torchmark.engine.cpp.source import CppStatement

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("x + torch::ones({2});", Header.TYPES),
        ("torch::jit::load(path);", Header.SCRIPT),
        ("torch::autograd::grad({y}, {x});", Header.SCRIPT),
        ("torch::nn::Linear m(2, 2);", Header.TORCH),
        ("torch::optim::SGD o(p, 0.1);", Header.TORCH),
        ("torch::data::make_data_loader(d);", Header.TORCH),
        ("py::list l;", Header.PYTHON),
    ],
)
def test_names_in_the_text_decide(text: str, header: Header) -> None:
    assert header_for(CppStatement(text)) is header
    assert header_for(CppStatement("", text)) is header


@pytest.mark.parametrize(
    "message",
    [
        "'Thing' is not a member of 'torch'",
        "'torch::Thing' has not been declared",
        "no member named 'Thing' in namespace 'torch'",
        "variable 'at::Thing x' has initializer but incomplete type 'at::Thing'",
    ],
)
def test_a_larger_header_is_tried_for_a_name_that_torch_has(message: str, tmp_path: Path) -> None:
    problems = [Problem(0, "stmt", 1, message)]
    assert larger_header(Header.TYPES, problems, [tmp_path]) is None
    (tmp_path / "nn.h").write_text("struct Thing;")
    assert larger_header(Header.TYPES, problems, [tmp_path]) is Header.TORCH
    assert larger_header(Header.TORCH, problems, [tmp_path]) is None


def test_no_header_helps_against_other_mistakes(tmp_path: Path) -> None:
    (tmp_path / "nn.h").write_text("int x;")
    problems = [Problem(0, "stmt", 1, "'x' was not declared in this scope")]
    assert larger_header(Header.TYPES, problems, [tmp_path]) is None

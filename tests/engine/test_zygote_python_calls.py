"""What a statement does in Python, told by a real zygote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.zygote_cases import case
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from torchmark.engine.zygote.zygote import Zygote

RELU = case("torch.nn.functional.relu(x)", "x = torch.ones(4)")


def test_functions_of_torch_are_named_and_nothing_else(plain_zygote: Zygote) -> None:
    calls = plain_zygote.python_calls(RELU)
    assert set(calls) == {"relu (torch/nn/functional.py)", "the statement"}
    assert min(calls.values()) > 0
    assert plain_zygote.python_calls(RELU) == calls, "every time the same"


def test_a_statement_that_fails_is_an_error(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="NameError"):
        plain_zygote.python_calls(case("nowhere"))

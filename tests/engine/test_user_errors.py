from __future__ import annotations

import pytest
import torch

from torchmark import Timer
from torchmark.engine.call_text import describe_call
from torchmark.engine.user_errors import format_users_frames


def failure(stmt: str, setup: str = "pass") -> str:
    with pytest.raises(Exception) as caught:  # whatever the statement raises
        Timer(stmt, setup).timeit(1)
    return format_users_frames(caught.value)


def test_the_text_starts_at_the_statement_and_follows_the_users_code() -> None:
    text = failure("x = 1\nf(x)", "def f(n):\n    return n / 0")
    assert text.splitlines() == [
        "  In the statement, line 2:",
        "    f(x)",
        "  In the setup, line 2:",
        "    return n / 0",
        "ZeroDivisionError: division by zero",
    ]


def test_frames_of_libraries_are_kept() -> None:
    text = failure("torch.nn.Linear(2, 3)(torch.ones(5))")
    assert "linear.py" in text
    assert "RuntimeError" in text
    assert "torchmark" not in text


def test_a_setup_that_fails_says_that_it_was_the_setup() -> None:
    assert failure("pass", "import no_such_module").startswith("  In the setup, line 1:")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (torch.add, "torch.add()"),
        (torch.nn.functional.relu, "F.relu()"),
        (torch.nn.Linear(1, 1), "Linear()"),
        (torch.Tensor.add, "Tensor.add()"),
        (lambda: None, "<lambda>()"),
        (len, "len()"),
    ],
)
def test_functions_are_named_as_people_write_them(function: object, text: str) -> None:
    assert callable(function)
    assert describe_call(function, (), {}) == text


def test_a_long_argument_is_named_by_its_type() -> None:
    assert describe_call(len, ("x" * 100,), {}) == "len(str)"

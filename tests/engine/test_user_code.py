"""What users hand over: globals that travel, errors with their own lines, calls as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch

from torchmark import CopyIfCallgrind, Timer
from torchmark.engine.user_code import describe_call, recipes_for
from torchmark.errors import NotTransferableError
from torchmark_probe.zygote.cases import make_globals

if TYPE_CHECKING:
    from pathlib import Path


def there_and_back(value: Any, directory: Path) -> Any:
    """What the probe makes of a global."""
    return make_globals(recipes_for({"name": value}, directory), torch)["name"]


@pytest.mark.parametrize(
    "value", [1, -2.5, True, None, "text", b"\x00\xff", 2 + 3j, (1, (2, [3])), {"a": [1]}, {1, 2}]
)
def test_plain_values_arrive_as_they_were(value: Any, tmp_path: Path) -> None:
    made = there_and_back(value, tmp_path)
    assert made == value
    assert type(made) is type(value)


def test_a_python_module_arrives_by_its_name(tmp_path: Path) -> None:
    assert there_and_back(math, tmp_path) is math


def test_a_tensor_arrives_with_its_strides(tmp_path: Path) -> None:
    x = torch.arange(12.0).reshape(3, 4).t()
    made = there_and_back(x, tmp_path)
    assert torch.equal(made, x)
    assert made.stride() == x.stride()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_a_module_and_torchscript_arrive(tmp_path: Path) -> None:
    module = torch.nn.Linear(2, 3)
    made = there_and_back(module, tmp_path)
    assert torch.equal(made.weight, module.weight)
    scripted = torch.jit.script(torch.nn.ReLU())
    assert there_and_back(scripted, tmp_path)(torch.tensor([-1.0])).item() == 0


def test_the_setup_of_a_mark_is_run_before_the_copy_is_made(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        there_and_back(CopyIfCallgrind(3, setup="1 / 0"), tmp_path)


class Local:
    """Nothing that another process could make."""


@pytest.mark.parametrize("value", [Local(), lambda: 1, math.nan, [Local()], torch.float32])
def test_what_cannot_be_copied_is_named_and_a_way_out_is_given(value: Any, tmp_path: Path) -> None:
    with pytest.raises(NotTransferableError, match=r"the global 'name' is a .*setup instead"):
        there_and_back(value, tmp_path)
    with pytest.raises(ValueError, match="cannot be copied"):
        CopyIfCallgrind(value)


def test_marks_do_not_reach_the_statement_in_this_process() -> None:
    seen: list[Any] = []
    marked = CopyIfCallgrind(7)
    Timer("seen.append(x)", globals={"seen": seen, "x": marked}).timeit(1)
    assert set(seen) == {7}


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

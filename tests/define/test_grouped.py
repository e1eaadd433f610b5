"""What people write becomes one definition, or an error that says what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from torchmark.define.grouped import (
    GroupedBenchmark,
    GroupedModules,
    GroupedSetup,
    GroupedStmts,
    TimerArgs,
    check_threads,
)
from torchmark.errors import DefinitionError, InvalidArgumentError, UnknownLanguageError
from torchmark.model.case import Language


def test_the_aliases_are_the_makers_of_grouped_benchmark() -> None:
    assert GroupedStmts == GroupedBenchmark.init_from_stmts
    assert GroupedModules == GroupedBenchmark.init_from_model


def test_statements_and_setups_lose_their_indent() -> None:
    setup = GroupedSetup("\n    x = 1\n    if x:\n        y = 2\n")
    assert setup.py_setup == "x = 1\nif x:\n    y = 2"
    assert GroupedStmts("\n        y = x\n    ").py_fwd_stmt == "y = x"


def test_a_module_is_called_as_its_signature_says() -> None:
    benchmark = GroupedModules(
        "model = torch.nn.LSTM(4, 4)",
        "auto model = torch::nn::LSTM(4, 4);",
        signature="f(x) -> y, (h, c)",
    )
    assert benchmark.py_fwd_stmt == "y, (h, c) = model(x)"
    assert benchmark.cpp_fwd_stmt == (
        "auto torchmark_outputs_ = model->forward(x);\n"
        "auto y = std::get<0>(torchmark_outputs_);\n"
        "auto h = std::get<0>(std::get<1>(torchmark_outputs_));\n"
        "auto c = std::get<1>(std::get<1>(torchmark_outputs_));"
    )


def test_a_module_in_one_language_has_a_statement_in_that_alone() -> None:
    python = GroupedModules("model = f", signature="f(x) -> None")
    assert (python.py_fwd_stmt, python.cpp_fwd_stmt) == ("model(x)", None)
    cpp = GroupedModules(cpp_model_setup="auto model = f();", signature="f(x) -> y")
    assert (cpp.py_fwd_stmt, cpp.cpp_fwd_stmt) == (None, "auto y = model->forward(x);")


@pytest.mark.parametrize(
    ("autograd", "losses"), [(False, ()), (True, ("y", "z")), ("z", ("z",)), ("y", ("y",))]
)
def test_autograd_takes_the_named_output_or_all_tensors(
    autograd: bool | str, losses: tuple[str, ...]
) -> None:
    benchmark = GroupedStmts("pass", signature="f(x) -> y, (n: int, z)", autograd=autograd)
    assert benchmark.losses == losses
    assert benchmark.autograd is bool(losses)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs py_stmt, cpp_stmt or both"),
        ({"py_stmt": "y", "torchscript": True}, "torchscript needs a signature"),
        ({"py_stmt": "y", "compile": True}, "compile needs a signature"),
        ({"py_stmt": "y", "autograd": True}, "autograd needs a signature"),
        ({"py_stmt": "y", "autograd": True, "signature": "f() -> None"}, "has none as"),
        ({"py_stmt": "y", "autograd": True, "signature": "f() -> n: int"}, "has none as"),
        (
            {"py_stmt": "y", "autograd": "z", "signature": "f() -> y"},
            "autograd='z' is not a tensor",
        ),
        ({"cpp_stmt": "y;", "torchscript": True, "signature": "f() -> y"}, "need py_stmt"),
        ({"cpp_stmt": "y;", "compile": True, "signature": "f() -> y"}, "need py_stmt"),
        ({"py_stmt": "y", "num_threads": 0}, "num_threads must be a whole number of at least 1"),
        ({"py_stmt": "y", "num_threads": ()}, "at least one number"),
        ({"py_stmt": "y", "num_threads": (1, 1)}, "no duplicates"),
    ],
)
def test_statements_that_cannot_be_what_is_asked_are_refused(
    arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        GroupedStmts(**arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"py_model_setup": "model = f"}, "needs a signature"),
        ({"signature": "f(x) -> y"}, "needs py_model_setup"),
        ({"signature": "f(x) -> y", "py_model_setup": "net = f"}, "must define `model`"),
        ({"signature": "f(x) -> y", "cpp_model_setup": "auto model = f();", "torchscript": True},
         "need py_model_setup"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_called_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        GroupedModules(**arguments)


def test_timer_args_are_what_timer_takes() -> None:
    args = TimerArgs("\n  x + 1", "x = 1", num_threads=2, language="cpp")
    assert (args.stmt, args.setup, args.num_threads) == ("x + 1", "x = 1", 2)
    assert args.language is Language.CPP
    assert TimerArgs("1") == TimerArgs(stmt="1", setup="pass", global_setup="", num_threads=1)
    with pytest.raises(UnknownLanguageError, match="rust"):
        TimerArgs("1", language="rust")
    with pytest.raises(DefinitionError, match="C\\+\\+"):
        TimerArgs("1", global_setup="import os")


def test_definitions_can_be_compared_and_hashed() -> None:
    first, second = (GroupedStmts("x", params={"n": [1, (2, 3)]}) for _ in range(2))
    assert first == second
    assert len({first, second, TimerArgs("x"), TimerArgs("x")}) == 2


def test_threads_are_a_number_or_several() -> None:
    assert check_threads(3) == (3,)
    assert check_threads([1, 2]) == (1, 2)


def test_a_setup_that_is_plain_text_is_told_what_to_write() -> None:
    with pytest.raises(DefinitionError, match=r"setup must be a GroupedSetup, .*, not a str"):
        GroupedStmts("x + 1", setup="x = torch.ones(4)")  # type: ignore[arg-type]

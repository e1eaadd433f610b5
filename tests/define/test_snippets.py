"""The text of cases, with the example of the seed as it is printed there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from torchmark import GroupedModules, GroupedSetup, GroupedStmts, Timer, materialize
from torchmark.define.snippets import setup_with_model
from torchmark.model.case import MODEL_PATH, Autograd, Case, Language, Runtime
from torchmark_probe.loops.snippets import PythonLoop

from .running import NO_SCRIPT_WARNING, build_cpp, run_cpp, run_python, save_models

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark.define.grouped import GroupedBenchmark

# fmt: off
benchmark = GroupedStmts(
    py_stmt=r"y = x * w",
    cpp_stmt=r"auto y = x * w;",

    setup=GroupedSetup(
        py_setup="""
            x = torch.ones((4, 4))
            w = torch.ones((4, 4), requires_grad=True)
        """,
        cpp_setup="""
            auto x = torch::ones((4, 4));
            auto w = torch::ones((4, 4));
            w.set_requires_grad(true);
        """,
    ),

    signature="f(x, w) -> y",
    torchscript=True,
    autograd=True,
),
# fmt: on


def case_of(cases: tuple[Case, ...], language: Language, runtime: Runtime) -> Case:
    """The one with a backward pass."""
    (case,) = (
        case
        for case in cases
        if (case.language, case.runtime) == (language, runtime)
        and case.autograd is Autograd.FORWARD_BACKWARD
    )
    return case


def test_the_seeds_timer_takes_what_the_definition_has() -> None:
    (definition,) = benchmark
    assert definition.py_fwd_stmt is not None
    timer = Timer(stmt=definition.py_fwd_stmt, setup=definition.setup.py_setup)
    assert timer.timeit(10).median > 0


def test_the_seeds_example_becomes_eight_cases() -> None:
    cases = materialize(benchmark)
    assert len(cases) == 8
    assert case_of(cases, Language.PYTHON, Runtime.EAGER).stmt == "y = x * w\ny.sum().backward()"
    scripted = case_of(cases, Language.PYTHON, Runtime.TORCHSCRIPT)
    assert scripted.stmt == "y = jit_model(x, w)\ny.sum().backward()"
    assert scripted.model is not None
    assert "@torch.jit.script\ndef f(x, w):\n    y = x * w\n    return y\n" in scripted.model.source
    in_cpp = case_of(cases, Language.CPP, Runtime.TORCHSCRIPT)
    assert in_cpp.model == scripted.model
    assert in_cpp.stmt == (
        "std::vector<torch::jit::IValue> ivalue_inputs = {x, w};\n"
        "auto y = jit_model.forward(std::move(ivalue_inputs)).toTensor();\n"
        "y.sum().backward();"
    )


def test_the_path_of_the_model_is_put_into_its_literal() -> None:
    for case in materialize(benchmark):
        setup = setup_with_model(case, 'C:\\a "b".pt')
        assert MODEL_PATH not in setup
        assert ('load("C:\\\\a \\"b\\".pt")' in setup) == (case.model is not None)


def test_a_statement_without_its_last_semicolon_can_be_followed() -> None:
    cases = materialize(GroupedStmts(cpp_stmt="auto y = x", signature="f(x) -> y", autograd=True))
    assert [case.stmt for case in cases] == ["auto y = x", "auto y = x\n;\ny.sum().backward();"]


def test_several_losses_are_summed() -> None:
    cases = materialize(GroupedStmts("y, z = x, x", signature="f(x) -> y, z", autograd=True))
    assert cases[1].stmt == "y, z = x, x\n(y.sum() + z.sum()).backward()"


def test_a_value_that_is_passed_is_not_named_again_in_the_function() -> None:
    definition = GroupedStmts(
        "y = x * n", signature="f(x, n: int) -> y", torchscript=True, params={"n": [3], "m": [1]}
    )
    model = materialize(definition)[1].model
    assert model is not None
    assert "def f(x, n: int):\n    m = 1\n    y = x * n\n" in model.source


@pytest.mark.parametrize(
    "definition",
    [
        GroupedStmts(
            "y = x * w + n",
            setup=GroupedSetup("x = torch.ones(4)\nw = torch.ones(4, requires_grad=True)"),
            signature="f(x, w) -> y", autograd=True, compile=True, params={"n": [3]},
        ),
        GroupedModules(
            "model = torch.nn.Linear(n, 2)", setup=GroupedSetup("x = torch.ones(n)"),
            signature="f(x) -> y", autograd=True, compile=True, params={"n": [3]},
        ),
    ],
)  # fmt: skip
def test_the_first_run_compiles_and_the_setup_does_not(
    definition: GroupedBenchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs: list[object] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model: real(model, backend=backend))
    case = case_of(materialize(definition), Language.PYTHON, Runtime.COMPILED)
    loop = PythonLoop(case.stmt, case.setup, globals={"torch": torch}).blocks()
    assert graphs == []
    loop.run(1)
    assert len(graphs) == 1
    loop.run(2)
    assert len(graphs) == 1
    loop.close()
    torch._dynamo.reset()


# Each with what must be true after its statement, in Python and in C++.
EXTRAS: dict[str, tuple[GroupedBenchmark, str, str]] = {
    "seed": (benchmark[0], "assert y.sum() == 16", "TORCH_CHECK(y.sum().item<double>() == 4);"),
    "nested outputs and types": (
        GroupedStmts(
            "y = x * n\nh = y + 1\nk = n + 1\nyes = k > n",
            "auto y = x * n; auto h = y + 1; auto k = n + 1; auto yes = k > n;",
            setup=GroupedSetup(
                "x = torch.ones(4, requires_grad=True)",
                "auto x = torch::ones({4}).set_requires_grad(true);",
            ),
            signature="f(x, n: int) -> (y, (h, k: int)), yes: bool",
            torchscript=True, autograd="h", params={"n": [3]},
        ),
        "assert (y.sum(), h.sum(), k, yes) == (12, 16, 4, True)",
        (
            "TORCH_CHECK(y.sum().item<double>() == 12 && h.sum().item<double>() == 16 && k == 4"
            " && yes);"
        ),
    ),
    "a value of the grid that is not passed": (
        GroupedStmts(
            "y = x * n", "auto y = x * n;",
            setup=GroupedSetup("x = torch.ones(4)", "auto x = torch::ones({4});"),
            signature="f(x) -> y", torchscript=True, params={"n": [3]},
        ),
        "assert y.sum() == 12",
        "TORCH_CHECK(y.sum().item<double>() == 12);",
    ),
    "a tuple of one": (
        GroupedStmts(
            "y = x.view(shape)", "auto y = x.view(shape);",
            setup=GroupedSetup("x = torch.ones(6)", "auto x = torch::ones({6});"),
            signature="f(x, shape: List[int]) -> (y,)", torchscript=True,
            params={"shape": [(2, 3)]},
        ),
        "assert y.shape == (2, 3)",
        "TORCH_CHECK(y.size(1) == 3);",
    ),
    "in place, nothing returned": (
        GroupedStmts(
            "x.fill_(2)", "x.fill_(2);",
            setup=GroupedSetup("x = torch.ones(4)", "auto x = torch::ones({4});"),
            signature="f(x) -> None", torchscript=True,
        ),
        "assert x.sum() == 8",
        "TORCH_CHECK(x.sum().item<double>() == 8);",
    ),
    "a module with a tuple": (
        GroupedModules(
            "model = torch.nn.LSTM(n, 3)", "auto model = torch::nn::LSTM(n, 3);",
            setup=GroupedSetup("x = torch.ones((5, 2, n))", "auto x = torch::ones({5, 2, n});"),
            signature="f(x) -> y, (h, c)", autograd=True, params={"n": [4]},
        ),
        "assert (y.shape, h.shape, c.shape) == ((5, 2, 3), (1, 2, 3), (1, 2, 3))",
        "TORCH_CHECK(y.size(0) == 5 && h.size(0) == 1 && c.size(2) == 3);",
    ),
    "a scripted module with a tuple": (
        GroupedModules(
            """
                class Both(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.scale = torch.nn.Parameter(torch.full((4,), float(n)))

                    def forward(self, x):
                        return x * self.scale, (x + self.scale, x)

                model = Both()
            """,
            setup=GroupedSetup("x = torch.ones(4)", "auto x = torch::ones({4});"),
            signature="f(x) -> y, (h, c)", torchscript=True, autograd=True, params={"n": [3]},
        ),
        "assert (y.sum(), h.sum(), c.sum()) == (12, 16, 4)",
        (
            "TORCH_CHECK(y.sum().item<double>() == 12 && h.sum().item<double>() == 16"
            " && c.sum().item<double>() == 4);"
        ),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings(NO_SCRIPT_WARNING)
@pytest.mark.parametrize("name", EXTRAS)
def test_outputs_have_their_values_in_python(name: str, tmp_path: Path) -> None:
    definition, check, _ = EXTRAS[name]
    cases = [case for case in materialize(definition) if case.language is Language.PYTHON]
    save_models(cases, tmp_path)
    for case in cases:
        run_python(case, tmp_path, check)


@pytest.mark.filterwarnings(NO_SCRIPT_WARNING)
def test_outputs_have_their_values_in_cpp(tmp_path: Path) -> None:
    pairs = [
        (case, check)
        for definition, _, check in EXTRAS.values()
        for case in materialize(definition)
        if case.language is Language.CPP
    ]
    cases, checks = [case for case, _ in pairs], [check for _, check in pairs]
    save_models(cases, tmp_path)
    for case, built in zip(cases, build_cpp(cases, tmp_path, checks), strict=True):
        run_cpp(case, built)

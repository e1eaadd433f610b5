"""Makes the text of a case: setup and statement of a definition in one language and runtime.

In all of them, the setup first defines the values of the grid and then runs the definition's setup.
The statement leaves its outputs in the variables that the signature names. The differences:

- eager: the statement is the definition's.
- TorchScript: the setup loads the saved model as `jit_model` and warms it up; the statement calls
  it.
- compiled: the setup makes `compiled_model` without calling it; the statement calls it. So the
  first run of the statement compiles, and can be timed separately.

The source of a ScriptedModel is run from a separate file, because torch reads the source of
scripted code from there. It runs under MODULE_NAME, because the names of its classes are saved:

    names = runpy.run_path(file, run_name=MODULE_NAME)
    names["jit_model"].save(path)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from torchmark.define.params import Point, cpp_lines, py_lines
from torchmark.define.signature import TENSOR, Output, Signature, Variable
from torchmark.model.case import (
    MODEL_PATH,
    Autograd,
    Case,
    Language,
    Runtime,
    ScriptedModel,
    indented,
    joined,
)

if TYPE_CHECKING:
    from torchmark.define.grouped import GroupedBenchmark

MODULE_NAME = "torchmark_scripted"
"""An identifier: with runpy's own name `<run_path>`, a saved model cannot be loaded again."""

_WARM_UP_CALLS = 3
"""TorchScript's executor profiles the first call, optimises in the second, and runs the optimised
code from the third on."""

_SCRIPT_HEAD = (
    "from typing import Dict, List, Optional, Tuple\n\nimport torch\nfrom torch import Tensor"
)
"""What a scripted function needs for the types in its signature."""

_IVALUE_TO = {TENSOR: "toTensor", "int": "toInt", "float": "toDouble", "bool": "toBool"}


class Snippet(NamedTuple):
    """The text of a case."""

    stmt: str
    setup: str

    model: ScriptedModel | None = None
    """The model that the setup loads, if any."""


def snippet_of(
    benchmark: GroupedBenchmark,
    language: Language,
    runtime: Runtime,
    autograd: Autograd,
    point: Point,
) -> Snippet:
    """Return the text of one case of a definition; the definition must have this case."""
    losses = benchmark.losses if autograd is Autograd.FORWARD_BACKWARD else ()
    if language is Language.PYTHON:
        return _in_python(benchmark, runtime, losses, point)
    return _in_cpp(benchmark, runtime, losses, point)


def setup_with_model(case: Case, path: str) -> str:
    """Return the setup with MODEL_PATH replaced by the path, inside a double-quoted literal.

    C++ builds are cached by their text. So the path should be the same in every run, as it is if
    the model's id names the file.
    """
    return case.setup.replace(MODEL_PATH, path.replace("\\", "\\\\").replace('"', '\\"'))


def _in_python(
    benchmark: GroupedBenchmark, runtime: Runtime, losses: tuple[str, ...], point: Point
) -> Snippet:
    setup = joined(py_lines(point), benchmark.setup.py_setup)
    backward = _backward(losses)
    if runtime is Runtime.TORCHSCRIPT:
        stmt = joined(py_call(_signature(benchmark), "jit_model"), backward)
        load = f'jit_model = torch.jit.load("{MODEL_PATH}")'
        warm_up = f"for _ in range({_WARM_UP_CALLS}):\n{indented(stmt)}"
        return Snippet(stmt, joined(setup, load, warm_up), _scripted_model(benchmark, point))
    if runtime is Runtime.COMPILED:
        stmt = joined(py_call(_signature(benchmark), "compiled_model"), backward)
        return Snippet(stmt, joined(setup, _compilation(benchmark, point)))
    assert benchmark.py_fwd_stmt is not None, "a definition without Python has no such cases"
    stmt = joined(benchmark.py_fwd_stmt, backward)
    return Snippet(stmt, joined(setup, benchmark.py_model_setup or ""))


def _in_cpp(
    benchmark: GroupedBenchmark, runtime: Runtime, losses: tuple[str, ...], point: Point
) -> Snippet:
    setup = joined(cpp_lines(point), benchmark.setup.cpp_setup)
    backward = f"{_backward(losses)};" if losses else ""
    if runtime is Runtime.TORCHSCRIPT:
        stmt = joined(_cpp_scripted_call(_signature(benchmark)), backward)
        load = f'auto jit_model = torch::jit::load("{MODEL_PATH}");'
        count = "torchmark_warm_up_"
        loop = f"for (int {count} = 0; {count} < {_WARM_UP_CALLS}; ++{count}) {{"
        warm_up = f"{loop}\n{indented(stmt)}\n}}"
        return Snippet(stmt, joined(setup, load, warm_up), _scripted_model(benchmark, point))
    assert benchmark.cpp_fwd_stmt is not None, "a definition without C++ has no such cases"
    stmt = benchmark.cpp_fwd_stmt
    if backward:  # without it, the last semicolon may be missing
        end = "" if stmt.endswith((";", "}")) else "\n;"
        stmt = joined(stmt + end, backward)
    return Snippet(stmt, joined(setup, benchmark.cpp_model_setup or ""))


def _scripted_model(benchmark: GroupedBenchmark, point: Point) -> ScriptedModel:
    """Return the source that scripts the model, or the function made from the statement.

    The definition's setup comes first, as in the eager form: it may import what the model uses, or
    seed the generator that its weights are drawn from.
    """
    before = joined(_SCRIPT_HEAD, py_lines(point), benchmark.setup.py_setup)
    if benchmark.py_model_setup is not None:
        script = joined(benchmark.py_model_setup, "jit_model = torch.jit.script(model)")
    else:
        name = _signature(benchmark).name
        function = _function(benchmark, point)
        script = f"\n\n@torch.jit.script\n{function}\n\n\njit_model = {name}"
    return ScriptedModel(source=joined(before, script) + "\n")


def _compilation(benchmark: GroupedBenchmark, point: Point) -> str:
    if benchmark.py_model_setup is not None:
        return joined(benchmark.py_model_setup, "compiled_model = torch.compile(model)")
    compiled = f"compiled_model = torch.compile({_signature(benchmark).name})"
    return joined(_function(benchmark, point), compiled)


def _function(benchmark: GroupedBenchmark, point: Point) -> str:
    """Return the statement as a function; a scripted one must define the grid's values itself."""
    assert benchmark.py_fwd_stmt is not None, "only Python can be scripted or compiled"
    signature = _signature(benchmark)
    passed = {variable.name for variable in signature.args}
    inside = py_lines(tuple((name, value) for name, value in point if name not in passed))
    body = joined(inside, benchmark.py_fwd_stmt, f"return {signature.py_output}")
    return f"def {signature.name}({', '.join(map(str, signature.args))}):\n{indented(body)}"


def _signature(benchmark: GroupedBenchmark) -> Signature:
    assert benchmark.signature is not None, "the definition has required it"
    return benchmark.signature


def _backward(losses: tuple[str, ...]) -> str:
    """Return the backward pass of the outputs with these names.

    Only a scalar can be differentiated directly. Whether an output is a scalar is only known when
    it runs, so it is always summed, which does not change a scalar. The sum adds one small
    operation to each pass, in all languages and runtimes of a definition, so they stay comparable.
    """
    if not losses:
        return ""
    sums = [f"{name}.sum()" for name in losses]
    return f"{sums[0]}.backward()" if len(sums) == 1 else f"({' + '.join(sums)}).backward()"


def py_call(signature: Signature, model: str) -> str:
    """Return `y = model(x)`, for plain, scripted and compiled models."""
    call = f"{model}({_names(signature.args)})"
    return call if signature.output is None else f"{signature.py_output} = {call}"


def cpp_call(signature: Signature) -> str:
    """Return `auto y = model->forward(x);`, with C++ tuples unpacked."""
    call = f"model->forward({_names(signature.args)})"
    return _take_apart(signature, call, lambda value, index: f"std::get<{index}>({value})")


def _cpp_scripted_call(signature: Signature) -> str:
    """Return the same for a scripted model, whose inputs and outputs are IValues."""
    inputs = f"std::vector<torch::jit::IValue> ivalue_inputs = {{{_names(signature.args)}}};"
    call = "jit_model.forward(std::move(ivalue_inputs))"

    def element(value: str, index: int) -> str:
        return f"{value}.toTupleRef().elements()[{index}]"

    def convert(variable: Variable, value: str) -> str:
        return f"{value}.{_IVALUE_TO[variable.type]}()"

    return joined(inputs, _take_apart(signature, call, element, convert))


def _names(variables: Iterable[Variable]) -> str:
    return ", ".join(variable.name for variable in variables)


def _take_apart(
    signature: Signature,
    call: str,
    element: Callable[[str, int], str],
    convert: Callable[[Variable, str], str] = lambda _, value: value,
) -> str:
    """Return declarations of all outputs of the call."""
    if signature.output is None:
        return f"{call};"
    if isinstance(signature.output, Variable):
        return f"auto {signature.output.name} = {convert(signature.output, call)};"
    lines = [f"auto torchmark_outputs_ = {call};"]
    lines += [
        f"auto {variable.name} = {convert(variable, value)};"
        for variable, value in _paths(signature.output, "torchmark_outputs_", element)
    ]
    return "\n".join(lines)


def _paths(
    output: Output, value: str, element: Callable[[str, int], str]
) -> list[tuple[Variable, str]]:
    """Return each variable with the expression that takes it out of `value`."""
    if isinstance(output, Variable):
        return [(output, value)]
    return [
        found
        for index, part in enumerate(output)
        for found in _paths(part, element(value, index), element)
    ]

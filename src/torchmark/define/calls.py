"""The text that calls a model with a signature's arguments and names what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.define.signature import TENSOR, Variable
from torchmark.model.case import indented, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchmark.define.signature import Output, Signature

_IVALUE_TO = {TENSOR: "toTensor", "int": "toInt", "float": "toDouble", "bool": "toBool"}


def py_call(signature: Signature, model: str) -> str:
    """`y = model(x)`, for modules, scripted and compiled ones alike."""
    call = f"{model}({_names(signature.args)})"
    return call if signature.output is None else f"{signature.py_output} = {call}"


def cpp_call(signature: Signature) -> str:
    """`auto y = model->forward(x);`, with the tuples of C++ taken apart."""
    call = f"model->forward({_names(signature.args)})"
    return _take_apart(signature, call, lambda value, index: f"std::get<{index}>({value})")


def cpp_scripted_call(signature: Signature) -> str:
    """The same for a scripted model, which takes and returns values of any type, IValues."""
    inputs = f"std::vector<torch::jit::IValue> ivalue_inputs = {{{_names(signature.args)}}};"
    call = "jit_model.forward(std::move(ivalue_inputs))"

    def element(value: str, index: int) -> str:
        return f"{value}.toTupleRef().elements()[{index}]"

    def convert(variable: Variable, value: str) -> str:
        return f"{value}.{_IVALUE_TO[variable.type]}()"

    return joined(inputs, _take_apart(signature, call, element, convert))


def py_function(signature: Signature, stmt: str, *, first: str = "") -> str:
    """The statement as a function of the signature; `first` stands before it."""
    body = joined(first, stmt, f"return {signature.py_output}")
    return f"def {signature.name}({', '.join(map(str, signature.args))}):\n{indented(body)}"


def py_backward(losses: Iterable[str]) -> str:
    """The backward pass of the outputs with these names.

    Only a scalar has a gradient of its own, and nothing but a run tells whether an output is one,
    so it is always summed: the sum of a scalar is that scalar. It costs one small operation in
    each pass, the same in all languages and runtimes of a definition, so that they still compare.
    """
    sums = [f"{name}.sum()" for name in losses]
    return f"{sums[0]}.backward()" if len(sums) == 1 else f"({' + '.join(sums)}).backward()"


def cpp_backward(losses: Iterable[str]) -> str:
    return f"{py_backward(losses)};"


def _names(variables: Iterable[Variable]) -> str:
    return ", ".join(variable.name for variable in variables)


def _take_apart(
    signature: Signature,
    call: str,
    element: Callable[[str, int], str],
    convert: Callable[[Variable, str], str] = lambda _, value: value,
) -> str:
    """Declarations of all outputs of the call."""
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
    """Each variable with the expression that takes it out of `value`."""
    if isinstance(output, Variable):
        return [(output, value)]
    return [
        found
        for index, part in enumerate(output)
        for found in _paths(part, element(value, index), element)
    ]

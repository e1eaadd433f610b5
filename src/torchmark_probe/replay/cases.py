"""Sets up a recorded call as a case of a replay, for the timed loop.

Facts about the call other than times (FLOPs, how outputs differ) are reported together with the
times.
"""

import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.fx
from torch.utils._pytree import tree_map

from torchmark_probe.replay import backends
from torchmark_probe.replay.backends import FirstRun, first_run
from torchmark_probe.replay.calls import complete_record, mismatches, parse_call, rebuild, settle
from torchmark_probe.replay.records import operator_named
from torchmark_probe.replay.tensors import tensors_of
from torchmark_probe.replay.work import flops_of_call, run_watching_memory
from torchmark_probe.zygote.handlers import report


def eager(text: str, seed: int = 0, values: str = "") -> Tuple[Any, List[Any], Dict[str, Any]]:
    """Return the operator and its arguments, after a first run whose results are checked."""
    settle()
    run, args, kwargs = rebuild(text, seed, values)
    result, peak = run_watching_memory(lambda: run(*args, **kwargs))
    report(
        flops=flops_of_call(_operator(text), args, kwargs, result),
        peak_memory_bytes=peak,
        remarks=mismatches(text, args, kwargs, result),
        completed=complete_record(text, args, kwargs, result),
    )
    return run, args, kwargs


def by_backend(backend: str, text: str, seed: int = 0, values: str = "") -> Callable[[], Any]:
    """Return a call as run by that backend, after comparing a first run with eager's."""
    settle()
    operator = _operator(text)
    run, args, kwargs = rebuild(text, seed, values)
    result = run(*args, **kwargs)
    expected = tensors_of(
        result if result is not None else _changed_tensors(operator, args, kwargs)
    )
    completed = complete_record(text, args, kwargs, result)
    module, tensors = module_of(operator, *rebuild(text, seed, values), copies=backend == "ort")
    first = prepare_run(backend, module, tensors, expected)
    report(
        prepare_seconds=first.seconds,
        max_error=largest_error(operator, expected, first.result),
        completed=completed,
    )
    call: Callable[[], Any] = first.call
    return call


def prepare_run(
    backend: str, module: torch.nn.Module, tensors: List[Any], expected: List[Any]
) -> FirstRun:
    """Prepare a run of the module on these tensors; its result is a list of tensors."""
    if backend == "ort":
        backends.check_onnx_installed()
        model = backends.OnnxModel(module, torch.get_num_threads())
        first = first_run(lambda: model.bind(tensors, (), expected), "ONNX Runtime")
        return first._replace(result=first.call.outputs)
    # Not the module itself: calling it costs more than many operators.
    compiled = _compile_once(module.forward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they come from the compiler itself
        first = first_run(lambda: lambda: compiled(*tensors), "torch.compile")
    return first._replace(result=tensors_of(first.result))


def _compile_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function in one graph for one size; compiling again raises an error."""
    compiled = backends.compile_function(function, dynamic=False)
    from torch._dynamo import config  # noqa: PLC0415 - an older torch lacks it

    if hasattr(config, "error_on_recompile"):  # torch 2.0 lacks it
        config.error_on_recompile = True  # permanently, because timed runs must not compile
    return compiled


def module_of(
    operator: Any,
    run: Callable[..., Any],
    args: List[Any],
    kwargs: Dict[str, Any],
    *,
    copies: bool,
) -> Tuple[torch.nn.Module, List[Any]]:
    """Return the operator as a module of its tensors; other arguments are constants in its code.

    So a compiler only has to check the tensors at a run. With `copies`, an operator that changes
    its arguments gets copies: ONNX has no such operators, and removes copies that nothing else
    uses.
    """
    graph = torch.fx.Graph()
    tensors = tensors_of((args, kwargs))
    nodes = [graph.placeholder(f"x{number}") for number in range(len(tensors))]
    changed_ids = {id(tensor) for tensor in _changed_tensors(operator, args, kwargs)}
    changed = [number for number, tensor in enumerate(tensors) if id(tensor) in changed_ids]
    for number in changed if copies else ():
        nodes[number] = graph.call_method("clone", (nodes[number],))
    given = iter(nodes)
    placed = tree_map(
        lambda leaf: next(given) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    result = graph.call_function(run, tuple(placed[0]), placed[1])
    # An operator that returns nothing has changed its arguments.
    gives_back = operator._schema.returns  # noqa: SLF001 - nothing else tells
    graph.output(result if gives_back else [nodes[number] for number in changed])
    return torch.fx.GraphModule(torch.nn.Module(), graph).eval(), tensors


def largest_error(operator: Any, expected: List[Any], given: List[Any]) -> Optional[float]:
    """Return the largest difference of elements; None for random or uninitialised results."""
    if _is_arbitrary(operator):
        return None
    for one, other in zip(expected, given):
        if one.shape != other.shape:
            raise backends.BackendError(
                f"an output has the shape {list(other.shape)} instead of {list(one.shape)}"
            )
    return backends.largest_difference(expected, given)


def _operator(text: str) -> Any:
    """Return the operator itself; `rebuild` may return a function that runs it."""
    return operator_named(parse_call(text)["op"])


def _changed_tensors(operator: Any, args: List[Any], kwargs: Dict[str, Any]) -> List[Any]:
    """Return the tensors that the operator writes to, according to its schema."""
    found: List[Any] = []
    schema = operator._schema  # noqa: SLF001 - nothing else tells
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            found += tensors_of(value)
    return found


def _is_arbitrary(operator: Any) -> bool:
    tag = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
    name = operator.name().partition("::")[2]
    return (tag is not None and tag in operator.tags) or name.startswith(("empty", "new_empty"))

"""What one run does: forward, forward and backward, or backward alone.

A run is a function with its arguments, so that the timed loop calls it as a user would, with
nothing of ours between. Backward is by `torch.autograd.grad` with a fixed output gradient: no
`.grad` is written, so nothing accumulates.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch

from torchmark_probe.replay.backends import tensors_of
from torchmark_probe.sweep.models import CaseError

FORWARD = "forward"
FORWARD_BACKWARD = "forward+backward"
BACKWARD = "backward"


class Call(NamedTuple):
    """One run."""

    function: Callable[..., Any]
    arguments: Tuple[Any, ...]
    keywords: Dict[str, Any]

    def __call__(self) -> Any:
        return self.function(*self.arguments, **self.keywords)


def call_of_phase(
    phase: str, function: Callable[..., Any], module: Any, inputs: Sequence[Any]
) -> Call:
    """The run of this phase; `module` has the parameters that `function` uses, if any."""
    if phase == FORWARD:
        return Call(function, tuple(inputs), {})
    leaves = _leaves(module, inputs)
    if not leaves:
        raise CaseError("skipped", "neither an input nor a parameter has a gradient")
    outputs = _with_gradient(function(*inputs))
    if not outputs:
        raise CaseError("skipped", "no output has a gradient")
    gradients = _output_gradients(outputs)
    if phase == BACKWARD:
        keywords = {"retain_graph": True, "allow_unused": True}
        return Call(torch.autograd.grad, (outputs, leaves, gradients), keywords)
    del outputs
    grad = torch.autograd.grad

    def step(*tensors: Any) -> Any:
        return grad(_with_gradient(function(*tensors)), leaves, gradients, allow_unused=True)

    return Call(step, tuple(inputs), {})


def counted_calls(
    phase: str, function: Callable[..., Any], module: Any, inputs: Sequence[Any]
) -> List[Call]:
    """The parts of a run, one by one: torch's counter cannot look at both passes in one go."""
    parts = [FORWARD, BACKWARD] if phase == FORWARD_BACKWARD else [phase]
    return [call_of_phase(part, function, module, inputs) for part in parts]


def ready_for(phase: str, inputs: Sequence[Any]) -> List[Any]:
    """The inputs as leaves of a graph where the phase has one."""
    if phase == FORWARD:
        return list(inputs)
    return [
        tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor
        for tensor in inputs
    ]


def _leaves(module: Any, inputs: Sequence[Any]) -> List[Any]:
    parameters = list(module.parameters()) if isinstance(module, torch.nn.Module) else []
    return [tensor for tensor in [*parameters, *inputs] if tensor.requires_grad]


def _with_gradient(result: Any) -> List[Any]:
    return [tensor for tensor in tensors_of(result) if tensor.requires_grad]


def _output_gradients(outputs: Sequence[Any]) -> List[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(output.shape, generator=generator).to(output.dtype) for output in outputs]

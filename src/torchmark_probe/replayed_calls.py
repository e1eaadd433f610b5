"""A recorded call as a case of a replay: what its set-up gives to the timed loop.

Facts that belong to the call and are no times (FLOPs, how outputs differ) are printed as one line
of JSON: what a case prints comes back with its times.
"""

import json
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from torchmark_probe.backends import BackendError, prepared, tensors_of
from torchmark_probe.recorded_calls import rebuilt, settle
from torchmark_probe.recorded_flops import flops_of
from torchmark_probe.recorded_results import mismatches

FACTS = "torchmark_replay"
"""The key of the line that is printed."""


def eager(text: str, seed: int = 0) -> Tuple[Any, List[Any], Dict[str, Any]]:
    """The operator and its arguments, after a first run that is looked at."""
    settle()
    operator, args, kwargs = rebuilt(text, seed)
    result = operator(*args, **kwargs)
    _tell(
        flops=flops_of(operator, args, kwargs, result),
        remarks=mismatches(text, args, kwargs, result),
    )
    return operator, args, kwargs


def by_backend(backend: str, text: str, seed: int = 0) -> Callable[[], Any]:
    """One call as that backend executes it, after a first run that is compared with eager's."""
    settle()
    expected = _outputs(*rebuilt(text, seed))
    operator, args, kwargs = rebuilt(text, seed)
    module = RecordedModule(operator, args, kwargs, keeps_inputs=backend == "ort")
    ready = prepared(backend, module, module.tensors, torch.get_num_threads())
    _tell(
        prepare_seconds=ready.prepare_seconds,
        largest_error=largest_error(operator, expected, ready.outputs),
    )
    return ready.run


class RecordedModule(torch.nn.Module):
    """An operator with its arguments: the tensors among them are its inputs, in their order."""

    def __init__(
        self, operator: Any, args: List[Any], kwargs: Dict[str, Any], *, keeps_inputs: bool
    ) -> None:
        """`keeps_inputs` gives copies to an operator that would change its arguments: ONNX has
        no such operators, and leaves out a copy that nobody else sees.
        """
        super().__init__()
        self.operator = operator
        leaves, self.spec = tree_flatten((args, kwargs))
        changed = {id(tensor) for tensor in _changed(operator, args, kwargs)}
        self.places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.changed = [at for at in self.places if id(leaves[at]) in changed]
        self.copied = self.changed if keeps_inputs else []
        self.tensors = [leaves[at] for at in self.places]
        self.constants = [None if at in self.places else leaf for at, leaf in enumerate(leaves)]
        self.eval()

    def forward(self, *tensors: Any) -> Any:
        leaves = list(self.constants)
        for at, tensor in zip(self.places, tensors):
            leaves[at] = tensor.clone() if at in self.copied else tensor
        args, kwargs = tree_unflatten(leaves, self.spec)
        result = self.operator(*args, **kwargs)
        # An operator that gives back nothing has changed something.
        return result if result is not None else [leaves[at] for at in self.changed]


def largest_error(operator: Any, expected: List[Any], given: List[Any]) -> Optional[float]:
    """The largest difference of an element; None for operators that are random or fill nothing."""
    if _is_arbitrary(operator):
        return None
    largest = 0.0
    for one, other in zip(expected, given):
        if one.shape != other.shape:
            raise BackendError(
                "an output has the shape {} in place of {}".format(
                    list(other.shape), list(one.shape)
                )
            )
        if one.numel():
            largest = max(largest, _difference(one, other))
    return largest


def _difference(one: Any, other: Any) -> float:
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, other = one.to(wide), other.to(wide)
    alike = (one == other) | (one.isnan() & other.isnan())
    apart = (one - other).abs().masked_fill(alike, 0.0)
    return float(apart.nan_to_num(nan=float("inf"), posinf=float("inf")).max())


def _outputs(operator: Any, args: List[Any], kwargs: Dict[str, Any]) -> List[Any]:
    result = operator(*args, **kwargs)
    return tensors_of(result if result is not None else _changed(operator, args, kwargs))


def _changed(operator: Any, args: List[Any], kwargs: Dict[str, Any]) -> List[Any]:
    """The tensors that the schema says are written to."""
    found: List[Any] = []
    for at, argument in enumerate(operator._schema.arguments):  # noqa: SLF001 - the one way
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            found += tensors_of(value)
    return found


def _is_arbitrary(operator: Any) -> bool:
    tag = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
    name = operator.name().partition("::")[2]
    return (tag is not None and tag in operator.tags) or name.startswith(("empty", "new_empty"))


def _tell(**facts: Any) -> None:
    print(json.dumps({FACTS: facts}))  # noqa: T201 - it goes to whoever ordered the case

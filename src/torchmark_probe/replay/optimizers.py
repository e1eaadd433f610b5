"""A step of one of torch's optimizers, on parameters like those in a trace."""

import json
from typing import Any, Callable, Dict, List

import torch

from torchmark_probe.replay.records import dtype_named


def optimizer_step(text: str) -> Callable[[], Any]:
    """Return the `step` of the optimizer that a JSON text describes, after a first step.

    {"optimizer": "AdamW", "parameters": [[[64, 64], "float32", 12]], "options": {"fused": true}}:
    twelve parameters of this shape. Gradients and the learning rate are small, so that the numbers
    stay normal for any number of steps.
    """
    asked: Dict[str, Any] = json.loads(text)
    torch.set_flush_denormal(True)
    generator = torch.Generator().manual_seed(0)
    parameters: List[torch.nn.Parameter] = []
    for shape, dtype, count in asked["parameters"]:
        for _ in range(count):
            values = torch.rand(shape, generator=generator).to(dtype_named(dtype))
            parameter = torch.nn.Parameter(values)
            parameter.grad = values * 1e-3
            parameters.append(parameter)
    kind = getattr(torch.optim, asked["optimizer"])
    optimizer = kind(parameters, lr=1e-6, **asked["options"])
    optimizer.step()
    step: Callable[[], Any] = optimizer.step
    return step

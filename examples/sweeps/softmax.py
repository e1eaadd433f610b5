"""Softmax over the last dimension: one exponential for each element, three passes over a row.

    torchmark sweep examples/sweeps/softmax.py --html softmax.html

The model is a plain function of its input, so nothing initialises it. Rows of a few elements are
all overhead, long ones show whose vectorised exponential is the quickest.
"""

import torch


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


model = softmax
model_init_params: list[str] = []
input_params = [["rows", "classes"]]
input_scales = {"rows": [1, 64], "classes": [10, 100, 1000]}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

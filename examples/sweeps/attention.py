"""Scaled dot-product attention: the work grows with the square of the length.

    torchmark sweep examples/sweeps/attention.py --html attention.html

Three inputs share their dimensions, so a size holds for all of them. On logarithmic axes a line
that rises by two decades for one is the square; where it rises by less, overhead still hides it.
"""

import torch


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


model = attention
model_init_params: list[str] = []
input_params = [["batch", "heads", "length", "head_size"]] * 3
input_scales = {
    "batch": [1, 4],
    "heads": [4],
    "length": [16, 64, 256],
    "head_size": [32],
}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

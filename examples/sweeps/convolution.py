"""A convolution of 3 by 3: the operator with the most FLOPs for each byte.

    torchmark sweep examples/sweeps/convolution.py --html convolution.html

`conv` makes the model from the sizes it is given; the kernel's is always the same. Many channels on
a small picture are a matrix product, few on a large one are not: see which backend takes the other
way, and how far below its roof each stays. In fp16 ONNX Runtime casts to fp32 and back around the
convolution, which on a processor without fp16 arithmetic is much quicker than to compute in it.
"""

import torch


def conv(channels: int) -> torch.nn.Module:
    return torch.nn.Conv2d(channels, channels, kernel_size=3, padding=1)


model = conv
model_init_params = ["channels"]
input_params = [["batch", "channels", "side", "side"]]
input_scales = {"batch": [1], "channels": [8, 32], "side": [8, 16, 32]}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

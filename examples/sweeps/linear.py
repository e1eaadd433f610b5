"""A linear layer: from which size on is it the matrix product that one waits for?

    torchmark sweep examples/sweeps/linear.py --html linear.html

With a batch of one every weight is read for two FLOPs, so the bandwidth of the memory decides; with
a large batch the multipliers do. The roofline shows the way from one to the other. Small sizes show
what a call costs before any work is done: there ONNX Runtime and torch.compile differ the most.
"""

import torch

model = torch.nn.Linear
model_init_params = ["in_features", "out_features"]
input_params = [["batch", "in_features"]]
input_scales = {
    "batch": [1, 8, 64],
    "in_features": [64, 512],
    "out_features": [256],
}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

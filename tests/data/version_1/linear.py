"""The sweep of the stores here: one point that is measured, in four ways."""

import torch

model = torch.nn.Linear
model_init_params = ["width", "out"]
input_params = [["batch", "width"]]
input_scales = {"batch": [4], "width": [8], "out": [2]}
job_configs = ["pt fp32", "compile fp32", "ort fp64", "ort bf16"]

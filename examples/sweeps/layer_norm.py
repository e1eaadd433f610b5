"""Layer norm: few FLOPs for each byte, so memory decides, whatever computes it.

    torchmark sweep examples/sweeps/layer_norm.py --phase forward --phase forward+backward

Each row is normalised by itself. Long rows are read faster than many short ones, and in fp16 half
the bytes need not mean half the time: a processor without fp16 arithmetic converts each element.
"""

import torch

model = torch.nn.LayerNorm
model_init_params = ["features"]
input_params = [["rows", "features"]]
input_scales = {"rows": [1, 16, 256], "features": [64, 1024]}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

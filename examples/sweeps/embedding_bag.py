"""An embedding bag: rows of a table, picked at random and added up.

    torchmark sweep examples/sweeps/embedding_bag.py --html embedding_bag.html

The input is not of numbers but of indices, each smaller than the number of rows. As the table
outgrows the caches each row that is picked is a wait for memory, while the FLOPs stay the same.
ONNX has no such operator: the export is a loop over the bags, and the time shows it.
"""

import torch

from torchmark import indices


class SummedBag(torch.nn.Module):
    """`torch.nn.EmbeddingBag` that adds; bags are the rows of a matrix of indices."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(rows, width, mode="sum")

    def forward(self, picked: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = self.bag(picked)
        return summed


model = SummedBag
model_init_params = ["rows", "width"]
input_params = [indices("bags", "bag_size", below="rows")]
input_scales = {
    "rows": [1_000, 10_000, 100_000],
    "width": [64],
    "bags": [16, 128],
    "bag_size": [20],
}
job_configs = ["fp32", "fp16", "pt", "compile", "ort"]

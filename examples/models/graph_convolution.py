"""A graph convolution: a sparse matrix times features, then messages added up along the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


class GraphConvolution(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, 4)

    def forward(self, x: Tensor, neighbours: Tensor, edges: Tensor) -> Tensor:
        x = F.elu(torch.sparse.mm(neighbours, self.first(x)))
        source, target = edges
        messages = self.second(x)[source]
        degrees = torch.bincount(target, minlength=len(x)).clamp(min=1)
        return torch.zeros(len(x), 4).index_add(0, target, messages) / degrees.unsqueeze(1)


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    nodes = 20 * scale
    model = GraphConvolution(8 * scale)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    edges = torch.randint(0, nodes, (2, 4 * nodes))
    weights = torch.full((4 * nodes,), 0.25)
    neighbours = torch.sparse_coo_tensor(
        edges, weights, (nodes, nodes), check_invariants=True
    ).coalesce()
    x = torch.randn(nodes, 8 * scale)
    classes = torch.randint(0, 4, (nodes,))
    known = torch.rand(nodes) < 0.5

    def step() -> Tensor:
        scores = F.log_softmax(model(x, neighbours, edges), dim=1)
        loss = F.nll_loss(scores[known], classes[known])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

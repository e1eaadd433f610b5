"""A recommender: bags of embeddings with sparse gradients, their products, and two optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 100


class Recommender(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.users = nn.Embedding(ROWS, width, sparse=True)
        self.items = nn.EmbeddingBag(ROWS, width, mode="sum", sparse=True)
        self.dense = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        self.top = nn.Linear(width + 3, 1)

    def forward(self, users: Tensor, items: Tensor, offsets: Tensor, facts: Tensor) -> Tensor:
        dense = self.dense(facts)
        features = torch.stack([dense, self.users(users), self.items(items, offsets)], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        row, column = torch.tril_indices(3, 3, offset=-1)
        out: Tensor = self.top(torch.cat([dense, products[:, row, column]], dim=1))
        return out.squeeze(1)


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    batch = 8 * scale
    model = Recommender(8 * scale)
    tables = [*model.users.parameters(), *model.items.parameters()]
    layers = [*model.dense.parameters(), *model.top.parameters()]
    optimizers = [torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.SGD(layers, lr=0.01)]
    users = torch.randint(0, ROWS, (batch,))
    items = torch.randint(0, ROWS, (3 * batch,))
    offsets = torch.arange(0, 3 * batch, 3)
    facts = torch.randn(batch, 4)
    clicked = torch.randint(0, 2, (batch,)).float()

    def step() -> Tensor:
        loss = F.binary_cross_entropy_with_logits(model(users, items, offsets, facts), clicked)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    return step

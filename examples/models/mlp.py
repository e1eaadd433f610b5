"""A multilayer perceptron that learns classes: linear layers, dropout, momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


class Perceptron(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)
        self.last = nn.Linear(width, 10)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(F.relu(self.first(x)))
        out: Tensor = self.last(torch.tanh(self.second(x)))
        return out


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = Perceptron(16 * scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    x = torch.randn(8 * scale, 16 * scale)
    classes = torch.randint(0, 10, (8 * scale,))

    def step() -> Tensor:
        loss = F.cross_entropy(model(x), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

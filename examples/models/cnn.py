"""A convolutional network with batch norm and a residual connection; Adam on lists of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)) + x, inplace=True)


class ConvolutionalNetwork(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(channels), nn.MaxPool2d(2), Block(channels))
        self.head = nn.Linear(channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x))
        out: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return out


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = ConvolutionalNetwork(4 * scale)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    images = torch.randn(4, 3, 16 * scale, 16 * scale)
    images = images.contiguous(memory_format=torch.channels_last)
    classes = torch.randint(0, 10, (4,))

    def step() -> Tensor:
        loss = F.cross_entropy(model(images), classes, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

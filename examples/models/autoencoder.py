"""A variational autoencoder: convolutions both ways, samples drawn, a fused optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


class Autoencoder(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, channels, 4, stride=2, padding=1),
            nn.GroupNorm(2, channels),
            nn.SiLU(),
            nn.Conv2d(channels, 2 * channels, 4, stride=2, padding=1),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(channels, channels, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Conv2d(channels, 1, 3, padding=1),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, spread = self.encoder(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * spread).exp()
        return self.decoder(code), mean, spread


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = Autoencoder(4 * scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    images = torch.rand(4, 1, 8 * scale, 8 * scale)

    def step() -> Tensor:
        made, mean, spread = model(images)
        difference = F.mse_loss(made, images, reduction="sum")
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        loss: Tensor = (difference + divergence) / len(images)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

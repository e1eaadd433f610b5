"""A generator and a critic, each with its own optimizer: two backward passes in a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    width, batch = 16 * scale, 8 * scale
    generator = nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 2 * width)
    )
    critic = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(2 * width, width)),
        nn.LeakyReLU(0.2),
        nn.Linear(width, 1),
    )
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    real = torch.randn(batch, 2 * width)

    def judged(samples: Tensor, *, as_real: bool) -> Tensor:
        verdict = critic(samples)
        wanted = torch.full_like(verdict, float(as_real))
        return F.binary_cross_entropy_with_logits(verdict, wanted)

    def step() -> Tensor:
        made = generator(torch.randn(batch, 4))
        critic_loss = judged(real, as_real=True) + judged(made.detach(), as_real=False)
        critic_loss.backward()
        for_critic.step()
        for_critic.zero_grad()

        loss = judged(made, as_real=True)
        loss.backward()
        for_generator.step()
        for_generator.zero_grad()
        for_critic.zero_grad()
        return (loss + critic_loss).detach()

    return step

"""Mixed precision: autocast to bfloat16, a scaled loss, gradients unscaled and clipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    width = 16 * scale
    model = nn.Sequential(
        nn.Linear(width, 2 * width), nn.LayerNorm(2 * width), nn.GELU(), nn.Linear(2 * width, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    x = torch.randn(8 * scale, width)
    wanted = torch.randn(8 * scale, 4)

    def step() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(model(x), wanted)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    return step

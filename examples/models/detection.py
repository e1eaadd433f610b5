"""A detection-like head: candidates picked by topk, gather, masks and nonzero.

What is picked depends on the scores, so sizes differ from step to step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

CANDIDATES = 12


class DetectionHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.shared = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)
        self.box = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.hardswish(self.shared(x))
        scores = self.score(x).squeeze(-1)
        best, places = scores.topk(CANDIDATES, dim=1)
        boxes = self.box(x).gather(1, places.unsqueeze(-1).expand(-1, -1, 4))
        corners = torch.cat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:].exp()], dim=-1)
        return best, corners


def overlap(boxes: Tensor, truth: Tensor) -> Tensor:
    """Intersection over union, box by box."""
    low = torch.maximum(boxes[..., :2], truth[..., :2])
    high = torch.minimum(boxes[..., 2:], truth[..., 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1) + (truth[..., 2:] - truth[..., :2]).prod(-1)
    return shared / (areas - shared)


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = DetectionHead(8 * scale)
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    x = torch.randn(2, 32 * scale, 8 * scale)
    truth = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(2, CANDIDATES, 4)

    def step() -> Tensor:
        scores, boxes = model(x)
        with torch.no_grad():
            quality = overlap(boxes, truth)
            good = quality > quality.median()
            wanted = torch.zeros_like(scores)
            wanted[good] = 1.0
            rows, columns = good.nonzero(as_tuple=True)
            wanted.index_put_((rows, columns), quality[rows, columns], accumulate=True)
        weights = torch.where(good, 1.0, 0.25).masked_fill(scores < 0, 0.5)
        loss = F.binary_cross_entropy_with_logits(scores, wanted.clamp(max=1), weights)
        loss = loss + F.smooth_l1_loss(boxes[good], truth[good])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

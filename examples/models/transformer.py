"""A transformer of an encoder and a decoder, with masks, a schedule and AdamW."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = 40
PADDING = 0


class Translator(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width, padding_idx=PADDING)
        self.positions = nn.Embedding(16, width)
        self.transformer = nn.Transformer(
            width, 2, 1, 1, 2 * width, batch_first=True, activation="gelu"
        )
        self.out = nn.Linear(width, TOKENS)

    def embed(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1])
        embedded: Tensor = self.tokens(tokens) + self.positions(places)
        return embedded

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.shape[1]
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=source == PADDING,
            memory_key_padding_mask=source == PADDING,
        )
        out: Tensor = self.out(hidden)
        return out


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = Translator(16 * scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    source = torch.randint(1, TOKENS, (2 * scale, 8))
    source[:, 6:] = PADDING
    target = torch.randint(1, TOKENS, (2 * scale, 7))

    def step() -> Tensor:
        scores = model(source, target[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

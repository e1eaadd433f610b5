"""A language model of two LSTM layers, with gradient clipping and Adagrad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = 50


class LanguageModel(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, TOKENS)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.recurrent(self.tokens(tokens))
        out: Tensor = self.out(hidden)
        return out


def make(scale: int = 1) -> Callable[[], Tensor]:
    torch.manual_seed(0)
    model = LanguageModel(16 * scale)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
    text = torch.randint(0, TOKENS, (4 * scale, 7))

    def step() -> Tensor:
        scores = model(text[:, :-1])
        loss = F.cross_entropy(scores.reshape(-1, TOKENS), text[:, 1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step

"""Four ways to write a batched dot product, over several shapes: what `torchmark run` measures.

The answer depends on the shape, which is why people benchmark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.run.torch_import import import_torch
from torchmark.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPES = ((1, 16), (64, 64), (1024, 64), (64, 4096))
"""Batches and lengths of the vectors."""

IMPLEMENTATIONS = {
    "multiply and sum": "(a * b).sum(-1)",
    "bmm": "torch.bmm(a.unsqueeze(1), b.unsqueeze(2)).flatten()",
    "einsum": "torch.einsum('bi,bi->b', a, b)",
    "vecdot": "torch.linalg.vecdot(a, b)",
}


def groups() -> Iterator[list[Timer]]:
    """For each shape the timers that compete, to be measured together."""
    torch = import_torch()
    generator = torch.Generator().manual_seed(0)
    for batch, length in SHAPES:
        a, b = (torch.randn(batch, length, generator=generator) for _ in range(2))
        yield [
            Timer(
                stmt,
                globals={"a": a, "b": b},
                label="Batched dot product",
                sub_label=name,
                description=f"{batch}x{length}",
            )
            for name, stmt in IMPLEMENTATIONS.items()
        ]

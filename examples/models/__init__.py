"""Ten small models of different kinds that train: what capture and replay are tried on.

    torchmark capture -m examples.models lstm

A file is one kind, with `make(scale)`: seeded, it gives a function that makes one training step
(forward, backward, optimizer) and returns the loss. Sizes grow with `scale`: 1 is small enough for
tests, at 16 most operators take 20 µs and more.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from examples.models import (
    autoencoder,
    cnn,
    detection,
    gan,
    graph_convolution,
    lstm,
    mixed_precision,
    mlp,
    recommender,
    transformer,
)

Step = Callable[[], Tensor]

MODELS: dict[str, Callable[[int], Step]] = {
    "mlp": mlp.make,
    "cnn": cnn.make,
    "lstm": lstm.make,
    "transformer": transformer.make,
    "recommender": recommender.make,
    "graph_convolution": graph_convolution.make,
    "gan": gan.make,
    "autoencoder": autoencoder.make,
    "detection": detection.make,
    "mixed_precision": mixed_precision.make,
}

__all__ = ["MODELS", "Step"]

"""A model over input scales and job configs: what people write, its cases, their measurement."""

from torchmark.sweep.inputs import indices
from torchmark.sweep.scales import linspace, logspace

__all__ = ["indices", "linspace", "logspace"]

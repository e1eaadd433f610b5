"""A model over input scales and job configs: what people write, its cases, their measurement."""

from torchmark.define.sweep.inputs import indices
from torchmark.define.sweep.scales import linspace, logspace

__all__ = ["indices", "linspace", "logspace"]

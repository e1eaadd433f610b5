"""A model over input scales and job configs: what people write, its cases, their measurement."""

from torchmark.define.sweep.scales import linspace, logspace
from torchmark.define.sweep.spec import indices

__all__ = ["indices", "linspace", "logspace"]

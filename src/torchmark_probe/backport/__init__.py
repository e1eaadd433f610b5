"""A Timer for scripts inside an old environment, with the interface of `torch.utils.benchmark`.

`torchmark.engine.backport` copies this package and the modules that it needs into an environment's
torch, where torchmark is not installed. So the modules use relative imports, and a copy is
identical to the original. The control side never uses this Timer.
"""

from ..loops.measurement import Measurement, TaskSpec
from .timer import Language, Timer, timer

__all__ = ["Language", "Measurement", "TaskSpec", "Timer", "timer"]

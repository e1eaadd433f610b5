"""A Timer for scripts inside an old environment, with `torch.utils.benchmark`'s interface.

`torchmark.engine.backport` copies this package and the modules it needs into an environment's
torch, where nothing of torchmark is installed. So they name each other relatively, and a copy is
the same to the byte. The control side never uses this Timer: it has its own.
"""

from ..loops.measurement import Measurement, TaskSpec
from .timer import Language, Timer, timer

__all__ = ["Language", "Measurement", "TaskSpec", "Timer", "timer"]

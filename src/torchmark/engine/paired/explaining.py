"""Which Python functions are behind a change: those that do not do the same in both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.engine.zygote.cases import PythonCase
from torchmark.errors import TorchmarkError
from torchmark.model.result import PythonCalls

if TYPE_CHECKING:
    from torchmark.engine.paired.readying import Ready
    from torchmark.engine.under_test import UnderTest


def python_functions(
    a: UnderTest, b: UnderTest, ready: tuple[Ready, Ready], *, threads: int, time_limit: float
) -> tuple[PythonCalls, ...]:
    """Bytecodes of one run by function, where they differ, biggest first; none for C++."""
    calls = []
    for side, case in ((a, ready[0]), (b, ready[1])):
        if not isinstance(case, PythonCase):
            return ()
        zygote = side.workers.start(threads, under_callgrind=False)
        try:
            calls.append(zygote.python_calls(case, time_limit=time_limit))
        except TorchmarkError:  # a statement that cannot be traced: the change is still reported
            return ()
    one, other = calls
    differing = [
        PythonCalls(function=name, a=one.get(name, 0), b=other.get(name, 0))
        for name in {**one, **other}
        if one.get(name, 0) != other.get(name, 0)
    ]
    return tuple(sorted(differing, key=lambda each: (-abs(each.b - each.a), each.function)))

"""What one run of a statement does in Python: bytecodes by function.

Exact, and the same at every run, unlike a time: a function that does more in one environment than
in another shows, however little it is, and with its name, which a count of machine instructions
puts down to the interpreter's loop.
"""

import sys
from types import CodeType, FrameType
from typing import Any, Callable, Dict

from torchmark_probe.loops.snippets import SOURCE_PREFIX


def by_function(run: Callable[[], Any]) -> Dict[str, int]:
    """Bytecodes that each Python function executes for the statement that `run` runs.

    What the probe does around the statement differs from Python to Python, and is no cause.
    """
    counts = {}  # type: Dict[CodeType, int]

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        code = frame.f_code
        if event == "call":
            is_called_by_it = frame.f_back is not None and frame.f_back.f_trace is not None
            if not (is_called_by_it or code.co_filename.startswith(SOURCE_PREFIX)):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            counts.setdefault(code, 0)
        elif event == "opcode":
            counts[code] += 1
        return trace

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    found = {}  # type: Dict[str, int]
    for code, count in counts.items():
        name = _name(code)
        found[name] = found.get(name, 0) + count
    return found


def _name(code: CodeType) -> str:
    if code.co_filename.startswith(SOURCE_PREFIX):
        return "the statement"
    return "{} ({})".format(getattr(code, "co_qualname", code.co_name), _short(code))


def _short(code: CodeType) -> str:
    """The file below the place where packages lie, the same in every environment."""
    path = code.co_filename
    for entry in sorted(filter(None, sys.path), key=len, reverse=True):
        if path.startswith(entry.rstrip("/") + "/"):
            return path[len(entry.rstrip("/")) + 1 :]
    return path

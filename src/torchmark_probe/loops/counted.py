"""A statement for counting: machine instructions under callgrind, or bytecodes per function.

*Under callgrind* its code has the same form as with torch's `collect_callgrind`, so that the counts
agree: module code, whose names are globals, with up to two hundred copies of the statement, so that
there is almost no loop to count. It is one piece of code with the warm-up: Python 3.11 begins to
specialise code after eight backward jumps in it, and the counted code must be the same either way.
Modules are imported in it too, because Python compiles `torch.mm(x, y)` differently if it sees the
import.

*Bytecodes* are exact and the same in every run, unlike times. If a function does more in one
environment than in another, they show it, no matter how small the difference, and they name the
function. A count of machine instructions attributes it to the interpreter's loop instead.
"""

import ast
import sys
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List

from torchmark_probe.loops.snippets import (
    SOURCE_PREFIX,
    compile_parts,
    execute,
    parse_parts,
    splice,
)

_COPIES = 100
"""Number of copies in the body of the loop; there is a loop from twice as many runs on."""

_MODULE = """
IMPORTS
SETUP
for _torchmark_run in range(WARMUP):
    STATEMENT
_torchmark_ready()
_torchmark_toggle()
COUNTED
_torchmark_toggle()
"""


class UnrolledCode:
    """Compiled once; `run` runs the setup, the warm-up and the counted runs."""

    def __init__(
        self, stmt: str, setup: str, imports: Dict[str, str], *, number: int, warmup: int
    ) -> None:
        """`imports` maps the names that the statement uses to the names of modules."""
        parts = parse_parts(stmt, setup)
        template = ast.parse(_MODULE.replace("WARMUP", str(warmup)))
        warming_up = next(node for node in template.body if isinstance(node, ast.For))
        warming_up.body = parts.stmt
        lines = [f"import {module} as {name}" for name, module in imports.items()]
        splice(template.body, "IMPORTS", ast.parse("\n".join(lines)).body)
        splice(template.body, "SETUP", parts.setup)
        splice(template.body, "COUNTED", _copies(parts.stmt, number))
        self._code = compile_parts(template, parts)

    def run(
        self,
        namespace: Dict[str, Any],
        ready: Callable[[], None],
        toggle: Callable[[], object],
    ) -> None:
        """Run everything; `ready` is called after the warm-up, `toggle` around the counted runs."""
        namespace["_torchmark_ready"] = ready
        namespace["_torchmark_toggle"] = toggle
        execute(self._code, namespace)


def _copies(stmt: List[ast.stmt], number: int) -> List[ast.stmt]:
    loops = number // _COPIES
    if loops < 2:
        return stmt * number
    loop = ast.parse(f"for _torchmark_run in range({loops}): pass").body
    assert isinstance(loop[0], ast.For)
    loop[0].body = stmt * _COPIES
    return loop + stmt * (number % _COPIES)


def bytecodes_by_function(run: Callable[[], Any]) -> Dict[str, int]:
    """Return the bytecodes that each Python function executes for the statement that `run` runs.

    Bytecodes of the probe around the statement are left out: they differ between Python versions.
    """
    counts: Dict[CodeType, int] = {}

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
    found: Dict[str, int] = {}
    for code, count in counts.items():
        name = _name(code)
        found[name] = found.get(name, 0) + count
    return found


def _name(code: CodeType) -> str:
    if code.co_filename.startswith(SOURCE_PREFIX):
        return "the statement"
    return f"{getattr(code, 'co_qualname', code.co_name)} ({_short(code.co_filename)})"


def _short(path: str) -> str:
    """Return the path relative to the import path, so that it is the same in every environment."""
    for entry in sorted(filter(None, sys.path), key=len, reverse=True):
        if path.startswith(entry.rstrip("/") + "/"):
            return path[len(entry.rstrip("/")) + 1 :]
    return path

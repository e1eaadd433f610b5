"""A statement and its setup, as text, become the code that is counted.

It is laid out as torch's `collect_callgrind` lays it out, so that counts agree: the code of a
module, whose names are globals, with the statement written out up to two hundred times, so that
there is next to no loop to count. It is one piece of code with the warm-up: Python 3.11 begins to
specialise code after eight jumps backward in it, and what is counted must be the same either way.
Modules are imported there too: Python compiles `torch.mm(x, y)` otherwise where it sees that.
"""

import ast
from typing import Any, Callable, Dict, List

from torchmark_probe.loops.snippets import compile_parts, parse_parts, splice

_COPIES = 100
"""Runs that are written out one after the other, in a loop from twice as many on."""

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
    """Compiled once; `run` does setup, warm-up and the counted runs."""

    def __init__(
        self, stmt: str, setup: str, imports: Dict[str, str], *, number: int, warmup: int
    ) -> None:
        """`imports` has the names of modules by the names that the statement has for them."""
        parts = parse_parts(stmt, setup)
        template = ast.parse(_MODULE.replace("WARMUP", str(warmup)))
        warming_up = next(node for node in template.body if isinstance(node, ast.For))
        warming_up.body = parts.stmt
        splice(template.body, "IMPORTS", _import_statements(imports))
        splice(template.body, "SETUP", parts.setup)
        splice(template.body, "COUNTED", _copies(parts.stmt, number))
        self._code = compile_parts(template, parts)

    def run(
        self,
        namespace: Dict[str, Any],
        ready: Callable[[], None],
        toggle: Callable[[], object],
    ) -> None:
        """Run it all; `ready` is called after the warm-up, `toggle` around the counted runs."""
        namespace["_torchmark_ready"] = ready
        namespace["_torchmark_toggle"] = toggle
        exec(self._code, namespace)  # noqa: S102 - running the user's statement is the purpose


def _import_statements(imports: Dict[str, str]) -> List[ast.stmt]:
    lines = ["import {} as {}".format(module, name) for name, module in imports.items()]
    return ast.parse("\n".join(lines)).body


def _copies(stmt: List[ast.stmt], number: int) -> List[ast.stmt]:
    loops = number // _COPIES
    if loops < 2:
        return stmt * number
    loop = ast.parse("for _torchmark_run in range({}): pass".format(loops)).body
    assert isinstance(loop[0], ast.For)
    loop[0].body = stmt * _COPIES
    return loop + stmt * (number % _COPIES)

"""A line of Python as data: what `--where` and the sizes of a dimension are written in.

Python's parser runs out of memory or of stack on text that nobody writes by hand, and arithmetic
with numbers of thousands of digits takes minutes. What is longer, deeper or larger than the limits
is refused before anything is computed.
"""

from __future__ import annotations

import ast
import re
import warnings

_LONGEST = 100_000
"""Characters: a list of the most sizes that a dimension may have still fits."""

_DEEPEST = 100
"""Operations and brackets within each other."""

_LARGEST = 2**63
"""Numbers from here on are no sizes, and no sums or products of sizes."""

_TOO_DEEP = f"more than {_DEEPEST} operations or brackets within each other"
_TOO_LARGE = "a number has to be below 2**63"


class ExpressionError(ValueError):
    """Text that is no expression; `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def parse_expression(text: str) -> tuple[str, ast.expr]:
    """The text on one line, which positions refer to, and its tree, within the limits."""
    line = re.sub(r"\s", " ", text).strip()
    if len(line) > _LONGEST:
        raise ExpressionError(f"more than {_LONGEST:,} characters", 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on how to write code
            tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        said = _TOO_LARGE if "digits" in error.msg else error.msg  # Python's limit of 4,300
        # What ends too early has no place.
        raise ExpressionError(said, error.offset - 1 if error.offset else len(line)) from error
    except (RecursionError, MemoryError) as error:
        raise ExpressionError(_TOO_DEEP, 0) from error
    except ValueError as error:  # a NUL, or half of a character
        raise ExpressionError(str(error), 0) from error
    _check_depth(line, tree)
    for node in ast.walk(tree):
        _check_constant(line, node)
    return line, tree


def position_of(line: str, node: ast.AST) -> int:
    """Where it starts, in characters; Python counts bytes."""
    return len(line.encode()[: getattr(node, "col_offset", 0)].decode())


def _check_depth(line: str, tree: ast.AST) -> None:
    level = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionError(_TOO_DEEP, position_of(line, level[0]))


def _check_constant(line: str, node: ast.AST) -> None:
    if not isinstance(node, ast.Constant):
        return
    if not isinstance(node.value, int | float | str):
        raise ExpressionError("a constant is a number or text", position_of(line, node))
    if not isinstance(node.value, str) and not abs(node.value) < _LARGEST:
        raise ExpressionError(_TOO_LARGE, position_of(line, node))

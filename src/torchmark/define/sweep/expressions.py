"""Parses a line of Python as data: for `--where`, `valid` and the sizes of a dimension.

A filter is an expression over the dimensions and the job config: comparisons, arithmetic, and, or,
not, `in`, numbers and text. It is parsed as Python and evaluated by walking through the syntax
tree. Nothing else is supported, so the text cannot do anything but return a value.

Python's parser runs out of memory or stack on extreme text, and arithmetic with numbers of
thousands of digits takes minutes. Text that is longer, deeper or larger than the limits is refused
before anything is computed.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

from torchmark.errors import MarkedTextError

Values = Mapping[str, Any]

_LONGEST = 100_000
"""Characters. A list with the maximum number of sizes still fits."""

_DEEPEST = 100
"""Nested operations and brackets."""

_LARGEST = 2**63
"""Numbers must be smaller: larger ones are not sizes, nor sums or products of sizes."""

_TOO_DEEP = f"more than {_DEEPEST} nested operations or brackets"
_TOO_LARGE = "a number must be below 2**63"


class ExpressionError(ValueError):
    """The text is not a valid expression; `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


def parse_expression(text: str) -> tuple[str, ast.expr]:
    """Return the text on one line, to which positions refer, and its tree, within the limits."""
    line = re.sub(r"\s", " ", text).strip()
    if len(line) > _LONGEST:
        raise ExpressionError(f"more than {_LONGEST:,} characters", 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's warnings about the code
            tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        said = _TOO_LARGE if "digits" in error.msg else error.msg  # Python's limit of 4,300
        # The error for text that ends too early has no position.
        raise ExpressionError(said, error.offset - 1 if error.offset else len(line)) from error
    except (RecursionError, MemoryError) as error:
        raise ExpressionError(_TOO_DEEP, 0) from error
    except ValueError as error:  # a NUL, or a surrogate
        raise ExpressionError(str(error), 0) from error
    _check_depth(line, tree)
    for node in ast.walk(tree):
        _check_constant(line, node)
    return line, tree


def position_of(line: str, node: ast.AST) -> int:
    """Return where the node starts, in characters; Python counts bytes."""
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
        raise ExpressionError("a constant must be a number or text", position_of(line, node))
    if not isinstance(node.value, str) and not abs(node.value) < _LARGEST:
        raise ExpressionError(_TOO_LARGE, position_of(line, node))


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, several: value in several,
    ast.NotIn: lambda value, several: value not in several,
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_LEAVES = (ast.Name, ast.Constant, ast.boolop, ast.expr_context)
_BRANCHES = (ast.BoolOp, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)
_UNKNOWN = {ast.Call: "calls", ast.Attribute: "attributes", ast.Pow: "powers"}


class WhereError(MarkedTextError):
    """A filter that cannot be parsed."""

    remedy = 'Write it like "batch * features <= 65536 and batch not in (1, 3)".'


def filter_of(text: str, names: Collection[str]) -> Callable[[Values], bool]:
    """Return a function of a case's values by name; an error points at the mistake.

    >>> filter_of("2 * batch < 10 and backend == 'pt'", ["batch", "backend"])(
    ...     {"batch": 4, "backend": "pt"})
    True
    """
    value_of = expression_of(text, names, "--where")
    return lambda values: bool(value_of(values))


def expression_of(text: str, names: Collection[str], what: str) -> Callable[[Values], Any]:
    """Return a function that evaluates the text with values by name; errors begin with `what`."""
    try:
        line, tree = parse_expression(text)
    except ExpressionError as error:
        raise WhereError(f"{what}: {error}", text=text, position=error.position) from error
    for node in ast.walk(tree):
        _check(node, line, names, what)

    def value_of(values: Values) -> Any:
        try:
            return _value(tree, values)
        except (TypeError, ArithmeticError, ValueError) as error:
            raise WhereError(f"{what}: {error}", text=line, position=0) from error

    return value_of


def _check(node: ast.AST, text: str, names: Collection[str], what: str) -> None:
    position = position_of(text, node)
    if not isinstance(node, (*_LEAVES, *_BRANCHES)) and type(node) not in _OPERATORS:
        kind = _UNKNOWN.get(type(node), f"this ({type(node).__name__})")
        raise WhereError(f"{what} does not support {kind}", text=text, position=position)
    if isinstance(node, ast.Name) and node.id not in names:
        said = f"{what}: unknown name {node.id!r}; the names are {', '.join(names)}"
        raise WhereError(said, text=text, position=position)


def _value(node: ast.AST, values: Values) -> Any:  # noqa: PLR0911 - one for each kind
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Tuple | ast.List):
        return [_value(each, values) for each in node.elts]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, values), _value(node.right, values)
        if isinstance(left, str | list) or isinstance(right, str | list):
            raise TypeError("arithmetic only works with numbers")
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.BoolOp):
        parts = (_value(each, values) for each in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    assert isinstance(node, ast.Compare)
    left = _value(node.left, values)
    for comparison, each in zip(node.ops, node.comparators, strict=True):
        right = _value(each, values)
        if not _OPERATORS[type(comparison)](left, right):
            return False
        left = right
    return True

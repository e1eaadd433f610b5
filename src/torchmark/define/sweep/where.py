"""The filter of `--where`: an expression over the dimensions and the job config, read as data.

Comparisons, arithmetic, and, or, not, `in`, numbers and text: what Python writes so is walked
through as a tree, and nothing else is known, so the text can do nothing but say yes or no.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from torchmark.errors import MarkedTextError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Values = Mapping[str, Any]
    Where = Callable[[Values], bool]

_REMEDY = "Write it like \"batch * features <= 65536 and backend != 'ort'\"."

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
    """A filter that cannot be read."""

    remedy = _REMEDY


def filter_of(text: str, names: Collection[str]) -> Where:
    """A function of a case's values by name; an error points at what is not understood.

    >>> filter_of("2 * batch < 10 and backend == 'pt'", ["batch", "backend"])(
    ...     {"batch": 4, "backend": "pt"})
    True
    """
    text = text.strip()
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        offset = getattr(error, "offset", None)
        position = offset - 1 if offset else len(text)  # what ends too early has none
        said = getattr(error, "msg", str(error))
        raise WhereError(f": {said}", text=text, position=position) from error
    for node in ast.walk(tree):
        _check(node, text, names)

    def holds(values: Values) -> bool:
        try:
            return bool(_value(tree, values))
        except (TypeError, ArithmeticError, ValueError) as error:
            raise WhereError(f": {error}", text=text, position=0) from error

    return holds


def _check(node: ast.AST, text: str, names: Collection[str]) -> None:
    position = getattr(node, "col_offset", 0)
    if not isinstance(node, (*_LEAVES, *_BRANCHES)) and type(node) not in _OPERATORS:
        kind = _UNKNOWN.get(type(node), f"this ({type(node).__name__})")
        raise WhereError(f" does not know {kind}", text=text, position=position)
    if isinstance(node, ast.Name) and node.id not in names:
        said = f": there is no {node.id!r}; there are {', '.join(names)}"
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
            raise TypeError("arithmetic is for numbers")
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

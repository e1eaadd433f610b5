"""From a spec to its cases: every combination of sizes, with every job config and phase.

Points that initialise the model alike stand together, so that it is built, exported and compiled
once for all of them; of each point all configs stand together, so that what changes on the machine
changes for all of them.

The filter of `--where` is an expression over the dimensions and the job config: comparisons,
arithmetic, and, or, not, `in`, numbers and text. What Python writes so is walked through as a tree,
and nothing else is known, so the text can do nothing but say yes or no.

How long the cases may take is said before they start, so that nobody waits for days. The figures
are of small models on an ordinary processor; a model whose run takes a second takes longer, and a
large machine is quicker.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import random
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from torchmark.define.sweep.axes import JobConfig
from torchmark.define.sweep.expressions import ExpressionError, parse_expression, position_of
from torchmark.define.sweep.spec import CONFIG_FIELDS, SweepSpec
from torchmark.errors import InvalidArgumentError, MarkedTextError
from torchmark.model.case import Case
from torchmark.model.run_settings import Dims, Phase, SweepPoint, case_of
from torchmark_probe.zygote.messages import Input

Values = Mapping[str, Any]

_MOST_CASES = 1_000_000
"""More are refused: at a tenth of a second for each it would take a day."""

_START = 10.0
"""Seconds for importing torch, twice."""

_CASE = 0.2
"""Seconds for the samples of a case and all around them."""

_PREPARING = {"pt": 0.0, "ort": 2.0, "compile": 8.0}
"""Seconds for each model and dtype that a backend has to prepare."""


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


class SweepCase(NamedTuple):
    """One case of a sweep, and the point that it stands for."""

    case: Case
    point: SweepPoint


def all_cases(
    spec: SweepSpec,
    *,
    where: str = "",
    sample: int | None = None,
    phases: Sequence[Phase] = (Phase.FORWARD,),
) -> list[SweepCase]:
    """What is to be measured, in the order in which it is done.

    `where` is a filter, as of `--where`. Of `sample` points that are drawn with a fixed seed all
    configs are taken. `phases` are for the job configs that do not say their own.
    """
    configs = configs_with_phases(spec, phases)
    if sample is not None and not where:
        total = number_of_points(spec)
        _check_number(min(total, sample), len(configs))
        sizes = [_dims_at(spec, place) for place in _draw(total, sample)]
        found = list(_points_by_sizes(sizes, configs, lambda _: True))
    else:
        _check_number(number_of_points(spec), len(configs))
        found = list(_points_by_sizes(_all_dims(spec), configs, _filter(spec, where)))
        if sample is not None:
            found = [found[place] for place in _draw(len(found), sample)]
    if not found:
        raise InvalidArgumentError(f"no case is left: none has {where!r}")
    by_model: dict[tuple[int, ...], list[SweepPoint]] = {}
    for points in found:
        by_model.setdefault(_init_sizes(spec, points[0]), []).extend(points)
    stmt, setup = _statement(spec), spec.model_source
    return [
        SweepCase(case_of(point, model=spec.model_name, stmt=stmt, setup=setup), point)
        for points in by_model.values()
        for point in points
    ]


def number_of_points(spec: SweepSpec) -> int:
    """Before anything is filtered or drawn."""
    return math.prod(map(len, spec.scales.values()))


def configs_with_phases(spec: SweepSpec, phases: Sequence[Phase]) -> list[JobConfig]:
    """Everything that is measured of one point, each with its phase."""
    found = (
        replace(config, phase=phase)
        for config in spec.configs
        for phase in ([config.phase] if config.phase is not None else phases)
    )
    return list(dict.fromkeys(found))


def seconds_for(spec: SweepSpec, cases: Sequence[SweepCase]) -> float:
    """What these cases take, give or take a factor of two."""
    prepared = {
        (_init_sizes(spec, point), point.dtype, point.backend, point.phase) for _, point in cases
    }
    preparing = sum(_PREPARING[backend] for _, _, backend, _ in prepared)
    return _START + _CASE * len(cases) + preparing


def duration_text(seconds: float) -> str:
    """
    >>> [duration_text(seconds) for seconds in (40, 400, 40_000, 4_000_000)]
    ['40 s', '7 min', '11 h', '46 days']
    """
    for limit, length, unit in ((100, 1, "s"), (6000, 60, "min"), (200_000, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:.0f} days"


def _check_number(points: int, configs: int) -> None:
    number = points * configs
    if number > _MOST_CASES:
        raise InvalidArgumentError(
            f"{points:,} points with {configs} configs each are {number:,} cases, about "
            f"{duration_text(_START + _CASE * number)}, and at most {_MOST_CASES:,} are gone "
            "through; give dimensions fewer sizes with --set, or draw some with --sample N "
            "without --where"
        )


def _draw(total: int, number: int) -> list[int]:
    if total > sys.maxsize:
        raise InvalidArgumentError(
            f"the dimensions have {total:,} combinations, and none can be drawn from more than "
            f"{sys.maxsize:,}; give them fewer sizes with --set"
        )
    drawn = random.Random(0).sample(range(total), min(number, total))  # noqa: S311 - no secret
    return sorted(drawn)


def _all_dims(spec: SweepSpec) -> Iterator[Dims]:
    for sizes in itertools.product(*spec.scales.values()):
        yield tuple(zip(spec.scales, sizes, strict=True))


def _dims_at(spec: SweepSpec, place: int) -> Dims:
    """The sizes at this place of the product, whose last dimension changes first."""
    found: list[tuple[str, int]] = []
    for name, sizes in reversed(list(spec.scales.items())):
        place, at = divmod(place, len(sizes))
        found.insert(0, (name, sizes[at]))
    return tuple(found)


def _points_by_sizes(
    sizes: Iterable[Dims], configs: Sequence[JobConfig], wanted: Callable[[SweepPoint], bool]
) -> Iterator[list[SweepPoint]]:
    """The points that are wanted, those of the same sizes together."""
    settings = [asdict(config) for config in configs]
    for dims in sizes:
        points = [SweepPoint(dims=dims, **each) for each in settings]
        chosen = [point for point in points if wanted(point)]
        if chosen:
            yield chosen


def _filter(spec: SweepSpec, where: str) -> Callable[[SweepPoint], bool]:
    if not where:
        return lambda _: True
    holds = filter_of(where, [*spec.scales, *CONFIG_FIELDS])

    def wanted(point: SweepPoint) -> bool:
        values = {
            **dict(point.dims), "dtype": point.dtype, "backend": point.backend,
            "phase": point.phase.value, "threads": point.threads,
        }  # fmt: skip
        return holds(values)

    return wanted


class WhereError(MarkedTextError):
    """A filter that cannot be read."""

    remedy = "Write it like \"batch * features <= 65536 and backend != 'ort'\"."


def filter_of(text: str, names: Collection[str]) -> Callable[[Values], bool]:
    """A function of a case's values by name; an error points at what is not understood.

    >>> filter_of("2 * batch < 10 and backend == 'pt'", ["batch", "backend"])(
    ...     {"batch": 4, "backend": "pt"})
    True
    """
    try:
        line, tree = parse_expression(text)
    except ExpressionError as error:
        raise WhereError(f"--where: {error}", text=text, position=error.position) from error
    for node in ast.walk(tree):
        _check(node, line, names)

    def holds(values: Values) -> bool:
        try:
            return bool(_value(tree, values))
        except (TypeError, ArithmeticError, ValueError) as error:
            raise WhereError(f"--where: {error}", text=line, position=0) from error

    return holds


def _check(node: ast.AST, text: str, names: Collection[str]) -> None:
    position = position_of(text, node)
    if not isinstance(node, (*_LEAVES, *_BRANCHES)) and type(node) not in _OPERATORS:
        kind = _UNKNOWN.get(type(node), f"this ({type(node).__name__})")
        raise WhereError(f"--where does not know {kind}", text=text, position=position)
    if isinstance(node, ast.Name) and node.id not in names:
        said = f"--where: there is no {node.id!r}; there are {', '.join(names)}"
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


def _init_sizes(spec: SweepSpec, point: SweepPoint) -> tuple[int, ...]:
    """What the model is initialised with."""
    return tuple(size for name, size in point.dims if name in spec.init)


def _statement(spec: SweepSpec) -> str:
    """What the case is, for a person and for its id: the model and the shapes of its inputs."""
    inputs = ", ".join(_input_text(each) for each in spec.inputs)
    return f"{spec.model_name}({', '.join(spec.init)})({inputs})"


def _input_text(each: Input) -> str:
    shape = f"[{', '.join(map(str, each.dims))}]"
    return shape if each.below is None else f"{each.dtype}{shape} < {each.below}"

"""Makes the cases of a spec: every combination of sizes, with every job config and phase.

Points with the same initialisation are next to each other, so that the model is built, exported and
compiled once for all of them. All configs of a point are next to each other, so that changes of the
machine affect all of them.

The time that the cases may take is estimated before they start, so that nobody waits for days by
accident. The figures are for small models on an ordinary processor: a model whose run takes a
second takes longer, and a large machine is faster.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from torchmark.define.sweep.axes import JobConfig
from torchmark.define.sweep.expressions import filter_of
from torchmark.define.sweep.spec import CONFIG_FIELDS, SweepSpec, rule_of
from torchmark.errors import DefinitionError, InvalidArgumentError, MarkedTextError
from torchmark.model.case import Case
from torchmark.model.run_settings import THREADS, Dims, Phase, SweepPoint, case_of, dims_text
from torchmark_probe.zygote.messages import Input

_MOST_CASES = 1_000_000
"""Maximum number of cases: at 0.1 s each they take more than a day."""

_START = 10.0
"""Seconds for importing torch twice."""

_CASE = 0.2
"""Seconds for measuring a case, including everything around it."""

_PREPARING = {"pt": 0.0, "ort": 2.0, "compile": 8.0, "compile-static": 8.0}
"""Seconds of preparation per model and dtype; for a static backend, also per point."""


class SweepCase(NamedTuple):
    """One case of a sweep, and its point."""

    case: Case
    point: SweepPoint


def all_cases(
    spec: SweepSpec,
    *,
    where: str = "",
    sample: int | None = None,
    phases: Sequence[Phase] = (Phase.FORWARD,),
) -> list[SweepCase]:
    """Return the cases to measure, in the order in which they are measured.

    `where` is a filter, as for `--where`. With `sample`, only this many random points are used
    (fixed seed), with all of their configs. `phases` apply to job configs that do not name one.
    """
    configs = configs_with_phases(spec, phases)
    total = number_of_points(spec)
    if sample is not None and not where:
        _check_number(min(total, sample), len(configs))
        sizes = [_dims_at(spec, at) for at in _draw(total, sample)]
        found = list(_points_by_sizes(sizes, configs, lambda _: True))
    else:
        _check_number(total, len(configs))
        every = (_dims_at(spec, at) for at in range(total))
        found = list(_points_by_sizes(every, configs, _filter(spec, where)))
        if sample is not None:
            found = [found[place] for place in _draw(len(found), sample)]
    if not found:
        raise InvalidArgumentError(f"no case is left: the filter {where!r} matches none")
    by_model: dict[tuple[int, ...], list[SweepPoint]] = {}
    for points in found:
        by_model.setdefault(_init_sizes(spec, points[0]), []).extend(points)
    stmt, setup = _statement(spec), spec.model_source
    return [
        SweepCase(case_of(point, model=spec.model_name, stmt=stmt, setup=setup), point)
        for points in by_model.values()
        for point in points
    ]


def with_valid_points(spec: SweepSpec) -> SweepSpec:
    """Return the spec with the points that its rule allows; errors name the point."""
    if spec.valid is None:
        return spec
    total = number_of_combinations(spec)
    if total > _MOST_CASES:
        raise DefinitionError(
            f"valid would be evaluated at {total:,} points, but at most {_MOST_CASES:,} are "
            "supported; give the dimensions fewer sizes"
        )
    holds = rule_of(spec)
    allowed = tuple(at for at in range(total) if _is_allowed(holds, _dims_at(spec, at)))
    if not allowed:
        raise DefinitionError(f"no point is left, because valid is False at all {total:,} points")
    return replace(spec, valid=None, places=allowed)


def _is_allowed(holds: Callable[[Mapping[str, int]], Any], dims: Dims) -> bool:
    try:
        allowed = holds(dict(dims))
    except MarkedTextError as error:
        raise DefinitionError(f"at {dims_text(dims)}, {error}") from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise DefinitionError(f"valid raised {said}, at {dims_text(dims)}") from error
    if type(allowed).__name__ not in ("bool", "bool_"):  # numpy has bool_
        raise DefinitionError(
            f"valid is {allowed!r} at {dims_text(dims)}, which is neither True nor False"
        )
    return bool(allowed)


def number_of_points(spec: SweepSpec) -> int:
    """The number of valid points, before filtering and sampling."""
    return number_of_combinations(spec) if spec.places is None else len(spec.places)


def number_of_combinations(spec: SweepSpec) -> int:
    """The number of combinations of sizes, valid or not."""
    return math.prod(map(len, spec.scales.values()))


def configs_with_phases(spec: SweepSpec, phases: Sequence[Phase]) -> list[JobConfig]:
    """Return the configs that are measured at each point, each with its phase."""
    found = (
        replace(config, phase=phase)
        for config in spec.configs
        for phase in ([config.phase] if config.phase is not None else phases)
    )
    return list(dict.fromkeys(found))


def seconds_for(spec: SweepSpec, cases: Sequence[SweepCase]) -> float:
    """Estimate the time of these cases, within a factor of two."""
    prepared = {
        (point.dims if point.backend == "compile-static" else _init_sizes(spec, point),
         point.dtype, point.backend, point.phase, point.threads)
        for _, point in cases
    }  # fmt: skip
    preparing = sum(_PREPARING[backend] for _, _, backend, *_ in prepared)
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
            f"{duration_text(_START + _CASE * number)}, but at most {_MOST_CASES:,} cases are "
            "supported; give the dimensions fewer sizes with --set, or measure a random subset "
            "with --sample N (without --where)"
        )


def _draw(total: int, number: int) -> list[int]:
    if total > sys.maxsize:
        raise InvalidArgumentError(
            f"the dimensions have {total:,} combinations, but a sample can be drawn from at most "
            f"{sys.maxsize:,}; give the dimensions fewer sizes with --set"
        )
    drawn = random.Random(0).sample(range(total), min(number, total))  # noqa: S311 - no secret
    return sorted(drawn)


def _dims_at(spec: SweepSpec, number: int) -> Dims:
    """Return the sizes of a valid point by its number; the last dimension changes first."""
    place = number if spec.places is None else spec.places[number]
    found: list[tuple[str, int]] = []
    for name, sizes in reversed(list(spec.scales.items())):
        place, at = divmod(place, len(sizes))
        found.insert(0, (name, sizes[at]))
    return tuple(found)


def _points_by_sizes(
    sizes: Iterable[Dims], configs: Sequence[JobConfig], wanted: Callable[[SweepPoint], bool]
) -> Iterator[list[SweepPoint]]:
    """Yield the wanted points, those of the same sizes together."""
    settings = [asdict(config) for config in configs]
    for every in sizes:
        dims = tuple(dim for dim in every if dim[0] != THREADS)
        of_dims = {THREADS: dict(every)[THREADS]} if len(dims) < len(every) else {}
        points = [SweepPoint(dims=dims, **{**each, **of_dims}) for each in settings]
        chosen = [point for point in points if wanted(point)]
        if chosen:
            yield chosen


def _filter(spec: SweepSpec, where: str) -> Callable[[SweepPoint], bool]:
    if not where:
        return lambda _: True
    holds = filter_of(where, dict.fromkeys([*spec.scales, *CONFIG_FIELDS]))

    def wanted(point: SweepPoint) -> bool:
        values = {
            **dict(point.dims), "dtype": point.dtype, "backend": point.backend,
            "phase": point.phase.value, "threads": point.threads,
        }  # fmt: skip
        return holds(values)

    return wanted


def _init_sizes(spec: SweepSpec, point: SweepPoint) -> tuple[int, ...]:
    """Return the sizes with which the model is initialised."""
    return tuple(size for name, size in point.dims if name in spec.init)


def _statement(spec: SweepSpec) -> str:
    """Return the statement of the case: the model and the shapes of its inputs."""
    inputs = ", ".join(_input_text(each) for each in spec.inputs)
    return f"{spec.model_name}({', '.join(spec.init)})({inputs})"


def _input_text(each: Input) -> str:
    shape = f"[{', '.join(map(str, each.dims))}]"
    return shape if each.below is None else f"{each.dtype}{shape} < {each.below}"

"""From a spec to its cases: every combination of sizes, with every job config and phase.

Points that initialise the model alike stand together, so that it is built, exported and compiled
once for all of them; of each point all configs stand together, so that what changes on the machine
changes for all of them.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, NamedTuple

from torchmark.define.sweep.estimate import duration_text, seconds_of
from torchmark.define.sweep.spec import CONFIG_FIELDS
from torchmark.define.sweep.where import filter_of
from torchmark.errors import InvalidArgumentError
from torchmark.model.run_settings import Phase, SweepPoint, case_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torchmark.define.sweep.configs import JobConfig
    from torchmark.define.sweep.inputs import Input
    from torchmark.define.sweep.spec import SweepSpec
    from torchmark.model.case import Case
    from torchmark.model.run_settings import Dims

_MOST_CASES = 1_000_000
"""More are refused: at a tenth of a second for each it would take a day."""


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
    wanted = _filter(spec, where)
    points = _grouped(spec, _chosen_points(spec, where, sample, configs))
    stmt, setup = _statement(spec), spec.model_source
    found = [
        SweepPoint(
            dims=dims,
            dtype=config.dtype,
            backend=config.backend,
            phase=phase,
            threads=config.threads,
        )
        for dims in points
        for config, phase in configs
        if wanted(dims, config, phase)
    ]
    if not found:
        raise InvalidArgumentError(f"no case is left: none has {where!r}")
    return [
        SweepCase(case_of(point, model=spec.model_name, stmt=stmt, setup=setup), point)
        for point in found
    ]


def _grouped(spec: SweepSpec, points: Sequence[Dims]) -> list[Dims]:
    """Those that initialise the model alike stand together, in the order of the first of each."""
    found: dict[tuple[int, ...], list[Dims]] = {}
    for dims in points:
        found.setdefault(tuple(size for name, size in dims if name in spec.init), []).append(dims)
    return [dims for together in found.values() for dims in together]


def number_of_points(spec: SweepSpec) -> int:
    """Before anything is filtered or drawn."""
    return math.prod(map(len, spec.scales.values()))


def configs_with_phases(spec: SweepSpec, phases: Sequence[Phase]) -> list[tuple[JobConfig, Phase]]:
    """Everything that is measured of one point."""
    pairs = [
        (config, phase)
        for config in spec.configs
        for phase in ([config.phase] if config.phase is not None else phases)
    ]
    return list({_key(*pair): pair for pair in pairs}.values())


def _key(config: JobConfig, phase: Phase) -> tuple[str, str, Phase, int]:
    return config.backend, config.dtype, phase, config.threads


def _chosen_points(
    spec: SweepSpec,
    where: str,
    sample: int | None,
    configs: Sequence[tuple[JobConfig, Phase]],
) -> list[Dims]:
    total = number_of_points(spec)
    if sample is not None and not where:
        return [_point(spec, place) for place in _drawn(total, min(sample, total))]
    if total * len(configs) > _MOST_CASES:
        number = total * len(configs)
        raise InvalidArgumentError(
            f"{total:,} points with {len(configs)} configs each are {number:,} cases, about "
            f"{duration_text(seconds_of(number))}, and at most {_MOST_CASES:,} are gone "
            "through; give dimensions fewer sizes with --set, or draw some with --sample N "
            "without --where"
        )
    wanted = _filter(spec, where)
    points = [dims for dims in _points(spec) if any(wanted(dims, *each) for each in configs)]
    if sample is None or sample >= len(points):
        return points
    return [points[place] for place in _drawn(len(points), sample)]


def _drawn(total: int, number: int) -> list[int]:
    return sorted(random.Random(0).sample(range(total), number))  # noqa: S311 - no secret


def _points(spec: SweepSpec) -> Iterator[Dims]:
    for sizes in itertools.product(*spec.scales.values()):
        yield tuple(zip(spec.scales, sizes, strict=True))


def _point(spec: SweepSpec, place: int) -> Dims:
    """The point at this place of the product, whose last dimension changes first."""
    found: list[tuple[str, int]] = []
    for name, sizes in reversed(list(spec.scales.items())):
        place, at = divmod(place, len(sizes))
        found.insert(0, (name, sizes[at]))
    return tuple(found)


def _filter(spec: SweepSpec, where: str) -> Callable[[Dims, JobConfig, Phase], bool]:
    if not where:
        return lambda _dims, _config, _phase: True
    holds = filter_of(where, [*spec.scales, *CONFIG_FIELDS])

    def wanted(dims: Dims, config: JobConfig, phase: Phase) -> bool:
        values = {
            **dict(dims), "dtype": config.dtype, "backend": config.backend,
            "phase": phase.value, "threads": config.threads,
        }  # fmt: skip
        return holds(values)

    return wanted


def _statement(spec: SweepSpec) -> str:
    """What the case is, for a person and for its id: the model and the shapes of its inputs."""
    inputs = ", ".join(_input_text(each) for each in spec.inputs)
    return f"{spec.model_name}({', '.join(spec.init)})({inputs})"


def _input_text(each: Input) -> str:
    shape = f"[{', '.join(map(str, each.dims))}]"
    return shape if each.below is None else f"{each.dtype}{shape} < {each.below}"

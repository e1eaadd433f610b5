"""From a spec to its cases: every combination of sizes, with every job config and phase.

Points that initialise the model alike stand together, so that it is built, exported and compiled
once for all of them; of each point all configs stand together, so that what changes on the machine
changes for all of them.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchmark.define.sweep.estimate import duration_text, seconds_of
from torchmark.define.sweep.spec import CONFIG_FIELDS
from torchmark.define.sweep.where import filter_of
from torchmark.errors import InvalidArgumentError
from torchmark.model.case import Autograd, Case, Runtime
from torchmark.model.sweep_record import Phase, SweepRow
from torchmark.report.sweep_csv import dims_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchmark.define.sweep.configs import JobConfig
    from torchmark.define.sweep.spec import SweepSpec
    from torchmark.model.sweep_record import Dims

_MOST_CASES = 1_000_000
"""More are refused: at a tenth of a second for each it would take a day."""

_RUNTIMES = {"pt": Runtime.EAGER, "compile": Runtime.COMPILED, "ort": Runtime.EXPLICIT}
_AUTOGRAD = {
    Phase.FORWARD: Autograd.FORWARD,
    Phase.FORWARD_BACKWARD: Autograd.FORWARD_BACKWARD,
    Phase.BACKWARD: Autograd.EXPLICIT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of all combinations are measured."""

    where: str = ""
    """A filter, as of `--where`; all if empty."""

    sample: int | None = None
    """So many points, drawn with a fixed seed; all if None."""

    phases: tuple[Phase, ...] = (Phase.FORWARD,)
    """For the job configs that do not say their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """One row to be."""

    case: Case
    """As the store has it; its id is the row's."""

    row: SweepRow
    """As it is before anything is known of it."""

    @property
    def dims(self) -> Dims:
        return self.row.dims


def all_cases(spec: SweepSpec, choice: Choice) -> list[SweepCase]:
    """What is to be measured, in the order in which it is done."""
    configs = _configs(spec, choice.phases)
    points = _chosen_points(spec, choice, configs)
    order = {name: place for place, name in enumerate(spec.scales)}
    places = [order[name] for name in dict.fromkeys(spec.init)]
    first: dict[tuple[int, ...], int] = {}
    for point in points:
        first.setdefault(tuple(point[place][1] for place in places), len(first))
    points = sorted(points, key=lambda point: first[tuple(point[place][1] for place in places)])
    wanted = _filter(spec, choice)
    setup = spec.model_source
    cases = [
        _sweep_case(spec, setup, dims, config, phase)
        for dims in points
        for config, phase in configs
        if wanted(dims, config, phase)
    ]
    if not cases:
        raise InvalidArgumentError(f"no case is left: none has {choice.where!r}")
    return cases


def size_of_product(spec: SweepSpec, choice: Choice) -> tuple[int, int]:
    """Points and configs before anything is filtered or drawn."""
    return math.prod(map(len, spec.scales.values())), len(_configs(spec, choice.phases))


def _configs(spec: SweepSpec, phases: Sequence[Phase]) -> list[tuple[JobConfig, Phase]]:
    pairs = [
        (config, phase)
        for config in spec.configs
        for phase in ([config.phase] if config.phase is not None else phases)
    ]
    return list({_key(*pair): pair for pair in pairs}.values())


def _key(config: JobConfig, phase: Phase) -> tuple[str, str, Phase, int]:
    return config.backend, config.dtype, phase, config.threads


def _chosen_points(
    spec: SweepSpec, choice: Choice, configs: Sequence[tuple[JobConfig, Phase]]
) -> list[Dims]:
    total = math.prod(map(len, spec.scales.values()))
    if choice.sample is None or choice.where:
        if total * len(configs) > _MOST_CASES:
            number = total * len(configs)
            raise InvalidArgumentError(
                f"{total:,} points with {len(configs)} configs each are {number:,} cases, about "
                f"{duration_text(seconds_of(number))}, and at most {_MOST_CASES:,} are gone "
                "through; give dimensions fewer sizes with --set, or draw some with --sample N "
                "without --where"
            )
        wanted = _filter(spec, choice)
        points = [dims for dims in _points(spec) if any(wanted(dims, *each) for each in configs)]
        if choice.sample is None or choice.sample >= len(points):
            return points
        return [points[place] for place in _drawn(len(points), choice.sample)]
    return [_point(spec, place) for place in _drawn(total, min(choice.sample, total))]


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


def _filter(spec: SweepSpec, choice: Choice) -> Any:
    if not choice.where:
        return lambda _dims, _config, _phase: True
    holds = filter_of(choice.where, [*spec.scales, *CONFIG_FIELDS])

    def wanted(dims: Dims, config: JobConfig, phase: Phase) -> bool:
        values = {
            **dict(dims), "dtype": config.dtype, "backend": config.backend,
            "phase": phase.value, "threads": config.threads,
        }  # fmt: skip
        return holds(values)

    return wanted


def _sweep_case(
    spec: SweepSpec, setup: str, dims: Dims, config: JobConfig, phase: Phase
) -> SweepCase:
    case = _case(spec, setup, dims, config, phase)
    row = SweepRow(
        case_id=case.id,
        model=spec.model_name,
        dims=dims,
        dtype=config.dtype,
        backend=config.backend,
        phase=phase,
        threads=config.threads,
    )
    return SweepCase(case=case, row=row)


def _case(spec: SweepSpec, setup: str, dims: Dims, config: JobConfig, phase: Phase) -> Case:
    facts: Iterable[tuple[str, str]] = [
        ("dtype", config.dtype),
        ("backend", config.backend),
        *([("phase", phase.value)] if phase is Phase.BACKWARD else []),
    ]
    return Case(
        label=(spec.model_name, dims_text(dims)),
        stmt=_statement(spec),
        setup=setup,
        runtime=_RUNTIMES[config.backend],
        autograd=_AUTOGRAD[phase],
        num_threads=config.threads,
        params=tuple(facts),
    )


def _statement(spec: SweepSpec) -> str:
    """What the case is, for a person and for its id: the model and the shapes of its inputs."""
    inputs = ", ".join(_input_text(each) for each in spec.inputs)
    return f"{spec.model_name}({', '.join(spec.init)})({inputs})"


def _input_text(each: Any) -> str:
    shape = f"[{', '.join(map(str, each.dims))}]"
    return shape if each.below is None else f"{each.dtype}{shape} < {each.below}"

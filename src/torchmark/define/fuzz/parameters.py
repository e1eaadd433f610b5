"""Named parameters with the distributions to draw them from, and aliases of other parameters.

A parameter is checked when it is created, so that drawing it cannot fail. Each draw takes exactly
one value from numpy's `RandomState`, with the same call as torch.utils.benchmark. This is why a
seed means the same trial in both libraries, and why the calls below must not be "improved".

A cycle of aliases has no value. Draws are independent, so any cycle that the distributions allow
will be drawn eventually: `check_aliases` refuses it before the first draw. The check in
`resolve_aliases` is for users' own parameter classes, whose draws cannot be predicted.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from torchmark.errors import FuzzerDefinitionError

if TYPE_CHECKING:
    from numpy.random import RandomState

_SUM_TOLERANCE = 1e-5
"""How far from one the sum of a dict's probabilities may be."""

_NUMPY_SUM_TOLERANCE = 1e-8
"""`RandomState.choice` refuses a sum off by more than 1.5e-8 (the root of the float64 epsilon)."""


class ParameterAlias:
    """A choice in a dict distribution that has the value of another parameter.

    An alias may refer to another alias, but not in a cycle.

    >>> from torchmark.define.fuzz import FuzzedParameter, Fuzzer, ParameterAlias
    >>> fuzzer = Fuzzer(
    ...     parameters=[
    ...         FuzzedParameter("rows", 2, 99, distribution="uniform"),
    ...         FuzzedParameter("bias_rows", distribution={ParameterAlias("rows"): 0.7, 1: 0.3}),
    ...     ],
    ...     tensors=[],
    ...     seed=0,
    ... )
    >>> [params["bias_rows"] in (1, params["rows"]) for _, _, params in fuzzer.take(3)]
    [True, True, True]
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A value that is drawn for every sample: a size, a step, a dtype, or anything else.

    `distribution` is one of

    - `"uniform"`: from `minval` to `maxval`, both included; whole numbers if both bounds are
      `int`, real numbers otherwise;
    - `"loguniform"`: every octave between the bounds is equally likely; whole numbers;
    - a dict from choices to their probabilities, which add up to one; it takes no bounds.

    A `strict` parameter is drawn once per sample. It is kept while the others are drawn again to
    satisfy constraints, so that, for example, a limit on sizes does not favour few dimensions.

    >>> import numpy as np
    >>> from torchmark.define.fuzz import FuzzedParameter
    >>> FuzzedParameter("k", 16, 1024, distribution="loguniform").sample(np.random.RandomState(0))
    156
    >>> FuzzedParameter("dim", distribution={1: 0.5, 2: 0.5}).sample(np.random.RandomState(0))
    2
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | Mapping[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        if not isinstance(name, str):
            raise FuzzerDefinitionError(f"a parameter's name must be a string, not {name!r}")
        self._name = name
        try:
            self._draw = _drawer_of(minval, maxval, distribution)
        except FuzzerDefinitionError as error:
            raise FuzzerDefinitionError(f"parameter {name!r}: {error}") from None
        choices = distribution.items() if isinstance(distribution, Mapping) else ()
        self.alias_targets = tuple(
            choice.alias_to
            for choice, probability in choices
            if isinstance(choice, ParameterAlias) and probability > 0
        )
        """Names of the parameters that this one may be an alias of."""
        self.strict = strict

    @property
    def name(self) -> str:
        return self._name

    def sample(self, state: RandomState) -> Any:
        return self._draw(state)


def _drawer_of(
    minval: float | None, maxval: float | None, distribution: str | Mapping[Any, float] | None
) -> Callable[[RandomState], Any]:
    if isinstance(distribution, Mapping):
        if minval is not None or maxval is not None:
            raise FuzzerDefinitionError("a dict distribution takes neither minval nor maxval")
        _check_choices(distribution)
        weights = _normalise(tuple(map(float, distribution.values())))
        return partial(_draw_choice, tuple(distribution), weights)
    if distribution not in ("uniform", "loguniform"):
        raise FuzzerDefinitionError(
            f"unknown distribution {distribution!r}; use 'uniform', 'loguniform' or a dict of "
            "choices to probabilities"
        )
    if not is_finite_number(minval):
        raise FuzzerDefinitionError(f"{distribution!r} needs a finite minval, not {minval!r}")
    if not is_finite_number(maxval):
        raise FuzzerDefinitionError(f"{distribution!r} needs a finite maxval, not {maxval!r}")
    if minval > maxval:
        raise FuzzerDefinitionError(f"minval {minval!r} is greater than maxval {maxval!r}")
    if distribution == "loguniform":
        if minval <= 0:
            raise FuzzerDefinitionError(f"'loguniform' needs a minval above zero, not {minval!r}")
        return partial(_draw_log_uniform, minval, maxval)
    if isinstance(minval, int) and isinstance(maxval, int):
        if minval < -(2**63) or maxval >= 2**63:
            raise FuzzerDefinitionError(
                f"whole numbers from {minval} to {maxval} do not fit in 64 bits; "
                "make a bound a float to draw real numbers"
            )
        return partial(_draw_whole_number, minval, maxval)
    if not math.isfinite(float(maxval) - float(minval)):
        raise FuzzerDefinitionError(f"the range from {minval!r} to {maxval!r} is too wide")
    return partial(_draw_real_number, minval, maxval)


def _draw_whole_number(minval: int, maxval: int, state: RandomState) -> int:
    return int(state.randint(low=minval, high=maxval + 1))


def _draw_real_number(minval: float, maxval: float, state: RandomState) -> float:
    return state.uniform(low=minval, high=maxval)


def _draw_log_uniform(minval: float, maxval: float, state: RandomState) -> float:
    drawn = int(2 ** state.uniform(low=np.log2(float(minval)), high=np.log2(float(maxval))))
    # Rounding the logarithm or the result may leave the range slightly.
    return min(max(drawn, minval), maxval)


def _draw_choice(
    choices: tuple[Any, ...], probabilities: tuple[float, ...], state: RandomState
) -> Any:
    # numpy would convert the choices to its own types, so it only gets their positions.
    return choices[state.choice(np.arange(len(choices)), p=probabilities)]


def is_finite_number(value: object) -> TypeGuard[float]:
    if not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def _check_choices(probabilities: Mapping[Any, float]) -> None:
    if not probabilities:
        raise FuzzerDefinitionError("a dict distribution needs at least one choice")
    for choice, probability in probabilities.items():
        if not is_finite_number(probability) or probability < 0:
            raise FuzzerDefinitionError(
                f"the probability of {choice!r} must be a number from 0 to 1, not {probability!r}"
            )


def _normalise(probabilities: tuple[float, ...]) -> tuple[float, ...]:
    total = math.fsum(probabilities)
    if abs(total - 1) > _SUM_TOLERANCE:
        raise FuzzerDefinitionError(
            f"the probabilities add up to {total:.8g}; they must add up to 1 "
            f"within {_SUM_TOLERANCE:g}"
        )
    if abs(total - 1) <= _NUMPY_SUM_TOLERANCE:
        return probabilities  # dividing would change the last bits, and possibly draws
    return tuple(probability / total for probability in probabilities)


def check_aliases(parameters: Sequence[FuzzedParameter]) -> None:
    targets = {parameter.name: parameter.alias_targets for parameter in parameters}
    for name, aliased in targets.items():
        for target in aliased:
            if target not in targets:
                raise FuzzerDefinitionError(_unknown_target(name, target))
    try:
        TopologicalSorter(targets).prepare()
    except CycleError as error:
        raise FuzzerDefinitionError(_cycle(reversed(error.args[1]))) from None


def resolve_aliases(drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value_behind(name, drawn) for name in drawn}


def _value_behind(name: str, drawn: Mapping[str, Any]) -> Any:
    followed = [name]
    value = drawn[name]
    while isinstance(value, ParameterAlias):
        target = value.alias_to
        if target not in drawn:
            raise FuzzerDefinitionError(_unknown_target(followed[-1], target))
        if target in followed:
            raise FuzzerDefinitionError(_cycle([*followed, target]))
        followed.append(target)
        value = drawn[target]
    return value


def _unknown_target(name: str, target: str) -> str:
    return f"parameter {name!r} is an alias of {target!r}, which is not a parameter of this Fuzzer"


def _cycle(names: Iterable[str]) -> str:
    return f"parameters are aliases of one another in a cycle: {' -> '.join(names)}"

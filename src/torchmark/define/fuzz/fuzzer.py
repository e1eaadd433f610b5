"""Draws samples from a description of parameters and tensors: draw, reject, construct.

The samples depend only on the seed. Parameters and memory orders come from a numpy `RandomState`
that each `take` creates. Values come from torch's global generator, which is seeded from that
state, exactly as in torch.utils.benchmark. Between two samples the global generator is reset to its
state after the last one. So the samples do not change if a statement draws random numbers (such as
dropout) or if a second `take` runs at the same time.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import torch

from torchmark.define.fuzz.parameters import FuzzedParameter, check_aliases, resolve_aliases
from torchmark.define.fuzz.tensors import FuzzedTensor
from torchmark.errors import FuzzerDefinitionError, ImpossibleConstraintError

Sample: TypeAlias = tuple[dict[str, torch.Tensor], dict[str, dict[str, Any]], dict[str, Any]]
"""Tensors and their properties, both by name, and the parameters that they were made from."""

Constraint: TypeAlias = Callable[[dict[str, Any]], Any]

_Described = TypeVar("_Described", FuzzedParameter, FuzzedTensor)

_DRAWS_PER_SAMPLE = 1000
"""The limit of torch.utils.benchmark, so a Fuzzer that works there works here."""


class Fuzzer:
    """Draws random tensors from descriptions. A seed gives the same tensors here and in torch.

    Lists in `parameters` and `tensors` are flattened. Every constraint is called with the dict of
    parameters. If one returns a false value, the parameters are drawn again.

    >>> from torchmark.define.fuzz import FuzzedParameter, FuzzedTensor, Fuzzer
    >>> fuzzer = Fuzzer(
    ...     parameters=[
    ...         FuzzedParameter("k0", 16, 1024, "loguniform"),
    ...         FuzzedParameter("k1", 16, 1024, "loguniform"),
    ...     ],
    ...     tensors=[
    ...         FuzzedTensor("x", size=("k0", "k1"), probability_contiguous=0.75),
    ...         FuzzedTensor("y", size=("k0", 1), probability_contiguous=0.75),
    ...     ],
    ...     constraints=[lambda params: params["k0"] < params["k1"]],
    ...     seed=0,
    ... )
    >>> for tensors, properties, params in fuzzer.take(2):
    ...     print(params, tuple(tensors["y"].shape), properties["x"]["is_contiguous"])
    {'k0': 652, 'k1': 880} (652, 1) True
    {'k0': 169, 'k1': 751} (169, 1) True
    >>> fuzzer.rejection_rate
    0.6
    """

    def __init__(
        self,
        parameters: Iterable[FuzzedParameter | Iterable[FuzzedParameter]],
        tensors: Iterable[FuzzedTensor | Iterable[FuzzedTensor]],
        constraints: Iterable[Constraint] | None = None,
        seed: int | None = None,
    ) -> None:
        self._parameters = tuple(_unpack(parameters, FuzzedParameter))
        self._tensors = tuple(_unpack(tensors, FuzzedTensor))
        self._constraints = tuple(map(_describe, constraints or ()))
        self._seed = _check_seed(seed)
        self._check_names()
        check_aliases(self._parameters)
        parameter_names = {parameter.name for parameter in self._parameters}
        for tensor in self._tensors:
            tensor.check_parameters(parameter_names)
        self._rejections = 0
        self._total_generated = 0

    def take(self, n: SupportsIndex) -> Iterator[Sample]:
        """Yield the first `n` samples of the seed: tensors, tensor properties, parameters."""
        try:
            count = operator.index(n)
        except TypeError:
            raise FuzzerDefinitionError(
                f"take needs a whole number of samples, not {n!r}"
            ) from None
        if count < 0:
            raise FuzzerDefinitionError(f"take needs zero samples or more, not {count}")
        return self._samples(count)

    @property
    def rejection_rate(self) -> float:
        """The share of all parameter draws so far that a constraint or a limit rejected."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _samples(self, count: int) -> Iterator[Sample]:
        state = np.random.RandomState(self._seed)
        torch.manual_seed(int(state.randint(low=0, high=2**63, dtype=np.int64)))
        torch_state = torch.get_rng_state()
        for _ in range(count):
            torch.set_rng_state(torch_state)
            params = self._draw_parameters(state)
            made = {tensor.name: tensor.make_tensor(params, state) for tensor in self._tensors}
            torch_state = torch.get_rng_state()
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: properties for name, (_, properties) in made.items()},
                params,
            )

    def _draw_parameters(self, state: np.random.RandomState) -> dict[str, Any]:
        strict: dict[str, Any] = {}
        refusals: Counter[str] = Counter()
        for _ in range(_DRAWS_PER_SAMPLE):
            params = resolve_aliases(self._draw_once(strict, state))
            self._total_generated += 1
            refused_by = self._refused_by(params)
            if refused_by is None:
                return params
            self._rejections += 1
            refusals[refused_by] += 1
        raise ImpossibleConstraintError(_gave_up(refusals, strict, self._seed))

    def _draw_once(self, strict: dict[str, Any], state: np.random.RandomState) -> dict[str, Any]:
        """Draw a value or an alias for every parameter; `strict` keeps those drawn only once."""
        drawn = {}
        for parameter in self._parameters:
            name = parameter.name
            drawn[name] = strict[name] if name in strict else parameter.sample(state)
            if parameter.strict:
                strict[name] = drawn[name]
        return drawn

    def _refused_by(self, params: dict[str, Any]) -> str | None:
        for constraint, description in self._constraints:
            if not constraint(params):
                return description
        for tensor in self._tensors:
            if not tensor.satisfies_constraints(params):
                limit = tensor.broken_limit(params) or "its own constraint"
                return f"tensor {tensor.name!r}: {limit}"
        return None

    def _check_names(self) -> None:
        described = [("parameter", parameter.name) for parameter in self._parameters]
        described += [("tensor", tensor.name) for tensor in self._tensors]
        kinds: dict[str, str] = {}
        for kind, name in described:
            if name in kinds:
                raise FuzzerDefinitionError(
                    f"the name {name!r} is given twice, to a {kinds[name]} and to a {kind}; "
                    "rename one of them"
                )
            kinds[name] = kind


def _unpack(
    items: Iterable[_Described | Iterable[_Described]], kind: type[_Described]
) -> Iterator[_Described]:
    for item in items:
        group = item if isinstance(item, Iterable) and not isinstance(item, kind) else [item]
        for each in group:
            if not isinstance(each, kind):
                raise FuzzerDefinitionError(
                    f"expected a {kind.__name__} or a list of them, not {each!r}"
                )
            yield each


def _check_seed(seed: int | None) -> int:
    if seed is None:
        return int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64))
    try:
        np.random.RandomState(seed)
    except (TypeError, ValueError) as error:
        raise FuzzerDefinitionError(f"seed {seed!r}: {error}") from error
    return seed


def _describe(constraint: Constraint) -> tuple[Constraint, str]:
    if not callable(constraint):
        raise FuzzerDefinitionError(f"a constraint must be callable, not {constraint!r}")
    name = getattr(constraint, "__qualname__", None) or repr(constraint)
    code = getattr(constraint, "__code__", None)
    place = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return constraint, f"constraint {name}{place}"


def _gave_up(refusals: Counter[str], strict: dict[str, Any], seed: int) -> str:
    lines = [
        f"none of {refusals.total()} draws of parameters satisfies every constraint, seed {seed}"
    ]
    lines += [f"  {count} refused by {reason}" for reason, count in refusals.most_common()]
    if strict:
        held = ", ".join(f"{name}={value!r}" for name, value in strict.items())
        lines.append(f"  strict parameters, drawn once for all of these draws: {held}")
    lines.append("loosen these constraints, or change the parameters that they depend on")
    return "\n".join(lines)

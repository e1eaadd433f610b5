"""From drawn values, some of which stand for one another, to values.

A circle of aliases has no value. Draws are independent, so any circle that the distributions
allow will be drawn sooner or later: `check_aliases` refuses it before the first draw. The check in
`resolve_aliases` is for parameters of the user's own making, whose draws nobody can foresee.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from torchmark.define.fuzz.parameters import ParameterAlias
from torchmark.errors import FuzzerDefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchmark.define.fuzz.parameters import FuzzedParameter


def check_aliases(parameters: Sequence[FuzzedParameter]) -> None:
    targets = {parameter.name: parameter.alias_targets for parameter in parameters}
    for name, aliased in targets.items():
        for target in aliased:
            if target not in targets:
                raise FuzzerDefinitionError(_unknown_target(name, target))
    try:
        TopologicalSorter(targets).prepare()
    except CycleError as error:
        raise FuzzerDefinitionError(_circle(reversed(error.args[1]))) from None


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
            raise FuzzerDefinitionError(_circle([*followed, target]))
        followed.append(target)
        value = drawn[target]
    return value


def _unknown_target(name: str, target: str) -> str:
    return f"parameter {name!r} is an alias of {target!r}, which is not a parameter of this Fuzzer"


def _circle(names: Iterable[str]) -> str:
    return f"parameters are aliases of one another in a circle: {' -> '.join(names)}"

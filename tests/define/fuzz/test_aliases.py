from __future__ import annotations

from typing import Any

import pytest

from torchmark.define.fuzz import FuzzedParameter, Fuzzer, ParameterAlias
from torchmark.errors import FuzzerDefinitionError


def _alias(name: str, target: str) -> FuzzedParameter:
    return FuzzedParameter(name, distribution={ParameterAlias(target): 1.0})


def test_an_alias_takes_the_value_of_its_target_whatever_their_order() -> None:
    fuzzer = Fuzzer(
        [
            _alias("first", "second"),
            _alias("second", "last"),
            FuzzedParameter("last", 1, 99, "uniform"),
        ],
        tensors=[],
        seed=0,
    )
    ((_, _, params),) = fuzzer.take(1)
    assert params["first"] == params["second"] == params["last"]
    assert isinstance(params["last"], int)


def test_an_alias_of_an_unknown_parameter_is_refused_before_the_first_draw() -> None:
    with pytest.raises(FuzzerDefinitionError, match="'y' is an alias of 'z', which is not"):
        Fuzzer([_alias("y", "z")], tensors=[])


def test_a_circle_of_aliases_is_refused_before_the_first_draw_and_named() -> None:
    with pytest.raises(
        FuzzerDefinitionError, match=r"cycle: (a -> b -> c|b -> c -> a|c -> a -> b)"
    ):
        Fuzzer([_alias("a", "b"), _alias("b", "c"), _alias("c", "a")], tensors=[])


def test_a_parameter_that_is_its_own_alias_is_a_circle() -> None:
    with pytest.raises(FuzzerDefinitionError, match="cycle: a -> a"):
        Fuzzer([_alias("a", "a")], tensors=[])


def test_a_circle_that_only_some_draws_close_is_refused_before_the_first_draw() -> None:
    with pytest.raises(FuzzerDefinitionError, match="cycle"):
        Fuzzer(
            [
                FuzzedParameter("a", distribution={ParameterAlias("b"): 0.01, 1: 0.99}),
                FuzzedParameter("b", distribution={ParameterAlias("a"): 0.01, 2: 0.99}),
            ],
            tensors=[],
        )


def test_an_alias_that_is_never_drawn_closes_no_circle() -> None:
    fuzzer = Fuzzer(
        [
            FuzzedParameter("a", distribution={ParameterAlias("b"): 0.0, 1: 1.0}),
            _alias("b", "a"),
        ],
        tensors=[],
    )
    assert [params for _, _, params in fuzzer.take(1)] == [{"a": 1, "b": 1}]


class _Returns(FuzzedParameter):
    """A parameter of the user's own making, whose draws nobody can foresee."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name, 0, 1, "uniform")
        self.value = value

    def sample(self, state: Any) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("target", "complaint"), [("b", "cycle: a -> b -> a$"), ("z", "'b' is an alias of 'z'")]
)
def test_an_alias_that_a_subclass_draws_cannot_loop_or_lead_nowhere(
    target: str, complaint: str
) -> None:
    second = "a" if target == "b" else "z"
    fuzzer = Fuzzer(
        [_Returns("a", ParameterAlias("b")), _Returns("b", ParameterAlias(second))], tensors=[]
    )
    with pytest.raises(FuzzerDefinitionError, match=complaint):
        next(fuzzer.take(1))

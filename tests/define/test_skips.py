"""A condition is judged by facts, and what is not known skips nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.skips import EnvironmentFacts, check_skips, skip_if, skip_reason
from torchmark.errors import DefinitionError

VERSIONS = st.lists(st.integers(0, 20), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        ("<2.0", "1.13.1", True),
        ("<2.0", "2.0.0", False),
        ("<2.0", "2.0.0a0+git1234", False),
        ("<2.10", "2.9.1", True),
        (">=2.1", "2.1", True),
        ("==2.1", "2.1.2+cpu", True),
        (">2.1", "2.1.2", False),
        ("!=2.1", "2.2.0", True),
        (">=1.9, <2.0", "1.13.1", True),
        (">=1.9, <2.0", "2.1.0", False),
        ("<=2.1.1", "2.1", True),
        ("<2.0", "nightly", False),
    ],
)
def test_versions_are_compared_in_as_many_numbers_as_given(
    versions: str, version: str, holds: bool
) -> None:
    condition = skip_if(torch=versions, reason="old")
    assert condition.holds(EnvironmentFacts(torch=version)) is holds


@given(VERSIONS, VERSIONS)
def test_a_condition_and_its_contrary_never_agree(own: list[int], bound: list[int]) -> None:
    facts = EnvironmentFacts(torch=".".join(map(str, own)))
    text = ".".join(map(str, bound))
    for sign, contrary in (("<", ">="), (">", "<="), ("==", "!=")):
        first, second = (
            skip_if(torch=f"{comparison}{text}", reason="r").holds(facts)
            for comparison in (sign, contrary)
        )
        assert first is not second


def test_a_missing_feature_skips_and_an_unknown_one_does_not() -> None:
    condition = skip_if(missing="torch.func.vmap", reason="no vmap")
    assert condition.holds(EnvironmentFacts(features={"torch.func.vmap": False}))
    assert not condition.holds(EnvironmentFacts(features={"torch.func.vmap": True}))
    assert not condition.holds(EnvironmentFacts())
    assert not skip_if(torch="<9", reason="old").holds(EnvironmentFacts())


def test_all_of_one_condition_and_any_of_several() -> None:
    both = skip_if(torch="<2.0", missing="torch.func", reason="both")
    old = EnvironmentFacts(torch="1.13", features={"torch.func": True})
    assert not both.holds(old)
    assert skip_reason((both, skip_if(torch="<2.0", reason="old")), old) == "old"
    assert skip_reason((), old) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"reason": "r"}, "needs a condition"),
        ({"reason": " ", "torch": "<2"}, "needs a reason"),
        ({"reason": "r", "torch": "2.0"}, "'2.0' is not"),
        ({"reason": "r", "torch": "<2.0,"}, "'' is not"),
        ({"reason": "r", "missing": "vmap"}, "path of an attribute"),
    ],
)
def test_a_condition_that_says_nothing_is_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        skip_if(**arguments)


def test_only_conditions_skip() -> None:
    with pytest.raises(DefinitionError, match="skip_if"):
        check_skips(["slow"])  # type: ignore[list-item]

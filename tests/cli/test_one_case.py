"""Which case a person means by some words."""

from __future__ import annotations

import pytest

from torchmark.cli.flame import find_case
from torchmark.errors import AmbiguousCaseError, PatternError, UnknownCaseError
from torchmark.model.case import Autograd, Case, Language, Runtime


def made(*label: str, language: Language = Language.PYTHON) -> Case:
    return Case(
        label=label,
        stmt="x",
        language=language,
        runtime=Runtime.EAGER,
        autograd=Autograd.FORWARD,
    )


ADD, SUB = made("torch.add", "Tensor"), made("torch.add", "SubTensor")
CPP = made("torch.add", "Tensor", language=Language.CPP)
RELU = made("F.relu", "Tensor")
CASES = [ADD, SUB, CPP, RELU]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (ADD.id, ADD),
        (CPP.title, CPP),
        ("f.relu / tensor", RELU),
        ("torch.add tensor python", ADD),
        ("Python TENSOR torch.add", ADD),
        ("sub", SUB),
        ("relu", RELU),
        ("add and not (python or sub)", CPP),
    ],
)
def test_words_mean_one_case(words: str, meant: Case) -> None:
    assert find_case(CASES, words) is meant


def test_several_are_listed_and_whole_words_come_first() -> None:
    with pytest.raises(AmbiguousCaseError) as caught:
        find_case(CASES, "torch.add tensor")
    assert ADD.id in str(caught.value)
    assert CPP.id in str(caught.value)
    assert SUB.id not in str(caught.value)


def test_a_long_list_is_cut_and_says_so() -> None:
    cases = [made("add", f"Case {number}") for number in range(50)]
    with pytest.raises(AmbiguousCaseError, match="50 cases") as caught:
        find_case(cases, "add")
    assert str(caught.value).count("\n") < 15
    assert "and 40 more" in str(caught.value)


def test_a_word_that_is_spelt_wrong_brings_those_that_are_near() -> None:
    with pytest.raises(UnknownCaseError) as caught:
        find_case(CASES, "F.rleu tensor python")
    assert RELU.id in str(caught.value)
    assert ADD.id not in str(caught.value)


def test_a_word_that_nothing_is_like_brings_nothing() -> None:
    with pytest.raises(UnknownCaseError, match="torchmark list") as caught:
        find_case(CASES, "qqqqqq")
    assert "did you mean" not in str(caught.value)


def test_a_pattern_that_cannot_be_read_says_where() -> None:
    with pytest.raises(PatternError):
        find_case(CASES, "add and (")

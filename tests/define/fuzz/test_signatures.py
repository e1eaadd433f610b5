"""What is called by the same names in the same order needs no change when the import changes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import torchmark.define.fuzz

from .comparison import OURS, THEIRS

ADDED = {"FuzzedTensor": ["device"], "FuzzedSparseTensor": ["device", "stored_share"]}
"""Keywords that torch's classes do not have."""


def _parameters(function: Any) -> list[tuple[str, Any, Any]]:
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
    ]


def test_every_class_is_exported() -> None:
    assert set(torchmark.define.fuzz.__all__) == {
        "FuzzedParameter",
        "FuzzedSparseTensor",
        "FuzzedTensor",
        "Fuzzer",
        "ParameterAlias",
    }


@pytest.mark.parametrize("name", torchmark.define.fuzz.__all__)
def test_a_class_takes_torchs_arguments_in_torchs_order(name: str) -> None:
    ours = _parameters(getattr(OURS, name))
    added = ours[len(ours) - len(ADDED.get(name, [])) :]
    assert ours[: len(ours) - len(added)] == _parameters(getattr(THEIRS, name))
    assert [each[0] for each in added] == ADDED.get(name, [])
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for _, kind, _ in added)


@pytest.mark.parametrize(
    ("class_name", "method"),
    [
        ("FuzzedParameter", "sample"),
        ("FuzzedTensor", "default_tensor_constructor"),
        ("FuzzedTensor", "satisfies_constraints"),
        ("FuzzedSparseTensor", "sparse_tensor_constructor"),
        ("Fuzzer", "take"),
    ],
)
def test_a_method_takes_torchs_arguments(class_name: str, method: str) -> None:
    ours, theirs = (getattr(getattr(library, class_name), method) for library in (OURS, THEIRS))
    assert _parameters(ours) == _parameters(theirs)

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from torchmark.define.fuzz import (
    FuzzedParameter,
    FuzzedSparseTensor,
    FuzzedTensor,
    Fuzzer,
    ParameterAlias,
)
from torchmark.errors import FuzzerDefinitionError, ImpossibleConstraintError

from .comparison import assert_same_sample


def _fuzzer(seed: int | None = 0) -> Fuzzer:
    return Fuzzer(
        parameters=[
            FuzzedParameter("k0", 2, 20, "loguniform"),
            FuzzedParameter("k1", distribution={ParameterAlias("k0"): 0.5, 1: 0.25, 7: 0.25}),
        ],
        tensors=[FuzzedTensor("x", ("k0", "k1"), min_elements=8), FuzzedTensor("y", ("k1", 3))],
        seed=seed,
    )


def _assert_same(ours: Any, others: Any) -> None:
    for sample, other in zip(ours, others, strict=True):
        assert_same_sample(sample, other)


def test_the_same_fuzzer_gives_the_same_samples_on_every_call() -> None:
    fuzzer = _fuzzer()
    _assert_same(fuzzer.take(5), list(fuzzer.take(5)))


def test_a_longer_take_starts_with_the_samples_of_a_shorter_one() -> None:
    fuzzer = _fuzzer()
    _assert_same(list(fuzzer.take(3)), list(fuzzer.take(6))[:3])


def test_a_fuzzer_without_a_seed_still_repeats_itself() -> None:
    fuzzer = _fuzzer(seed=None)
    _assert_same(list(fuzzer.take(3)), list(fuzzer.take(3)))


def test_two_fuzzers_without_a_seed_differ() -> None:
    first, second = ([params for _, _, params in _fuzzer(seed=None).take(20)] for _ in range(2))
    assert first != second


def test_different_seeds_give_different_samples() -> None:
    first, second = ([params for _, _, params in _fuzzer(seed).take(20)] for seed in (0, 1))
    assert first != second


def test_two_takes_side_by_side_do_not_disturb_each_other() -> None:
    fuzzer = _fuzzer()
    expected = list(fuzzer.take(4))
    first, second = fuzzer.take(4), fuzzer.take(4)
    pairs = list(zip(first, second, strict=True))
    _assert_same([pair[0] for pair in pairs], expected)
    _assert_same([pair[1] for pair in pairs], expected)


def test_random_numbers_drawn_between_two_samples_do_not_change_the_next() -> None:
    fuzzer = _fuzzer()
    expected = list(fuzzer.take(4))
    disturbed = []
    for i, sample in enumerate(fuzzer.take(4)):
        disturbed.append(sample)
        torch.rand(i + 1)
        np.random.seed(i)
    _assert_same(disturbed, expected)


def digest_of_samples() -> str:
    fuzzer = Fuzzer(
        parameters=[
            FuzzedParameter("k0", 2, 20, "loguniform"),
            FuzzedParameter("k1", distribution={ParameterAlias("k0"): 0.5, 1: 0.25, 7: 0.25}),
            FuzzedParameter("kind", distribution={"a": 0.2, "b": 0.3, "c": 0.5}),
        ],
        tensors=[
            FuzzedTensor("x", ("k0", "k1"), min_elements=8),
            FuzzedSparseTensor("y", ("k0", "k1"), density=0.7),
        ],
        seed=12,
    )
    digest = hashlib.sha256()
    for tensors, properties, params in fuzzer.take(5):
        digest.update(repr(params).encode())
        digest.update(repr(properties).encode())
        for tensor in tensors.values():
            digest.update(repr(tensor.to_dense().tolist()).encode())
            digest.update(repr(tensor.layout).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_draws_the_same_samples(hash_seed: str) -> None:
    program = f"from {__name__} import digest_of_samples\nprint(digest_of_samples())"
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.strip() == digest_of_samples()


def test_a_sample_is_tensors_then_properties_then_parameters_by_name() -> None:
    ((tensors, properties, params),) = _fuzzer().take(1)
    assert list(tensors) == list(properties) == ["x", "y"]
    assert list(params) == ["k0", "k1"]
    assert tensors["x"].shape == (params["k0"], params["k1"])
    assert properties["x"]["numel"] == tensors["x"].numel()


def test_a_strict_parameter_is_drawn_once_for_a_sample_however_often_others_are() -> None:
    drawn = []

    class Counted(FuzzedParameter):
        def sample(self, state: Any) -> Any:
            drawn.append(self.name)
            return super().sample(state)

    fuzzer = Fuzzer(
        [Counted("strict", 1, 9, "uniform", strict=True), Counted("loose", 1, 9, "uniform")],
        tensors=[],
        constraints=[lambda params: params["loose"] > 7],
        seed=0,
    )
    list(fuzzer.take(10))
    assert drawn.count("strict") == 10
    assert drawn.count("loose") > 10
    assert fuzzer.rejection_rate == 1 - 10 / drawn.count("loose")


def test_a_rejection_rate_is_zero_before_the_first_draw() -> None:
    fuzzer = _fuzzer()
    assert fuzzer.rejection_rate == 0.0
    fuzzer.take(3)
    assert fuzzer.rejection_rate == 0.0


def test_a_constraint_is_called_with_the_dict_of_resolved_parameters() -> None:
    seen = []

    def remember(params: dict[str, Any]) -> bool:
        seen.append(dict(params))
        return True

    fuzzer = Fuzzer(
        [
            FuzzedParameter("a", 3, 3, "uniform"),
            FuzzedParameter("b", distribution={ParameterAlias("a"): 1.0}),
        ],
        tensors=[],
        constraints=[remember],
    )
    list(fuzzer.take(1))
    assert seen == [{"a": 3, "b": 3}]


def _k_is_negative(params: dict[str, Any]) -> bool:
    return bool(params["k"] < 0)


def test_an_impossible_constraint_is_an_error_that_names_its_function_and_line() -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("k", 1, 9, "uniform")], tensors=[], constraints=[_k_is_negative]
    )
    line = _k_is_negative.__code__.co_firstlineno
    with pytest.raises(
        ImpossibleConstraintError,
        match=rf"1000 refused by constraint _k_is_negative \(.*test_fuzzer\.py:{line}\)",
    ):
        next(fuzzer.take(1))
    assert fuzzer.rejection_rate == 1.0


def test_an_impossible_constraint_is_a_value_error_as_it_is_in_torch() -> None:
    assert issubclass(ImpossibleConstraintError, ValueError)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"min_elements": 4096}, "at least 4096 elements"),
        ({"max_elements": 0}, "at most 0 elements"),
        ({"max_allocation_bytes": 3}, "at most 3 allocated bytes"),
    ],
)
def test_an_impossible_limit_is_an_error_that_names_tensor_and_limit(
    limits: dict[str, Any], words: str
) -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("k", 1, 9, "uniform")],
        [FuzzedTensor("fine", ("k",)), FuzzedTensor("x", ("k",), **limits)],
    )
    with pytest.raises(ImpossibleConstraintError, match=f"1000 refused by tensor 'x': {words}"):
        next(fuzzer.take(1))


def test_giving_up_says_how_many_draws_each_constraint_refused_and_what_was_strict() -> None:
    fuzzer = Fuzzer(
        [
            FuzzedParameter("k", 1, 2, "uniform"),
            FuzzedParameter("dim", 3, 3, "uniform", strict=True),
        ],
        [FuzzedTensor("x", ("k",), max_elements=1)],
        constraints=[lambda params: params["k"] == 2],
        seed=0,
    )
    with pytest.raises(ImpossibleConstraintError) as caught:
        next(fuzzer.take(1))
    message = str(caught.value)
    refusals = [int(line.split()[0]) for line in message.splitlines() if "refused by" in line]
    assert len(refusals) == 2
    assert sum(refusals) == 1000
    assert all(400 < refused < 600 for refused in refusals)
    assert "<lambda>" in message
    assert "at most 1 elements" in message
    assert "dim=3" in message
    assert "seed 0" in message


def test_a_constraint_without_a_name_of_its_own_is_shown_as_it_is() -> None:
    def at_least(limit: int, params: dict[str, Any]) -> bool:
        return bool(params["k"] >= limit)

    fuzzer = Fuzzer(
        [FuzzedParameter("k", 1, 9, "uniform")],
        tensors=[],
        constraints=[functools.partial(at_least, 10)],
    )
    with pytest.raises(ImpossibleConstraintError, match=r"constraint functools\.partial.*at_least"):
        next(fuzzer.take(1))


def test_a_tensor_with_a_constraint_of_its_own_making_is_named() -> None:
    class Never(FuzzedTensor):
        def satisfies_constraints(self, params: Any) -> bool:
            return False

    with pytest.raises(ImpossibleConstraintError, match="tensor 'x': its own constraint"):
        next(Fuzzer([], [Never("x", (2,))]).take(1))


def test_a_constraint_that_is_satisfied_within_a_thousand_draws_is_no_error() -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("k", 1, 100, "uniform")],
        tensors=[],
        constraints=[lambda params: params["k"] == 42],
        seed=0,
    )
    assert [params["k"] for _, _, params in fuzzer.take(3)] == [42, 42, 42]


def test_an_exception_of_a_constraint_travels_as_it_is() -> None:
    fuzzer = Fuzzer([], [], constraints=[lambda params: params["missing"]])
    with pytest.raises(KeyError, match="missing"):
        next(fuzzer.take(1))


@pytest.mark.parametrize("n", [-1, 1.5, "3", None])
def test_a_number_of_samples_that_means_nothing_is_refused_at_the_call(n: Any) -> None:
    with pytest.raises(FuzzerDefinitionError, match="take needs"):
        _fuzzer().take(n)


def test_taking_no_samples_gives_none() -> None:
    assert list(_fuzzer().take(0)) == []


def test_a_number_of_samples_may_be_numpys() -> None:
    assert len(list(_fuzzer().take(np.int64(2)))) == 2


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "seed"])
def test_a_seed_that_numpy_cannot_use_is_refused_at_once(seed: Any) -> None:
    with pytest.raises(FuzzerDefinitionError, match="seed"):
        _fuzzer(seed)


_K = FuzzedParameter("k", 1, 9, "uniform")


@pytest.mark.parametrize(
    ("parameters", "tensors", "kinds"),
    [
        ([_K, _K], [], "a parameter and to a parameter"),
        ([_K, [_K]], [], "a parameter and to a parameter"),
        ([], [FuzzedTensor("k", (1,)), FuzzedTensor("k", (2,))], "a tensor and to a tensor"),
        ([_K], [FuzzedTensor("k", (1,))], "a parameter and to a tensor"),
    ],
)
def test_a_name_given_twice_is_refused(parameters: Any, tensors: Any, kinds: str) -> None:
    with pytest.raises(FuzzerDefinitionError, match=f"'k' is given twice, to {kinds}"):
        Fuzzer(parameters, tensors)


def test_lists_among_parameters_and_tensors_are_unpacked() -> None:
    fuzzer = Fuzzer(
        [[FuzzedParameter("a", 1, 2, "uniform")], (FuzzedParameter("b", 1, 2, "uniform"),)],
        [[FuzzedTensor("x", ("a",))], iter([FuzzedTensor("y", ("b",))])],
    )
    ((tensors, _, params),) = fuzzer.take(1)
    assert list(tensors) == ["x", "y"]
    assert list(params) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"parameters": ["k"], "tensors": []}, "expected a FuzzedParameter .* not 'k'"),
        ({"parameters": [], "tensors": [3]}, "expected a FuzzedTensor .* not 3"),
        ({"parameters": [_K], "tensors": [[_K]]}, "expected a FuzzedTensor"),
        ({"parameters": [], "tensors": [], "constraints": [True]}, "must be callable, not True"),
    ],
)
def test_what_is_no_description_is_refused(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(FuzzerDefinitionError, match=complaint):
        Fuzzer(**arguments)


def test_every_mistake_in_a_definition_is_a_value_error() -> None:
    assert issubclass(FuzzerDefinitionError, ValueError)

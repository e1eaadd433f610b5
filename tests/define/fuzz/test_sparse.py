from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings

from torchmark.define.fuzz import FuzzedParameter, FuzzedSparseTensor, Fuzzer
from torchmark.errors import FuzzerDefinitionError, ImpossibleConstraintError

from .comparison import THEIRS, assert_both_draw_the_same, assert_same_tensor

CHECKED_SPARSE: Any = torch.sparse  # which has no annotations


def _made(tensor: FuzzedSparseTensor, **params: Any) -> tuple[torch.Tensor, dict[str, Any]]:
    return tensor.make_tensor(params, np.random.RandomState(0))


def _stored(tensor: torch.Tensor) -> int:
    """Stored entries; an uncoalesced tensor has two for each position."""
    return tensor._nnz()


def _always(name: str, value: Any) -> FuzzedParameter:
    return FuzzedParameter(name, distribution={value: 1.0})


def test_nnz_is_the_number_of_stored_positions_where_torch_ignores_it() -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("stored", 1, 60, "uniform"), _always("density", 0.9)],
        [FuzzedSparseTensor("x", (8, 8), nnz="stored")],
        seed=0,
    )
    for tensors, properties, params in fuzzer.take(20):
        assert _stored(tensors["x"]) == params["stored"]
        assert properties["x"]["density"] == params["stored"] / 64


def test_nnz_goes_before_density_and_may_be_a_number() -> None:
    made, properties = _made(FuzzedSparseTensor("x", (10, 10), nnz=7, density="d"), d=0.5)
    assert _stored(made) == 7
    assert properties["density"] == 0.07
    assert properties["sparsity"] == 1.0 - 0.07


def test_a_stored_share_is_one_of_all_positions_where_torchs_density_takes_the_sum_of_sizes() -> (
    None
):
    made, properties = _made(FuzzedSparseTensor("x", (30, 40), stored_share="d"), d=0.25)
    assert _stored(made) == 300
    assert properties["density"] == 0.25
    torchs, _ = _made(FuzzedSparseTensor("x", (30, 40), density="d", coalesced=False), d=0.25)
    assert _stored(torchs) == 2 * math.ceil(70 * 0.25)


def test_a_stored_share_of_a_hybrid_tensor_counts_the_sparse_dimensions_alone() -> None:
    made, properties = _made(
        FuzzedSparseTensor("x", (10, 20, 7), sparse_dim="s", stored_share="d"), s=2, d=0.1
    )
    assert _stored(made) == 20
    assert made.coalesce().values().shape == (20, 7)
    assert (properties["sparse_dim"], properties["dense_dim"]) == (2, 1)
    assert properties["is_hybrid"] is True


@pytest.mark.parametrize(
    ("density", "expected"), [(0.0, 0), (0.001, 1), (0.301, 31), (0.99, 99), (1.0, 100), (1, 100)]
)
def test_a_stored_share_is_rounded_up_to_whole_positions(density: float, expected: int) -> None:
    made, _ = _made(FuzzedSparseTensor("x", (10, 10), stored_share=density))
    assert _stored(made) == expected


def test_every_argument_reads_the_parameter_that_it_names_where_torch_reads_fixed_names() -> None:
    tensor = FuzzedSparseTensor("x", (6, 5, 4), sparse_dim="s", density="d", coalesced="c")
    decoys = {"sparse_dim": 1, "density": 1.0, "coalesced": True}
    made, properties = _made(tensor, s=2, d=0.5, c=False, **decoys)
    assert made.sparse_dim() == 2
    assert _stored(made) == 2 * math.ceil((6 + 5 + 4) * 0.5)
    assert properties["is_coalesced"] is False
    assert properties["density"] == 0.5


def test_density_and_coalesced_left_out_are_read_from_parameters_of_their_names_as_in_torch() -> (
    None
):
    fuzzer = Fuzzer(
        [_always("sparse_dim", 1), _always("density", 0.5), _always("coalesced", False)],
        [FuzzedSparseTensor("x", (6, 5))],
    )
    ((tensors, properties, _),) = fuzzer.take(1)
    assert tensors["x"].sparse_dim() == 2, "torch reads no parameter unless sparse_dim is given"
    assert _stored(tensors["x"]) == 2 * math.ceil((6 + 5) * 0.5)
    assert properties["x"]["is_coalesced"] is False


def test_without_any_parameter_all_dimensions_are_sparse_and_the_tensor_is_coalesced() -> None:
    ((tensors, properties, _),) = Fuzzer([], [FuzzedSparseTensor("x", (6, 5), nnz=4)]).take(1)
    assert tensors["x"].sparse_dim() == 2
    assert tensors["x"].is_coalesced()
    assert properties["x"]["is_hybrid"] is False


def test_more_sparse_dimensions_than_there_are_mean_all() -> None:
    made, _ = _made(FuzzedSparseTensor("x", (6, 5), nnz=4, sparse_dim="s"), s=3)
    assert made.sparse_dim() == 2


def test_a_tensor_with_neither_nnz_nor_density_is_refused_before_the_first_draw() -> None:
    tensor = FuzzedSparseTensor("x", (6, 5))
    with pytest.raises(FuzzerDefinitionError, match=r"tensor 'x': .*give stored_share, nnz or"):
        Fuzzer([_always("coalesced", True)], [tensor])


@pytest.mark.parametrize("role", ["sparse_dim", "nnz", "density", "coalesced", "stored_share"])
def test_a_name_that_is_no_parameter_is_refused_before_the_first_draw(role: str) -> None:
    arguments: dict[str, Any] = {"nnz": 3, role: "z"}
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': {role} 'z' is not the name"):
        Fuzzer([_always("k", 1)], [FuzzedSparseTensor("x", (6, 5), **arguments)])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"density": 1.5}, "density must lie between 0 and 1, not 1.5"),
        ({"stored_share": 1.5}, "stored_share must lie between 0 and 1, not 1.5"),
        ({"density": -0.5}, "density must lie between 0 and 1, not -0.5"),
        ({"density": "much"}, "density must lie between 0 and 1, not 'a lot'"),
        ({"nnz": -1}, "nnz -1, which is less than 0"),
        ({"nnz": 2.5}, "nnz 2.5, which is not a whole number"),
        ({"nnz": 1, "sparse_dim": 0}, "sparse_dim 0, which is less than 1"),
        ({"nnz": 1, "dim_parameter": "none"}, "needs at least one dimension"),
    ],
)
def test_a_value_that_makes_no_sparse_tensor_is_named(
    arguments: dict[str, Any], complaint: str
) -> None:
    parameters = [_always("much", "a lot"), _always("none", 0)]
    fuzzer = Fuzzer(parameters, [FuzzedSparseTensor("x", (6, 5), **arguments)])
    with pytest.raises(FuzzerDefinitionError, match=f"tensor 'x': .*{complaint}"):
        next(fuzzer.take(1))


def test_sizes_without_room_for_nnz_are_drawn_again() -> None:
    fuzzer = Fuzzer(
        [FuzzedParameter("k", 1, 20, "uniform")], [FuzzedSparseTensor("x", ("k",), nnz=10)], seed=0
    )
    assert all(params["k"] >= 10 for _, _, params in fuzzer.take(20))
    assert fuzzer.rejection_rate > 0


def test_an_nnz_that_never_fits_is_an_error_that_names_it() -> None:
    fuzzer = Fuzzer([], [FuzzedSparseTensor("x", (3, 3), nnz=10)])
    with pytest.raises(ImpossibleConstraintError, match="tensor 'x': room for 10 stored positions"):
        next(fuzzer.take(1))


def test_element_limits_hold_for_sparse_tensors() -> None:
    tensor = FuzzedSparseTensor("x", ("k", 3), min_elements=6, max_elements=9, density="d")
    assert [tensor.satisfies_constraints({"k": k, "d": 0.5}) for k in (1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
    ]


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    share=st.floats(0, 1),
    coalesced=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_stored_positions_are_distinct_and_exactly_as_many_as_asked_for(
    sizes: list[int], share: float, coalesced: bool, seed: int
) -> None:
    nnz = math.floor(share * math.prod(sizes))
    torch.manual_seed(seed)
    tensor, _ = _made(FuzzedSparseTensor("x", sizes, nnz=nnz, coalesced=coalesced))
    assert tensor.shape == tuple(sizes)
    assert _stored(tensor) == (nnz if coalesced else 2 * nnz)
    assert _stored(tensor.coalesce()) == nnz
    assert tensor.is_coalesced() or not coalesced
    for indices, size in zip(tensor.coalesce().indices(), sizes, strict=True):
        assert all(0 <= index < size for index in indices.tolist())


def test_every_position_can_be_stored_and_none_is_preferred() -> None:
    torch.manual_seed(0)
    times_stored = torch.zeros(4, 3)
    for _ in range(600):
        tensor, _ = _made(FuzzedSparseTensor("x", (4, 3), nnz=6))
        times_stored += tensor.to_dense() != 0
    # 300 expected, with a standard deviation of 12.
    assert 240 < times_stored.min().item() <= times_stored.max().item() < 360


def test_replaced_positions_are_not_sorted() -> None:
    torch.manual_seed(0)
    tensor, _ = _made(FuzzedSparseTensor("x", (200,), nnz=90, coalesced=False))
    positions = tensor._indices()[0, :90].tolist()
    assert positions != sorted(positions)


@pytest.mark.parametrize("default", [torch.float32, torch.float64])
@pytest.mark.parametrize("is_coalesced", [True, False])
@pytest.mark.parametrize(
    ("size", "sparse_dim", "nnz"),
    [((1000, 900, 3), 2, 20), ((4, 5), 2, 30), (6, 2, 0), ((7,), 1, 9)],
)
def test_the_constructor_is_torchs_whether_positions_coincide_or_not(
    size: Any, sparse_dim: int, nnz: int, is_coalesced: bool, default: torch.dtype
) -> None:
    arguments: tuple[Any, ...] = (size, torch.float64, sparse_dim, nnz, is_coalesced)
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        torch.manual_seed(4)
        ours = FuzzedSparseTensor.sparse_tensor_constructor(*arguments)
        torch.manual_seed(4)
        with CHECKED_SPARSE.check_sparse_tensor_invariants(True):
            theirs = THEIRS.FuzzedSparseTensor.sparse_tensor_constructor(*arguments)
    finally:
        torch.set_default_dtype(before)
    assert_same_tensor(ours, theirs)


SIZES = st.lists(st.integers(1, 12), min_size=1, max_size=3)


@settings(deadline=None, max_examples=150)
@given(
    sizes=SIZES,
    density=st.floats(0.01, 1),
    sparse_dim=st.sampled_from([None, 1, 2, 3]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8]),
    coalesced=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_a_fuzzer_of_sparse_tensors_draws_torchs_tensors_properties_and_parameters(
    sizes: list[int],
    density: float,
    sparse_dim: int | None,
    dtype: torch.dtype,
    coalesced: bool,
    seed: int,
) -> None:
    assume(coalesced or dtype.is_floating_point)  # torch raises for whole numbers stored twice
    assume(density != 0.2)  # one of two keys, whose shares would not sum to 1

    def describe(library: Any) -> Any:
        return library.Fuzzer(
            parameters=[
                library.FuzzedParameter("density", distribution={density: 0.7, 0.2: 0.3}),
                library.FuzzedParameter("coalesced", distribution={coalesced: 1.0}),
                library.FuzzedParameter("sparse_dim", distribution={sparse_dim or 2: 1.0}),
                library.FuzzedParameter("k", 1, 9, "loguniform"),
            ],
            tensors=[
                library.FuzzedSparseTensor(
                    "x",
                    (*sizes, "k"),
                    max_elements=5000,
                    sparse_dim=None if sparse_dim is None else "sparse_dim",
                    density="density",
                    coalesced="coalesced",
                    dtype=dtype,
                ),
                library.FuzzedTensor("y", ("k", 2)),
            ],
            seed=seed,
        )

    with CHECKED_SPARSE.check_sparse_tensor_invariants(True):
        assert_both_draw_the_same(describe, n=3)


@pytest.mark.parametrize("coalesced", [True, False])
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64])
def test_every_kind_of_value_can_be_stored(dtype: torch.dtype, coalesced: bool) -> None:
    made, properties = _made(
        FuzzedSparseTensor("x", (9, 9), nnz=5, coalesced=coalesced, dtype=dtype)
    )
    assert made.dtype == dtype
    assert properties["dtype"] == str(dtype)


def test_properties_have_torchs_keys_and_types() -> None:
    arguments: dict[str, Any] = {
        "size": (50, 60, 2),
        "sparse_dim": "sparse_dim",
        "density": "density",
        "coalesced": "coalesced",
    }
    params = {"sparse_dim": 2, "density": 0.1, "coalesced": True}
    with CHECKED_SPARSE.check_sparse_tensor_invariants(True):
        _, theirs = THEIRS.FuzzedSparseTensor("x", **arguments)._make_tensor(params, None)
    _, ours = _made(FuzzedSparseTensor("x", **arguments), **params)
    assert ours == theirs
    assert list(ours) == list(theirs)
    assert [type(value) for value in ours.values()] == [type(value) for value in theirs.values()]


def test_a_single_number_is_the_size_of_every_sparse_dimension() -> None:
    tensor = FuzzedSparseTensor.sparse_tensor_constructor(7, torch.float32, 2, 3, True)
    assert tensor.shape == (7, 7)


def test_a_sparse_tensor_is_moved_to_its_device_and_drawn_on_the_cpu() -> None:
    with torch.device("meta"):
        drawn, _ = _made(FuzzedSparseTensor("x", (3, 3), nnz=8))
    moved, _ = _made(FuzzedSparseTensor("x", (3, 3), nnz=8, device="meta"))
    assert drawn.device.type == "cpu"
    assert moved.device.type == "meta"


def test_a_parameter_named_size_is_no_trouble_where_no_constructor_is_given_parameters() -> None:
    fuzzer = Fuzzer([_always("size", 5)], [FuzzedSparseTensor("x", ("size",), nnz=2)])
    ((tensors, _, _),) = fuzzer.take(1)
    assert tensors["x"].shape == (5,)

"""A sparse COO tensor with a random shape and number of stored positions.

With `density`, the tensor is that of torch.utils.benchmark for the same seed: the number of drawn
positions is the density times the *sum* of the sizes, and equal positions are merged. With `nnz`,
which torch ignores, or `stored_share`, which torch does not have, exactly this number is stored:
positions are drawn by the same calls, and duplicates are replaced by other positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from torchmark.define.fuzz.parameters import is_finite_number
from torchmark.define.fuzz.tensors import FuzzedTensor, random_values
from torchmark.errors import FuzzerDefinitionError

if TYPE_CHECKING:
    from numpy.random import RandomState

    _Positions = np.ndarray[Any, np.dtype[np.int64]]

_KNOWS_INVARIANT_CHECKS = hasattr(torch.sparse, "check_sparse_tensor_invariants")
"""True for torch 2.0 and later, which warns unless told whether to check."""


class FuzzedSparseTensor(FuzzedTensor):
    """A new sparse COO tensor for every sample.

    A string is the name of a parameter, anything else is the value itself:

    - `sparse_dim`: the number of leading dimensions that are sparse; by default all of them.
    - `density`: as in torch, the number of drawn positions is this share of the sum of all sizes,
      and positions may be equal.
    - `nnz`: the number of stored positions, all different; takes precedence over `density`.
    - `stored_share`: the share of all positions of the sparse dimensions that is stored; takes
      precedence over both.
    - `coalesced`: by default, every position is stored once; if false, every one is stored twice.

    If `density` or `coalesced` is None, a parameter of the same name is used if the Fuzzer has one.

    >>> from torchmark.define.fuzz import FuzzedParameter, FuzzedSparseTensor, Fuzzer
    >>> fuzzer = Fuzzer(
    ...     parameters=[FuzzedParameter("share", distribution={0.1: 0.5, 0.2: 0.5})],
    ...     tensors=[FuzzedSparseTensor("x", size=(10, 20), stored_share="share")],
    ...     seed=0,
    ... )
    >>> [(params["share"], tensors["x"].values().numel()) for tensors, _, params in fuzzer.take(2)]
    [(0.2, 40), (0.2, 40)]
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | int | None = None,
        nnz: str | int | None = None,
        density: str | float | None = None,
        coalesced: str | bool | None = None,
        dtype: torch.dtype = torch.float32,
        cuda: bool = False,
        *,
        device: str | torch.device | None = None,
        stored_share: str | float | None = None,
    ) -> None:
        super().__init__(
            name=name,
            size=size,
            min_elements=min_elements,
            max_elements=max_elements,
            dim_parameter=dim_parameter,
            dtype=dtype,
            cuda=cuda,
            device=device,
        )
        self._sparse_dim = sparse_dim
        self._nnz = nnz
        self._density = density
        self._coalesced = coalesced
        self._stored_share = stored_share

    @staticmethod
    def sparse_tensor_constructor(
        size: int | Sequence[int],
        dtype: torch.dtype,
        sparse_dim: int,
        nnz: int,
        is_coalesced: bool,
    ) -> torch.Tensor:
        """The same as torch's: `nnz` random positions, some of which may be equal.

        If `is_coalesced` is false, each position is stored twice.
        """
        sizes = [size] * sparse_dim if isinstance(size, int) else list(size)
        return _make_coo(sizes, dtype, sparse_dim, nnz, is_coalesced, _independent_positions)

    def check_parameters(self, names: Collection[str]) -> None:
        self._check_references(names)
        if not self._is_exact and self._density is None and "density" not in names:
            raise self._error(
                "the number of stored positions is unknown; give stored_share, nnz or density, or "
                "add a parameter named 'density' to the Fuzzer"
            )

    def make_tensor(
        self,
        params: Mapping[str, Any],
        state: RandomState,  # noqa: ARG002 -- torch draws nothing from it for a sparse tensor
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        size, _ = self._size_and_steps(params)
        sparse_dim, nnz, density = self._storage(size, params)
        coalesced = bool(self._argument("coalesced", self._coalesced, params, default=True))
        if self._is_exact:
            made = _make_coo(
                list(size), self._dtype, sparse_dim, nnz, coalesced, _distinct_positions
            )
        else:
            made = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, nnz, coalesced)
        tensor = self._move(made)
        return tensor, {
            "numel": int(tensor.numel()),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": density,
            "sparsity": 1.0 - density,
            "sparse_dim": tensor.sparse_dim(),
            "dense_dim": tensor.dense_dim(),
            "is_hybrid": tensor.dense_dim() > 0,
            "dtype": str(self._dtype),
        }

    def broken_limit(self, params: Mapping[str, Any]) -> str | None:
        broken = super().broken_limit(params)
        if broken is None and self._is_exact:
            size, _ = self._size_and_steps(params)
            sparse_dim, nnz, _ = self._storage(size, params)
            if nnz > math.prod(size[:sparse_dim]):
                return f"room for {nnz} stored positions"
        return broken

    @property
    def _is_exact(self) -> bool:
        """Whether exactly the given number of positions is stored; with torch it may be fewer."""
        return self._stored_share is not None or self._nnz is not None

    def _storage(self, size: tuple[int, ...], params: Mapping[str, Any]) -> tuple[int, int, float]:
        """Return the number of sparse leading dimensions, the number of positions to draw, and
        the given share.
        """
        if not size:
            raise self._error("a sparse tensor needs at least one dimension")
        asked = len(size) if self._sparse_dim is None else self._sparse_dim
        sparse_dim = min(self._whole("sparse_dim", asked, params, at_least=1), len(size))
        positions = math.prod(size[:sparse_dim])
        if self._stored_share is not None:
            share = self._share("stored_share", self._stored_share, params)
            return sparse_dim, math.ceil(share * positions), share
        if self._nnz is not None:
            nnz = self._whole("nnz", self._nnz, params, at_least=0)
            return sparse_dim, nnz, nnz / positions if positions else 0.0
        density = self._share("density", self._density, params)
        return sparse_dim, math.ceil(sum(size) * density), density

    def _share(self, role: str, given: Any, params: Mapping[str, Any]) -> float:
        share = self._argument(role, given, params, default=None)
        if not is_finite_number(share) or not 0 <= share <= 1:
            raise self._error(f"{role} must lie between 0 and 1, not {share!r}")
        return share

    def _argument(self, role: str, given: Any, params: Mapping[str, Any], default: Any) -> Any:
        if given is None:
            return params.get(role, default)
        return self._value(role, given, params)

    def _references(self) -> Iterator[tuple[str, str | float | None]]:
        yield from super()._references()
        yield "sparse_dim", self._sparse_dim
        yield "nnz", self._nnz
        yield "density", self._density
        yield "coalesced", self._coalesced
        yield "stored_share", self._stored_share


def _make_coo(
    size: list[int],
    dtype: torch.dtype,
    sparse_dim: int,
    nnz: int,
    is_coalesced: bool,
    draw_positions: Callable[[Sequence[int], int], torch.Tensor],
) -> torch.Tensor:
    """Make a tensor with random values at `nnz` positions, each stored twice unless coalesced."""
    values = random_values([nnz, *size[sparse_dim:]], dtype)
    indices = draw_positions(size[:sparse_dim], nnz)
    if is_coalesced:
        return _coo_tensor(indices, values, size).coalesce()
    normal = dtype.is_floating_point or dtype.is_complex
    again = torch.randn_like(values) if normal else random_values(values.shape, dtype)
    return _coo_tensor(torch.cat([indices, indices], 1), torch.cat([values, again]), size)


def _coo_tensor(indices: torch.Tensor, values: torch.Tensor, size: list[int]) -> torch.Tensor:
    if _KNOWS_INVARIANT_CHECKS:  # the indices are in range by construction
        return torch.sparse_coo_tensor(indices, values, size, device="cpu", check_invariants=False)
    return torch.sparse_coo_tensor(indices, values, size, device="cpu")


def _independent_positions(sizes: Sequence[int], count: int) -> torch.Tensor:
    """Draw one column of indices for every position, by the same calls as torch."""
    lengths = torch.tensor(sizes, device="cpu").unsqueeze(1)
    # In the default dtype, as in torch: another dtype would give other positions for a seed.
    shares = torch.rand(len(sizes), count, device="cpu")
    # A float32 close to one, times a length above 2**24, may be rounded up to the length.
    return torch.minimum((shares * lengths.to(shares)).to(torch.long), lengths - 1)


def _distinct_positions(sizes: Sequence[int], count: int) -> torch.Tensor:
    """Draw positions in the same way, without duplicates."""
    positions = math.prod(sizes)
    if count > positions:
        raise FuzzerDefinitionError(
            f"{count} stored positions asked for, but sparse dimensions of {tuple(sizes)} "
            f"have {positions}"
        )
    indices = _independent_positions(sizes, count)
    taken = np.unique(np.ravel_multi_index(indices.numpy(), tuple(sizes)))
    if len(taken) == count:
        return indices
    flat = _top_up(taken, count, positions)
    return torch.from_numpy(np.stack(np.unravel_index(flat, tuple(sizes))))


def _top_up(taken: _Positions, count: int, positions: int) -> _Positions:
    """Return this many positions in random order, including those taken."""
    while len(taken) < count:
        missing = count - len(taken)
        if count > positions // 2:  # few are free, so random guesses would often be taken ones
            free = np.ones(positions, dtype=bool)
            free[taken] = False
            candidates = np.flatnonzero(free)
            fresh = candidates[torch.randperm(len(candidates), device="cpu")[:missing].numpy()]
        else:
            fresh = torch.randint(positions, (missing,), device="cpu").numpy()
        taken = np.union1d(taken, fresh)
    # Sorted indices would have better locality than those of a tensor drawn without duplicates.
    shuffled: _Positions = taken[torch.randperm(count, device="cpu").numpy()]
    return shuffled

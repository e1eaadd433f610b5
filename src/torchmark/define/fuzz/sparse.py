"""A sparse COO tensor whose shape and number of stored positions are drawn.

By `density` the tensor is torch.utils.benchmark's for the same seed: the number of positions drawn
is the density times the *sum* of the sizes, and those that coincide fall together. By `nnz`, which
torch ignores, or `stored_share`, which it does not have, exactly the number asked for is stored:
positions are drawn by the same calls, and where some coincide others are drawn in their place.
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
"""torch 2.0 and later; they warn unless told whether to check."""


class FuzzedSparseTensor(FuzzedTensor):
    """A sparse COO tensor made anew for every sample.

    A string names a parameter, anything else is the value itself:

    - `sparse_dim`: how many of the leading dimensions are sparse; all of them by default.
    - `density`: as in torch, the drawn positions are this share of the sum of all sizes, and
      positions may coincide.
    - `nnz`: the number of stored positions, all different; goes before `density`.
    - `stored_share`: the share of all positions of the sparse dimensions that is stored; goes
      before both.
    - `coalesced`: whether every position is stored once, the default; otherwise it is stored twice.

    Where `density` or `coalesced` is None, a parameter of that very name is used if the Fuzzer has
    one.

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
        """torch's: `nnz` positions, of which some may coincide; stored twice if not coalesced."""
        sizes = [size] * sparse_dim if isinstance(size, int) else list(size)
        return _make_coo(sizes, dtype, sparse_dim, nnz, is_coalesced, _independent_positions)

    def check_parameters(self, names: Collection[str]) -> None:
        self._check_references(names)
        if not self._is_exact and self._density is None and "density" not in names:
            raise self._error(
                "nothing says how many positions are stored; give stored_share, nnz or density, "
                "or the Fuzzer a parameter named 'density'"
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
        """Whether the positions are as many as was asked for; torch's need not be."""
        return self._stored_share is not None or self._nnz is not None

    def _storage(self, size: tuple[int, ...], params: Mapping[str, Any]) -> tuple[int, int, float]:
        """How many leading dimensions are sparse, how many of their positions are drawn, and the
        same as a share, as it was asked for.
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
    """A tensor with values of torch's draws at `nnz` positions; each is stored twice unless
    coalesced.
    """
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
    """One column of indices for every position, by torch's calls."""
    lengths = torch.tensor(sizes, device="cpu").unsqueeze(1)
    # In the default dtype, as torch's: with another one the same seed gives other positions.
    shares = torch.rand(len(sizes), count, device="cpu")
    # A float32 close to one, times a length beyond 2**24, may round up to the length itself.
    return torch.minimum((shares * lengths.to(shares)).to(torch.long), lengths - 1)


def _distinct_positions(sizes: Sequence[int], count: int) -> torch.Tensor:
    """The same, no two of them equal."""
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
    """So many positions in random order, the taken ones among them."""
    while len(taken) < count:
        missing = count - len(taken)
        if count > positions // 2:  # few are free: guessing would hit taken ones again and again
            free = np.ones(positions, dtype=bool)
            free[taken] = False
            candidates = np.flatnonzero(free)
            fresh = candidates[torch.randperm(len(candidates), device="cpu")[:missing].numpy()]
        else:
            fresh = torch.randint(positions, (missing,), device="cpu").numpy()
        taken = np.union1d(taken, fresh)
    # Sorted indices would be kinder to the memory than those of a tensor without coincidences.
    shuffled: _Positions = taken[torch.randperm(count, device="cpu").numpy()]
    return shuffled

"""A strided tensor with random shape, steps and memory order.

`make_tensor` depends only on the parameters, the numpy state and torch's global generator. It draws
from both generators in the order of torch.utils.benchmark (values first, then one number for
contiguity, then permutations), on the CPU for every device. So the same seed gives the same tensor
everywhere.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from torchmark.define.fuzz.parameters import is_finite_number
from torchmark.errors import FuzzerDefinitionError

if TYPE_CHECKING:
    from numpy.random import RandomState

_CONSTRUCTOR_ARGUMENTS = ("size", "dtype")
"""Keyword arguments of a tensor constructor in addition to the parameters."""


class FuzzedTensor:
    """A new tensor for every sample. Its sizes are numbers or names of parameters.

    - `steps`: allocate this many times the size, and use every n-th element of each dimension.
    - `probability_contiguous`: how often the memory order is left unchanged; otherwise the
      dimensions have a random order in memory. Steps are applied in addition.
    - `min_elements`, `max_elements`, `max_allocation_bytes`: parameters are drawn again if the
      tensor, or the allocation for its steps, is outside of these limits.
    - `dim_parameter`: the parameter with the number of dimensions; `size` and `steps` are cut to
      it, or filled up with ones.
    - `roll_parameter`: the parameter by which the dimensions, sizes and steps together, are
      rotated like the elements of `torch.roll`.
    - `tensor_constructor`: called with `size`, `dtype` and all parameters by name, instead of
      `default_tensor_constructor`.
    - `device`: the device to move the tensor to; `cuda=True` is short for `device="cuda"`.

    >>> from torchmark.define.fuzz import FuzzedParameter, FuzzedTensor, Fuzzer
    >>> fuzzer = Fuzzer(
    ...     parameters=[FuzzedParameter("k", 4, 64, distribution="uniform")],
    ...     tensors=[FuzzedTensor("x", size=("k", 3), steps=(1, 2), max_elements=150)],
    ...     seed=0,
    ... )
    >>> for tensors, properties, params in fuzzer.take(2):
    ...     print(params["k"], tuple(tensors["x"].shape), properties["x"]["steps"])
    4 (4, 3) (1, 2)
    40 (40, 3) (1, 2)
    """

    def __init__(
        self,
        name: str,
        size: Sequence[str | int],
        steps: Sequence[str | int] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: torch.dtype = torch.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., torch.Tensor] | None = None,
        *,
        device: str | torch.device | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise FuzzerDefinitionError(f"a tensor's name must be a string, not {name!r}")
        self._name = name
        self._size = self._lengths("size", size, at_least=0)
        self._steps = self._lengths("steps", steps or (), at_least=1)
        if not is_finite_number(probability_contiguous) or not 0 <= probability_contiguous <= 1:
            raise self._error(
                f"probability_contiguous must lie between 0 and 1, not {probability_contiguous!r}"
            )
        self._probability_contiguous = probability_contiguous
        self._min_elements = min_elements
        self._max_elements = max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = self._parameter_name("dim_parameter", dim_parameter)
        self._roll_parameter = self._parameter_name("roll_parameter", roll_parameter)
        self._dtype = dtype
        self._device = self._one_device(cuda, device)
        self._tensor_constructor = tensor_constructor

    @property
    def name(self) -> str:
        return self._name

    @staticmethod
    def default_tensor_constructor(
        size: Sequence[int],
        dtype: torch.dtype,
        **kwargs: Any,  # noqa: ARG004 -- constructors get every parameter by name
    ) -> torch.Tensor:
        return random_values(size, dtype)

    def check_parameters(self, names: Collection[str]) -> None:
        """Raise if a Fuzzer with these parameters cannot make this tensor."""
        self._check_references(names)
        for argument in _CONSTRUCTOR_ARGUMENTS:
            if argument in names:
                raise self._error(
                    f"a parameter named {argument!r} would hide the constructor's argument "
                    "of that name; rename the parameter"
                )

    def make_tensor(
        self, params: Mapping[str, Any], state: RandomState
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        size, steps = self._size_and_steps(params)
        allocation = tuple(map(operator.mul, size, steps))
        constructor = self._tensor_constructor or self.default_tensor_constructor
        allocated = constructor(size=allocation, dtype=self._dtype, **params)
        allocated, order = self._reorder(self._move(allocated), len(size), state)
        tensor = allocated[
            tuple(slice(0, end, step) for end, step in zip(allocation, steps, strict=True))
        ]
        return tensor, {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }

    def satisfies_constraints(self, params: Mapping[str, Any]) -> bool:
        return self.broken_limit(params) is None

    def broken_limit(self, params: Mapping[str, Any]) -> str | None:
        """Describe the first of this tensor's limits that these parameters violate; else None."""
        size, steps = self._size_and_steps(params)
        elements = math.prod(size)
        allocated = elements * math.prod(steps) * _bytes_per_element(self._dtype)
        if self._max_elements is not None and elements > self._max_elements:
            return f"at most {self._max_elements} elements"
        if self._min_elements is not None and elements < self._min_elements:
            return f"at least {self._min_elements} elements"
        if self._max_allocation_bytes is not None and allocated > self._max_allocation_bytes:
            return f"at most {self._max_allocation_bytes} allocated bytes"
        return None

    def _size_and_steps(self, params: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the length of every dimension, and the step of each in the allocation."""
        dim = len(self._size)
        if self._dim_parameter is not None:
            dim = self._whole("dim_parameter", self._dim_parameter, params, at_least=0)
        size = self._resolve("size", self._size, dim, params, at_least=0)
        steps = self._resolve("steps", self._steps, dim, params, at_least=1)
        if self._roll_parameter is None:
            return size, steps
        places = self._whole("roll_parameter", self._roll_parameter, params)
        cut = -places % max(1, dim)
        return size[cut:] + size[:cut], steps[cut:] + steps[:cut]

    def _resolve(
        self,
        role: str,
        lengths: tuple[str | int, ...],
        dim: int,
        params: Mapping[str, Any],
        at_least: int,
    ) -> tuple[int, ...]:
        given = tuple(self._whole(role, each, params, at_least=at_least) for each in lengths[:dim])
        return given + (1,) * (dim - len(given))

    def _whole(
        self, role: str, given: str | int, params: Mapping[str, Any], at_least: int | None = None
    ) -> int:
        value = self._value(role, given, params)
        described = (
            f"{role} {given!r} is {value!r}" if isinstance(given, str) else f"{role} {value!r}"
        )
        try:
            number = operator.index(value)
        except TypeError:
            raise self._error(f"{described}, which is not a whole number") from None
        if at_least is not None and number < at_least:
            raise self._error(f"{described}, which is less than {at_least}")
        return number

    def _value(self, role: str, given: Any, params: Mapping[str, Any]) -> Any:
        """Return the value: a string is the name of a parameter, anything else is the value."""
        if not isinstance(given, str):
            return given
        if given not in params:
            raise self._error(f"{role} {given!r} is not the name of a parameter")
        return params[given]

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._device is None else tensor.to(self._device)

    def _reorder(
        self, tensor: torch.Tensor, dim: int, state: RandomState
    ) -> tuple[torch.Tensor, np.ndarray[Any, np.dtype[np.int64]]]:
        """Return the tensor with its dimensions in another memory order, and that order."""
        unchanged = np.arange(dim)
        order = unchanged
        if state.rand() <= self._probability_contiguous:
            return tensor, order
        while dim > 1 and np.array_equal(order, unchanged):
            order = state.permutation(tensor.dim())
        in_memory = tensor.permute(order.tolist()).contiguous()
        return in_memory.permute(np.argsort(order).tolist()), order

    def _check_references(self, names: Collection[str]) -> None:
        for role, given in self._references():
            self._value(role, given, dict.fromkeys(names))

    def _references(self) -> Iterator[tuple[str, str | float | None]]:
        """Yield every argument that may name a parameter, by its role."""
        yield from (("size", each) for each in self._size)
        yield from (("steps", each) for each in self._steps)
        yield "dim_parameter", self._dim_parameter
        yield "roll_parameter", self._roll_parameter

    def _lengths(
        self, role: str, given: Sequence[str | int], at_least: int
    ) -> tuple[str | int, ...]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise self._error(f"{role} must be a tuple of numbers and names, not {given!r}")
        lengths = tuple(given)
        for each in lengths:
            if not isinstance(each, str):
                self._whole(role, each, {}, at_least=at_least)
        return lengths

    def _parameter_name(self, role: str, given: str | None) -> str | None:
        if given is not None and not isinstance(given, str):
            raise self._error(f"{role} must be the name of a parameter, not {given!r}")
        return given

    def _one_device(self, cuda: bool, device: str | torch.device | None) -> torch.device | None:
        if device is None:
            return torch.device("cuda") if cuda else None
        try:
            chosen = torch.device(device)
        except (RuntimeError, TypeError) as error:
            raise self._error(f"{device!r} is not a device of torch") from error
        if cuda and chosen.type != "cuda":
            raise self._error(f"cuda=True contradicts device={str(chosen)!r}; give one of them")
        return chosen

    def _error(self, message: str) -> FuzzerDefinitionError:
        return FuzzerDefinitionError(f"tensor {self._name!r}: {message}")


def random_values(size: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return random values: reals and parts of complex numbers from [0, 1), ints from 1 to 126."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.rand(tuple(size), dtype=dtype, device="cpu")
    if dtype == torch.bool:  # torch.utils.benchmark does not support it
        return torch.randint(0, 2, tuple(size), dtype=dtype, device="cpu")
    return torch.randint(1, 127, tuple(size), dtype=dtype, device="cpu")


def _bytes_per_element(dtype: torch.dtype) -> int:
    width = torch.empty(0, dtype=dtype, device="cpu").element_size()
    # torch counts a complex element by its real part. A rejected draw changes all later ones, so
    # correct counting would give other draws than torch's.
    return width // 2 if dtype.is_complex else width

"""A sweep as users write it: five names and a rule, in a Python file or as arguments of `Sweep`.

Mistakes that can be found without running the model are found here, before anything is measured.
Each error has the name and the value that are wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torchmark.define.suites.loading import run_file
from torchmark.define.sweep.axes import JobConfig, configs_of, sizes_of
from torchmark.define.sweep.expressions import expression_of
from torchmark.errors import (
    DefinitionError,
    InvalidArgumentError,
    SuiteFileError,
    SuiteNotFoundError,
)
from torchmark.model.run_settings import THREADS
from torchmark_probe.zygote.messages import Input

NAMES = ("model", "model_init_params", "input_params", "input_scales", "job_configs")
"""The names that a file must define; `valid` is optional."""

CONFIG_FIELDS = tuple(field.name for field in fields(JobConfig))
"""Names that filters know in addition to the dimensions; dimensions must have other names."""

_FLOATING = "floating"
"""Elements of the job config's dtype, from a normal distribution."""

_INTEGERS = ("int64", "int32")
"""Elements uniformly distributed from 0 up to `below`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """What to sweep, checked and normalised."""

    model_name: str
    model_source: str
    """The source of the model, so that a changed model is another case; its name if Python has no
    source for it."""

    init: tuple[str, ...]
    """The dimensions that the model is initialised with."""

    inputs: tuple[Input, ...]
    scales: Mapping[str, tuple[int, ...]]
    """The sizes of every dimension, in the order of `input_scales`."""

    configs: tuple[JobConfig, ...]
    valid: Any = None
    """Which points to measure: a function of dimensions, or an expression; None means all."""

    places: tuple[int, ...] | None = None
    """The points for which `valid` holds, by index in the product of the scales; None means all."""

    file: Path | None = None
    """The file of the spec; None for the arguments of `Sweep`."""

    model: Any = None
    """A module class, a function that returns a module, a function of the inputs, or a module. None
    if a file defines it: then only the processes that measure the model run it."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """The dimensions of the inputs, without duplicates."""
        used = (name for each in self.inputs for name in (*each.dims, each.below))
        return tuple(dict.fromkeys(name for name in used if isinstance(name, str)))

    def with_sizes(self, settings: Mapping[str, tuple[int, ...]]) -> SweepSpec:
        """Return the spec with other sizes for some dimensions."""
        for name in settings:
            if name not in (*self.scales, THREADS):
                known = dict.fromkeys([*self.scales, THREADS])
                raise DefinitionError(
                    f"there is no dimension {name!r}; the dimensions are {_listed(known)}"
                )
        configs = self.configs
        if THREADS in settings:  # these replace the threads of the job configs
            configs = tuple(dict.fromkeys(replace(each, threads=1) for each in configs))
        changed = replace(self, scales={**self.scales, **settings}, configs=configs)
        _check_sizes(changed)
        return changed


def spec_of(
    *,
    model: Any,
    input_params: Any,
    input_scales: Any,
    model_init_params: Any = (),
    job_configs: Any = ("pt fp32",),
    valid: Any = None,
    file: Path | None = None,
) -> SweepSpec:
    """Check the values and return them as a spec; raise DefinitionError for a mistake."""
    if not callable(model):
        raise DefinitionError(
            f"model is {model!r}; it must be a module class, a function that returns a module, "
            "or a function of the inputs"
        )
    if not isinstance(input_scales, Mapping):
        raise DefinitionError(
            f"input_scales is {input_scales!r}; write a dictionary such as "
            '{"batch": [1, 8, 64], "features": range(128, 1025, 128)}'
        )
    spec = SweepSpec(
        model_name=str(getattr(model, "__name__", type(model).__name__)),
        model_source=_source_of(model),
        model=model if file is None else None,
        init=_init_names(model_init_params),
        inputs=_inputs(input_params),
        scales={str(name): sizes_of(str(name), sizes) for name, sizes in input_scales.items()},
        configs=configs_of(job_configs),
        valid=valid,
        file=file,
    )
    _check_names(spec)
    _check_sizes(spec)
    if valid is not None:
        rule_of(spec)
    return spec


def read_spec(file: Path) -> SweepSpec:
    """Run a Python file, which is the user's code, and return the spec that it defines."""
    if file.is_dir():
        raise SuiteNotFoundError(f"{file} is a folder; name the Python file of a sweep")
    if not file.is_file():
        raise SuiteNotFoundError(f"there is no file {file}")
    found = vars(run_file(file))
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise SuiteFileError(
            f"{_listed(missing)} must be defined, because a sweep needs these names", file=str(file)
        )
    try:
        named = {name: found[name] for name in NAMES}
        return spec_of(**named, valid=found.get("valid"), file=file)
    except (DefinitionError, InvalidArgumentError) as error:
        raise SuiteFileError(str(error), file=str(file)) from error


def rule_of(spec: SweepSpec) -> Callable[[Mapping[str, int]], Any]:
    """Return `valid` as a function of a point; raise if it uses names that are no dimensions."""
    valid, dims = spec.valid, tuple(spec.scales)
    if isinstance(valid, str):
        return expression_of(valid, dims, "valid")
    if not callable(valid):
        raise DefinitionError(
            f"valid is {valid!r}; write a function of dimensions, such as "
            'lambda heads, dim: dim % heads == 0, or an expression as text: "dim % heads == 0"'
        )
    try:
        wanted = inspect.signature(valid).parameters.values()
    except (TypeError, ValueError) as error:  # some functions written in C have no signature
        raise DefinitionError(
            f"valid is {valid!r}, whose parameters are not known; write a lambda of dimensions"
        ) from error
    if any(each.kind is each.VAR_KEYWORD for each in wanted):
        return lambda point: valid(**point)
    for each in wanted:
        if each.name not in dims and each.default is each.empty:
            raise DefinitionError(
                f"valid has the parameter {each.name!r}; the dimensions are {_listed(dims)}"
            )
    names = [each.name for each in wanted if each.name in dims]
    return lambda point: valid(**{name: point[name] for name in names})


def indices(*dims: str | int, below: str | int, dtype: str = "int64") -> dict[str, Any]:
    """Return an input of integers from 0 up to `below`, such as the rows of a table.

    >>> indices("batch", "bag", below="rows")
    {'dims': ['batch', 'bag'], 'dtype': 'int64', 'below': 'rows'}
    """
    return {"dims": list(dims), "dtype": dtype, "below": below}


def _source_of(model: Any) -> str:
    kind = model if hasattr(model, "__qualname__") else type(model)
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return f"{kind.__module__}.{kind.__qualname__}"


def _inputs(given: Any) -> tuple[Input, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise DefinitionError(
            f"input_params is {given!r}; write a list with one list of dimension names for each "
            'input: [["batch", "features"]]'
        )
    return tuple(
        _input(f"input {number} of input_params", each) for number, each in enumerate(given, 1)
    )


def _input(what: str, given: Any) -> Input:
    if not isinstance(given, Mapping):
        return Input(dims=_dims(what, given), dtype=_FLOATING, below=None)
    if "dims" not in given or not set(given) <= {"dims", "dtype", "below"}:
        raise DefinitionError(
            f"{what} is {dict(given)!r}; it needs dims, and may have dtype and below"
        )
    dtype, below = str(given.get("dtype", _FLOATING)).removeprefix("torch."), given.get("below")
    if dtype not in (_FLOATING, *_INTEGERS):
        raise DefinitionError(
            f"{what} has the dtype {dtype!r}; "
            f"choose from {', '.join(_INTEGERS)}, or leave it out to use the job config's dtype"
        )
    if (dtype in _INTEGERS) != (below is not None):
        raise DefinitionError(
            f"{what} has the dtype {dtype} and below={below!r}; "
            "integers need below, other dtypes must not have it"
        )
    if below is not None and not _is_dim(below):
        raise DefinitionError(
            f"{what} has below={below!r}; write the name of a dimension or a number of at least 1"
        )
    return Input(dims=_dims(what, given["dims"]), dtype=dtype, below=below)


def _dims(what: str, given: Any) -> list[str | int]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DefinitionError(
            f'{what} is {given!r}; write the names of its dimensions: ["batch", "features"]'
        )
    for dim in given:
        if not _is_dim(dim):
            raise DefinitionError(
                f"{what} has the dimension {dim!r}; write a name or a size of at least 1"
            )
    return list(given)


def _is_dim(dim: Any) -> bool:
    if isinstance(dim, str):
        return bool(dim)
    return isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1


def _init_names(given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise DefinitionError(
            f"model_init_params is {given!r}; write a list of names from input_scales"
        )
    return tuple(names)


def _check_names(spec: SweepSpec) -> None:
    used = dict.fromkeys([*spec.init, *spec.input_names])
    if THREADS in used:
        raise DefinitionError(
            f"{THREADS!r} is the number of threads of torch, and cannot be a dimension of a model "
            "or an input; use another name"
        )
    if THREADS in spec.scales and any(config.threads != 1 for config in spec.configs):
        raise DefinitionError("threads are in both input_scales and job_configs; remove one")
    for name in used:
        if name not in spec.scales:
            where = "model_init_params" if name in spec.init else "input_params"
            raise DefinitionError(
                f"the dimension {name!r} of {where} has no sizes in input_scales, "
                f"which has {_listed(spec.scales)}"
            )
    for name in spec.scales:
        if name == THREADS:
            continue
        if name not in used:
            raise DefinitionError(
                f"the dimension {name!r} of input_scales is not used: it is neither in "
                f"model_init_params ({_listed(spec.init)}) nor in input_params "
                f"({_listed(spec.input_names)})"
            )
        if name in CONFIG_FIELDS:
            raise DefinitionError(
                f"the dimension {name!r} of input_scales has the name of a column; use another name"
            )
        if not name.isidentifier():
            raise DefinitionError(
                f"the dimension {name!r} of input_scales is not a valid name; use letters, digits "
                "and _"
            )


def _check_sizes(spec: SweepSpec) -> None:
    """Check the sizes of inputs; those of the model may be any number (padding 0, axis -1)."""
    for size in spec.scales.get(THREADS, ()):
        if size < 1:
            raise DefinitionError(f"threads must be at least 1, not {size}")
    for name in spec.input_names:
        for size in spec.scales[name]:
            if size < 1:
                raise DefinitionError(
                    f"the dimension {name!r} has the size {size}; inputs need sizes of at least 1"
                )


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "nothing"

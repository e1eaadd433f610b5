"""A sweep as people write it: five names and a rule, in a Python file or as arguments of `Sweep`.

All mistakes that can be seen without running the model are found here, before anything is
measured, and each is told with the name and the value that are wrong.
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
"""Those that a file must define; `valid` may be there too."""

CONFIG_FIELDS = tuple(field.name for field in fields(JobConfig))
"""What a filter knows beside the dimensions, which therefore have other names."""

_FLOATING = "floating"
"""Elements of the job config's dtype, drawn from a normal distribution."""

_INTEGERS = ("int64", "int32")
"""Elements that are drawn evenly from 0 up to `below`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSpec:
    """What is swept: checked, and in one form whatever it was written in."""

    model_name: str
    model_source: str
    """The text of the model, so that a changed model is another case; its name, where Python does
    not know the text."""

    init: tuple[str, ...]
    """The dimensions that initialise the model."""

    inputs: tuple[Input, ...]
    scales: Mapping[str, tuple[int, ...]]
    """The sizes of every dimension, in the order of `input_scales`."""

    configs: tuple[JobConfig, ...]
    valid: Any = None
    """Which points there are: a function of dimensions or an expression as text; None for all."""

    places: tuple[int, ...] | None = None
    """The points for which `valid` holds, by their place in the product; None for all."""

    file: Path | None = None
    """Where it was written; None for the arguments of `Sweep`."""

    model: Any = None
    """A class of modules, a function that returns a module, a function of the inputs, or a module;
    None for that of a file, which only the processes that measure it run."""

    @property
    def input_names(self) -> tuple[str, ...]:
        """The dimensions of the inputs, each once."""
        used = (name for each in self.inputs for name in (*each.dims, each.below))
        return tuple(dict.fromkeys(name for name in used if isinstance(name, str)))

    def with_sizes(self, settings: Mapping[str, tuple[int, ...]]) -> SweepSpec:
        """The same with other sizes of some dimensions."""
        for name in settings:
            if name not in (*self.scales, THREADS):
                known = dict.fromkeys([*self.scales, THREADS])
                raise DefinitionError(
                    f"there is no dimension {name!r} to set; there are {_listed(known)}"
                )
        configs = self.configs
        if THREADS in settings:  # in place of those of the job configs
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
    """The names as one spec, or a DefinitionError."""
    if not callable(model):
        raise DefinitionError(
            f"model is {model!r}; it is a class of modules, a function that returns a module, "
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
    """The spec that a Python file defines; the file is the user's own code, and is run."""
    if not file.is_file():
        raise SuiteNotFoundError(f"there is no file {file}")
    found = vars(run_file(file))
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise SuiteFileError(
            f"defines no {_listed(missing)}; a sweep has {_listed(NAMES)}", file=str(file)
        )
    try:
        named = {name: found[name] for name in NAMES}
        return spec_of(**named, valid=found.get("valid"), file=file)
    except (DefinitionError, InvalidArgumentError) as error:
        raise SuiteFileError(str(error), file=str(file)) from error


def rule_of(spec: SweepSpec) -> Callable[[Mapping[str, int]], Any]:
    """What `valid` says of a point; an error if it asks for what is no dimension."""
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
    except (TypeError, ValueError) as error:  # a function in C does not say what it takes
        raise DefinitionError(f"valid is {valid!r}, which does not say what it takes") from error
    if any(each.kind is each.VAR_KEYWORD for each in wanted):
        return lambda point: valid(**point)
    for each in wanted:
        if each.name not in dims and each.default is each.empty:
            raise DefinitionError(
                f"valid asks for {each.name!r}; the dimensions are {_listed(dims)}"
            )
    names = [each.name for each in wanted if each.name in dims]
    return lambda point: valid(**{name: point[name] for name in names})


def indices(*dims: str | int, below: str | int, dtype: str = "int64") -> dict[str, Any]:
    """An input of integers from 0 up to `below`, such as the rows of a table.

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
            f"{what} is {dict(given)!r}; it has dims, and may have dtype and below"
        )
    dtype, below = str(given.get("dtype", _FLOATING)).removeprefix("torch."), given.get("below")
    if dtype not in (_FLOATING, *_INTEGERS):
        raise DefinitionError(
            f"{what} has the dtype {dtype!r}; "
            f"there are {', '.join(_INTEGERS)}, or none for the job config's own"
        )
    if (dtype in _INTEGERS) != (below is not None):
        raise DefinitionError(
            f"{what} has the dtype {dtype} and below={below!r}; "
            "integers need below, others do not know it"
        )
    if below is not None and not _is_dim(below):
        raise DefinitionError(
            f"{what} has below={below!r}; write the name of a dimension or a number from 1 on"
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
                f"{what} has the dimension {dim!r}; write a name or a size from 1 on"
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
            f"model_init_params is {given!r}; write a list of names that input_scales has"
        )
    return tuple(names)


def _check_names(spec: SweepSpec) -> None:
    used = dict.fromkeys([*spec.init, *spec.input_names])
    if THREADS in used:
        raise DefinitionError(
            f"{THREADS!r} is how many threads torch has, and no dimension of a model or an input; "
            "take another name"
        )
    if THREADS in spec.scales and any(config.threads != 1 for config in spec.configs):
        raise DefinitionError("threads are in input_scales and in job_configs; leave one out")
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
                f"nobody uses the dimension {name!r} of input_scales: it is neither in "
                f"model_init_params ({_listed(spec.init)}) nor in input_params "
                f"({_listed(spec.input_names)})"
            )
        if name in CONFIG_FIELDS:
            raise DefinitionError(
                f"the dimension {name!r} of input_scales has the name of a column; take another"
            )
        if not name.isidentifier():
            raise DefinitionError(
                f"the dimension {name!r} of input_scales is no name; write letters, digits and _"
            )


def _check_sizes(spec: SweepSpec) -> None:
    """What the model alone is given may be any number: padding may be 0, an axis -1."""
    for size in spec.scales.get(THREADS, ()):
        if size < 1:
            raise DefinitionError(f"threads are 1, 2, …, and not {size}")
    for name in spec.input_names:
        for size in spec.scales[name]:
            if size < 1:
                raise DefinitionError(
                    f"the dimension {name!r} has the size {size}; the size of an input is 1 or more"
                )


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "nothing"

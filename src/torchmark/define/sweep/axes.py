"""What a sweep varies: the sizes of dimensions, and the job configs.

The sizes of a dimension are given as a list, a range, or equal steps between two ends. They are
whole numbers in the order given, without duplicates. Text from the command line is read as data: a
number, several separated by commas, or one of the forms.

A job config says which backend runs the model and with which dtype. Configs can be written one by
one, as "ort fp16", ("ort", "fp16") or a dictionary, or as values to combine:
["fp16", "fp32", "pt", "ort"] means four configs.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchmark.arguments import shown
from torchmark.define.sweep.expressions import ExpressionError, parse_expression
from torchmark.errors import DefinitionError, InvalidArgumentError
from torchmark.model.run_settings import TORCH_DTYPES, Phase

_LARGEST = 2**40
"""Maximum size: no tensor has more elements along one dimension."""

MOST_SIZES = 10_000
"""Maximum number of sizes of one dimension, checked before they are made."""

_FORMS_TEXT = (
    "a list such as [1, 2, 4], range(1, 9), linspace(1, 100, 5) or logspace(0, 10, 11, base=2)"
)


def linspace(start: float, end: float, steps: int) -> list[int]:
    """Return `steps` rounded sizes at equal distances from `start` to `end`, both included.

    >>> linspace(1, 100, 4)
    [1, 34, 67, 100]
    """
    if not max(abs(start), abs(end)) <= _LARGEST:
        raise InvalidArgumentError(
            f"linspace({start}, {end}, {steps}) has ends beyond ±{_LARGEST:,} or not a number"
        )
    return _rounded([start + (end - start) * at for at in _shares("linspace", steps)])


def logspace(start: float, end: float, steps: int, base: float = 10) -> list[int]:
    """Return `steps` rounded sizes from base**start to base**end, as `torch.logspace` does.

    >>> logspace(0, 10, 6, base=2)
    [1, 4, 16, 64, 256, 1024]
    """
    is_fine = 0 < base < math.inf and (
        max(abs(start), abs(end)) * abs(math.log2(base)) <= math.log2(_LARGEST)
    )
    if not is_fine:
        raise InvalidArgumentError(
            f"logspace({start}, {end}, {steps}, base={base}) goes from {base}**{start} to "
            f"{base}**{end}, as torch.logspace does; for 1 to 1024 write "
            "logspace(0, 10, 11, base=2)"
        )
    return _rounded([base ** (start + (end - start) * at) for at in _shares("logspace", steps)])


def _shares(name: str, steps: int) -> list[float]:
    if type(steps) is not int or steps < 1:
        raise InvalidArgumentError(
            f"the steps of {name} must be a whole number of at least 1, not {shown(steps)}"
        )
    if steps > MOST_SIZES:
        raise InvalidArgumentError(
            f"{name} has {steps:,} steps; a dimension can have at most {MOST_SIZES:,} sizes"
        )
    return [at / max(1, steps - 1) for at in range(steps)]


def _rounded(values: Iterable[float]) -> list[int]:
    return list(dict.fromkeys(round(value) for value in values))


_FORMS: dict[str, Callable[..., Iterable[int]]] = {
    "range": range,
    "linspace": linspace,
    "logspace": logspace,
}


def sizes_of(dim: str, given: Any) -> tuple[int, ...]:
    """Return the sizes that a spec gives for a dimension; errors name it and the value."""
    if isinstance(given, str):
        values: Iterable[Any] = _read(dim, given)
    elif isinstance(given, Mapping):
        values = _by_name(dim, given)
    elif isinstance(given, Iterable) and not isinstance(given, bytes):
        values = given
    else:
        values = [given]
    some = list(itertools.islice(values, MOST_SIZES + 1))  # a range may be huge
    if len(some) > MOST_SIZES:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has more than {MOST_SIZES:,} sizes, the maximum; use larger "
            "steps, linspace or logspace"
        )
    sizes = tuple(dict.fromkeys(_whole(dim, value) for value in some))
    if not sizes:
        raise InvalidArgumentError(f"the dimension {dim!r} has no sizes; give it {_FORMS_TEXT}")
    return sizes


def setting(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse the value of `--set`: the name of a dimension and its sizes.

    >>> setting("batch=1,2,4"), setting("rows = range(8, 32, 8)")
    (('batch', (1, 2, 4)), ('rows', (8, 16, 24)))
    """
    name, equals, form = text.partition("=")
    if not equals or not name.strip():
        raise InvalidArgumentError(f"--set {shown(text)}: write it like batch=8 or batch=1,2,4")
    return name.strip(), sizes_of(name.strip(), form.strip())


def _whole(dim: str, value: Any) -> int:
    number = None if isinstance(value, bool | str) else _number(value)
    if number is None:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has the size {shown(value)}, which is not a whole number"
        )
    if abs(number) > _LARGEST:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has the size {shown(value)}, which is too large"
        )
    return number


def _number(value: Any) -> int | None:
    """Return an int, None if the value is not whole; accepts integers of numpy and torch."""
    try:
        return operator.index(value)
    except TypeError:  # also for an array with several elements
        pass
    try:
        return int(value) if float(value).is_integer() else None
    except (TypeError, ValueError, OverflowError):
        return None


def _by_name(dim: str, given: Mapping[Any, Any]) -> Iterable[int]:
    if len(given) != 1 or next(iter(given)) not in _FORMS:
        raise InvalidArgumentError(
            f"the dimension {dim!r} has the sizes {shown(dict(given))}; write one of "
            + ", ".join(f"{{{name!r}: […]}}" for name in _FORMS)
        )
    ((name, arguments),) = given.items()
    if isinstance(arguments, Mapping):
        return _make(dim, name, (), arguments)
    return _make(dim, name, arguments if isinstance(arguments, list | tuple) else [arguments], {})


def _make(
    dim: str, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Iterable[int]:
    try:
        return _FORMS[name](*arguments, **keywords)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"the dimension {dim!r}: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"the dimension {dim!r}: {name}: {error}; write {_FORMS_TEXT}"
        ) from error


def _read(dim: str, text: str) -> Iterable[Any]:
    """Read sizes from text, which may only have literals and calls of the forms."""
    mistake = f"the dimension {dim!r} has the sizes {shown(text)}"
    try:
        _, node = parse_expression(text)
        if not isinstance(node, ast.Call):
            value = ast.literal_eval(node)
            return value if isinstance(value, list | tuple) else [value]
        arguments = [ast.literal_eval(argument) for argument in node.args]
        keywords = {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}
        if not isinstance(node.func, ast.Name) or node.func.id not in _FORMS:
            raise ValueError("unknown form")
    except (ValueError, TypeError) as error:
        said = f": {error}" if isinstance(error, ExpressionError) else ""
        raise InvalidArgumentError(
            f"{mistake}{said}; write a number, several separated by commas, or {_FORMS_TEXT}"
        ) from error
    return _make(dim, node.func.id, arguments, keywords)


_KINDS = {
    "backend": ("pt", "compile", "compile-static", "ort"),
    "dtype": ("fp32", "fp16", "bf16", "fp64", "int8"),
    "phase": tuple(phase.value for phase in Phase),
}
_ALSO_CALLED = {name: dtype for dtype, name in TORCH_DTYPES.items()}
"""torch's names, which a spec may use too: torch.float16."""

_SEPARATORS = re.compile(r"(?:[\s,/]|[_-](?!static))+")
"""Separators between the words of a job config; compile-static is one word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """One way to run the model."""

    dtype: str = "fp32"
    backend: str = "pt"
    phase: Phase | None = None
    """None means the phases that were chosen for the whole sweep."""

    threads: int = 1


def configs_of(given: Any) -> tuple[JobConfig, ...]:
    """Return the configs of `job_configs`; errors say which entry is wrong.

    >>> [f"{config.backend} {config.dtype}" for config in configs_of(["fp16", "pt", "ort"])]
    ['pt fp16', 'ort fp16']
    """
    if isinstance(given, str | Mapping):
        given = [given]
    if not isinstance(given, Sequence) or not given:
        raise DefinitionError(
            f'job_configs is {given!r}; write a list such as ["pt fp32", "ort fp16"]'
        )
    entries = [_fields(entry) for entry in given]
    if all(len(fields) == 1 for fields in entries):  # each entry only has alternatives of one kind
        merged: _Fields = {}
        for fields in entries:
            for kind, values in fields.items():
                merged.setdefault(kind, []).extend(values)
        entries = [merged]
    configs = tuple(dict.fromkeys(config for fields in entries for config in _combine(fields)))
    if not configs:
        raise DefinitionError(f"job_configs is {shown(given)}, which has an empty list of values")
    return configs


_Fields = dict[str, list[Any]]
"""The values of each kind."""


def _fields(entry: Any) -> _Fields:
    if isinstance(entry, Mapping):
        return {kind: _values(kind, value, entry) for kind, value in entry.items()}
    if isinstance(entry, str):
        words: Sequence[Any] = _SEPARATORS.split(entry.strip())
    else:
        words = entry if isinstance(entry, Sequence) else [entry]
    fields: _Fields = {}
    for word in words:
        name = _called(word)
        kind = next((kind for kind, known in _KINDS.items() if name in known), None)
        if kind is None:
            of = "" if word == entry else f" of the job config {entry!r}"
            kinds = [f"a {kind} ({', '.join(known)})" for kind, known in _KINDS.items()]
            raise DefinitionError(f"{word!r}{of} is not {kinds[0]}, {kinds[1]} or {kinds[2]}")
        fields.setdefault(kind, []).append(name)
    return fields


def _values(kind: str, given: Any, entry: Mapping[str, Any]) -> list[Any]:
    several = list(given) if isinstance(given, list | tuple) else [given]
    if kind == "threads":
        for count in several:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise DefinitionError(
                    f"the job config {dict(entry)!r} has threads={count!r}; write 1 or more"
                )
        return several
    if kind not in _KINDS:
        raise DefinitionError(
            f"the job config {dict(entry)!r} has {kind!r}; it may have "
            + ", ".join([*_KINDS, "threads"])
        )
    names = [_called(word) for word in several]
    for name in names:
        if name not in _KINDS[kind]:
            raise DefinitionError(
                f"the job config {dict(entry)!r} has the {kind} {name!r}; "
                f"choose from {', '.join(_KINDS[kind])}"
            )
    return names


def _called(word: Any) -> str:
    if isinstance(word, Phase):
        return word.value
    name = str(word).removeprefix("torch.")
    return _ALSO_CALLED.get(name, name)


def _combine(fields: _Fields) -> list[JobConfig]:
    phases: list[Phase | None] = [Phase(name) for name in fields.get("phase", [])]
    return [
        JobConfig(dtype=dtype, backend=backend, phase=phase, threads=threads)
        for dtype, backend, phase, threads in itertools.product(
            *map(
                dict.fromkeys,  # removes duplicates before combining
                (
                    fields.get("dtype", ["fp32"]),
                    fields.get("backend", ["pt"]),
                    phases or [None],
                    fields.get("threads", [1]),
                ),
            )
        )
    ]

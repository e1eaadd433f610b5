"""Job configs: who runs the model, and with which elements.

They may be written one by one, as "ort fp16", ("ort", "fp16") or a dictionary, or loosely, as what
is to be combined: ["fp16", "fp32", "pt", "ort"] is four of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchmark.errors import DefinitionError
from torchmark.model.run_settings import TORCH_DTYPES, Phase

BACKENDS = ("pt", "compile", "ort")
DTYPES = ("fp32", "fp16", "bf16", "fp64", "int8")
PHASES = tuple(phase.value for phase in Phase)

_ALSO_CALLED = {name: dtype for dtype, name in TORCH_DTYPES.items()}
"""As torch calls them: a spec may say torch.float16."""

_KINDS = {"backend": BACKENDS, "dtype": DTYPES, "phase": PHASES}
_SEPARATORS = re.compile(r"[\s,/_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """One way to run the model."""

    backend: str = "pt"
    dtype: str = "fp32"
    phase: Phase | None = None
    """None runs the phases that the whole sweep is asked for."""

    threads: int = 1


def configs_of(given: Any) -> tuple[JobConfig, ...]:
    """What `job_configs` says; an error says which entry is wrong.

    >>> [f"{config.backend} {config.dtype}" for config in configs_of(["fp16", "pt", "ort"])]
    ['pt fp16', 'ort fp16']
    """
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, Sequence) or not given:
        raise DefinitionError(
            f'job_configs is {given!r}; write a list such as ["pt fp32", "ort fp16"]'
        )
    entries = [_fields(entry) for entry in given]
    axes = [_axis(fields) for fields in entries]
    if len(entries) > 1 and all(axis is not None for axis in axes):
        entries = [_merged(entries)]
    found = [config for fields in entries for config in _combined(fields)]
    return tuple(dict.fromkeys(found))


_Fields = dict[str, list[Any]]


def _fields(entry: Any) -> _Fields:
    """Values by what they are, each perhaps several."""
    if isinstance(entry, Mapping):
        return _fields_by_name(entry)
    if isinstance(entry, str):
        words = _SEPARATORS.split(entry.strip())
    elif isinstance(entry, Sequence):
        words = list(entry)
    else:
        words = [entry]
    fields: _Fields = {}
    for word in words:
        name = _called(word)
        kind = next((kind for kind, known in _KINDS.items() if name in known), None)
        if kind is None:
            raise DefinitionError(_unknown(word, entry))
        fields.setdefault(kind, []).append(name)
    return fields


def _fields_by_name(entry: Mapping[str, Any]) -> _Fields:
    fields: _Fields = {}
    for kind, value in entry.items():
        several = list(value) if isinstance(value, list | tuple) else [value]
        if kind == "threads":
            for count in several:
                if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                    raise DefinitionError(
                        f"the job config {dict(entry)!r} has threads={count!r}; write 1, 2, …"
                    )
            fields[kind] = several
            continue
        if kind not in _KINDS:
            raise DefinitionError(
                f"the job config {dict(entry)!r} has {kind!r}; it may have "
                + ", ".join([*_KINDS, "threads"])
            )
        fields[kind] = [_called(word) for word in several]
        for name in fields[kind]:
            if name not in _KINDS[kind]:
                raise DefinitionError(
                    f"the job config {dict(entry)!r} has the {kind} {name!r}; "
                    f"there are {', '.join(_KINDS[kind])}"
                )
    return fields


def _called(word: Any) -> str:
    if isinstance(word, Phase):
        return word.value
    name = str(word).removeprefix("torch.")
    return _ALSO_CALLED.get(name, name)


def _unknown(word: Any, entry: Any) -> str:
    of = "" if word == entry else f" of the job config {entry!r}"
    return (
        f"{word!r}{of} is no backend ({', '.join(BACKENDS)}), no dtype ({', '.join(DTYPES)}) "
        f"and no phase ({', '.join(PHASES)})"
    )


def _axis(fields: _Fields) -> str | None:
    """What an entry lists alternatives of, if it says nothing else."""
    return next(iter(fields)) if len(fields) == 1 else None


def _merged(entries: Sequence[_Fields]) -> _Fields:
    merged: _Fields = {}
    for fields in entries:
        for kind, values in fields.items():
            merged.setdefault(kind, []).extend(values)
    return merged


def _combined(fields: _Fields) -> list[JobConfig]:
    phases: list[Phase | None] = [Phase(name) for name in fields.get("phase", [])]
    return [
        JobConfig(backend=backend, dtype=dtype, phase=phase, threads=threads)
        for dtype, backend, phase, threads in itertools.product(
            fields.get("dtype", ["fp32"]),
            fields.get("backend", ["pt"]),
            phases or [None],
            fields.get("threads", [1]),
        )
    ]

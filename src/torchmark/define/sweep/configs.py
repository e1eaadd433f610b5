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

_KINDS = {
    "backend": ("pt", "compile", "ort"),
    "dtype": ("fp32", "fp16", "bf16", "fp64", "int8"),
    "phase": tuple(phase.value for phase in Phase),
}
_ALSO_CALLED = {name: dtype for dtype, name in TORCH_DTYPES.items()}
"""As torch calls them: a spec may say torch.float16."""

_SEPARATORS = re.compile(r"[\s,/_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """One way to run the model."""

    dtype: str = "fp32"
    backend: str = "pt"
    phase: Phase | None = None
    """None runs the phases that the whole sweep is asked for."""

    threads: int = 1


def configs_of(given: Any) -> tuple[JobConfig, ...]:
    """What `job_configs` says; an error says which entry is wrong.

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
    if all(len(fields) == 1 for fields in entries):  # each lists alternatives, and nothing else
        merged: _Fields = {}
        for fields in entries:
            for kind, values in fields.items():
                merged.setdefault(kind, []).extend(values)
        entries = [merged]
    return tuple(dict.fromkeys(config for fields in entries for config in _combine(fields)))


_Fields = dict[str, list[Any]]
"""Values by what they are, each perhaps several."""


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
            kinds = [f"no {kind} ({', '.join(known)})" for kind, known in _KINDS.items()]
            raise DefinitionError(f"{word!r}{of} is {kinds[0]}, {kinds[1]} and {kinds[2]}")
        fields.setdefault(kind, []).append(name)
    return fields


def _values(kind: str, given: Any, entry: Mapping[str, Any]) -> list[Any]:
    several = list(given) if isinstance(given, list | tuple) else [given]
    if kind == "threads":
        for count in several:
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise DefinitionError(
                    f"the job config {dict(entry)!r} has threads={count!r}; write 1, 2, …"
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
                f"there are {', '.join(_KINDS[kind])}"
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
            fields.get("dtype", ["fp32"]),
            fields.get("backend", ["pt"]),
            phases or [None],
            fields.get("threads", [1]),
        )
    ]

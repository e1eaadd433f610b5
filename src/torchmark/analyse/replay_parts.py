"""Divide the time of a step by phase, and by module; equal layers are one row.

Layers are equal if only their number differs: they have the same modules below, and make forward
calls of the same operators on tensors of the same shapes. `encoder.layer.0` to `encoder.layer.11`
are then one row, `encoder.layer.{0-11}`. A distinct call takes the same time in all of them, so
this loses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchmark.analyse.replay import CallRow, ReplayAnalysis
from torchmark.model.run_settings import CallPlace
from torchmark.model.trace import PHASES
from torchmark.model.units import collect

OUTSIDE = "outside of all modules"

_TENSOR = re.compile(r"\w+\[[^\]]*\]")
"""A tensor in the signature of a call: its dtype and shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """A phase, or a module with all modules inside it."""

    name: str
    """The phase, or the path of the module; "" for the whole model."""

    label: str
    """The part of the path that the row above does not have."""

    depth: int
    """Number of rows that contain it."""

    modules: int
    """Number of equal modules in this row."""

    count: int
    share: float


@dataclass(slots=True)
class _Module:
    """A module, or several equal ones, with the modules below."""

    modules: int = 1
    count: int = 0
    share: float = 0.0
    """Its own share, like `count` without the modules below."""

    forward: set[Any] = field(default_factory=set)
    """Its own calls in the forward pass: operators and their tensors."""

    other: set[Any] = field(default_factory=set)
    """Its own calls in other phases."""

    below: dict[str, _Module] = field(default_factory=dict)

    def at(self, path: Iterable[str]) -> _Module:
        module = self
        for name in path:
            module = module.below.setdefault(name, _Module())
        return module

    def layer_key(self) -> Any:
        """What equal layers have in common."""
        below = frozenset((name, module.layer_key()) for name, module in self.below.items())
        return frozenset(self.forward or self.other), below

    def totals(self) -> tuple[int, float]:
        below = [module.totals() for module in self.below.values()]
        return self.count + sum(c for c, _ in below), self.share + sum(s for _, s in below)


def split_by_phase(analysis: ReplayAnalysis) -> list[PartRow]:
    """The phases that occur, in the order of a step."""
    found = collect((place.phase, (place.count, share)) for _, place, share in _places(analysis))
    return [_row(phase, found[phase]) for phase in PHASES if phase in found]


def split_by_module(analysis: ReplayAnalysis) -> list[PartRow]:
    """Each module below the one that contains it; the share of a module includes its parts."""
    top, outside = _Module(), []
    for row, place, share in _places(analysis):
        if place.module is None:
            outside.append((place.count, share))
            continue
        module = top.at(place.module.split(".") if place.module else [])
        module.count += place.count
        module.share += share
        called = module.forward if place.phase == "forward" else module.other
        called.add((row.call.op, tuple(_TENSOR.findall(row.call.signature))))
    if not top.count and not top.below:
        return []
    return [*_rows(top, (), 0, 0), *([_row(OUTSIDE, outside)] if outside else [])]


def _rows(module: _Module, path: tuple[str, ...], known: int, depth: int) -> Iterator[PartRow]:
    """The row of a module and the rows below; the row above shows `known` names of its path."""
    folded = _fold(module.below)
    if path and len(folded) == 1 and not module.count:
        ((name, only),) = folded.items()  # its row would equal the one below it
        yield from _rows(only, (*path, name), known, depth)
        return
    count, share = module.totals()
    yield PartRow(
        name=".".join(path),
        label=".".join(path[known:]),
        depth=depth,
        modules=module.modules,
        count=count,
        share=share,
    )
    for name, each in sorted(folded.items(), key=lambda item: -item[1].totals()[1]):
        yield from _rows(each, (*path, name), len(path), depth + 1)


def _fold(modules: dict[str, _Module]) -> dict[str, _Module]:
    """Merge equal layers, with names such as `{0-11}`."""
    in_order = sorted(modules, key=_number)
    alike = collect(
        ((modules[name].layer_key() if name.isdecimal() else name), name) for name in in_order
    )
    return {_name_of(names): _merge([modules[name] for name in names]) for names in alike.values()}


def _merge(modules: Sequence[_Module]) -> _Module:
    if len(modules) == 1:
        return modules[0]
    below = collect((name, each) for module in modules for name, each in module.below.items())
    return _Module(
        modules=sum(module.modules for module in modules),
        count=sum(module.count for module in modules),
        share=sum(module.share for module in modules),
        forward=modules[0].forward,
        below={name: _merge(each) for name, each in below.items()},
    )


def _name_of(names: Sequence[str]) -> str:
    """
    >>> _name_of(["query"]), _name_of(["3"]), _name_of(["0", "1", "2", "5"])
    ('query', '3', '{0-2,5}')
    """
    if len(names) == 1:
        return names[0]
    runs: list[list[int]] = []
    for number in map(int, names):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = (f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"{{{','.join(shown)}}}"


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else 0


def _row(name: str, parts: Sequence[tuple[int, float]]) -> PartRow:
    return PartRow(
        name=name,
        label=name,
        depth=0,
        modules=1,
        count=sum(count for count, _ in parts),
        share=sum(share for _, share in parts),
    )


def _places(analysis: ReplayAnalysis) -> Iterator[tuple[CallRow, CallPlace, float]]:
    """A call takes the same time in all places, so its share is divided like its count."""
    for row in analysis.calls:
        for place in row.call.places:
            yield row, place, (row.share or 0.0) * place.count / row.call.count

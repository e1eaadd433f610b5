"""Folded stacks, a line for each: `main;outer;inner 284`. py-spy and others write them so.

A file may come from anywhere, so a name is data: it may have spaces, quotes and markup in it. Only
`;` and line breaks cannot be part of one, because they part frames and stacks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from torchmark.errors import StacksFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_DIGITS = 18
"""Of a weight; a larger number is no weight but damage, and slow to read."""

_SEPARATORS = str.maketrans({";": ",", "\n": " ", "\r": " "})


class Stack(NamedTuple):
    frames: tuple[str, ...]
    """Names, the outermost first."""

    weight: int
    """Samples in which this was the whole stack, or instructions of its last frame."""


def parsed(text: str, source: str = "the folded stacks") -> list[Stack]:
    """The stacks in the order of their lines; `source` names them where a line is damaged.

    >>> parsed("main;f (a.py:3) 12")
    [Stack(frames=('main', 'f (a.py:3)'), weight=12)]
    """
    names: dict[str, str] = {}  # each name once in memory, which also makes comparing them fast
    stacks = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            frames, weight = _read(line, f"{source}, line {number}")
            stacks.append(Stack(tuple(names.setdefault(name, name) for name in frames), weight))
    return stacks


def folded(stacks: Iterable[Stack]) -> str:
    r"""A line for each different stack, sorted; separators in names are replaced.

    >>> folded([Stack(("main", "g"), 1), Stack(("main", "f"), 2), Stack(("main", "g"), 3)])
    'main;f 2\nmain;g 4\n'
    """
    lines: dict[str, int] = defaultdict(int)
    for frames, weight in stacks:
        lines[";".join(name.translate(_SEPARATORS) for name in frames)] += weight
    return "".join(f"{line} {weight}\n" for line, weight in sorted(lines.items()))


def merged(stacks: Iterable[Stack]) -> dict[tuple[str, ...], int]:
    """The weight of each different stack."""
    weights: dict[tuple[str, ...], int] = defaultdict(int)
    for frames, weight in stacks:
        weights[frames] += weight
    return weights


def frames_in_common(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """How many, from the outermost on."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _read(line: str, place: str) -> tuple[list[str], int]:
    text, space, weight = line.rstrip("\r").rpartition(" ")
    if not (space and weight.isascii() and weight.isdigit()):
        raise StacksFileError(
            f"{place}: {_shown(weight or line)} is no number of samples; "
            "a line is frames with ';' between them, a space and a whole number"
        )
    if len(weight) > _MOST_DIGITS:
        raise StacksFileError(f"{place}: a weight of {len(weight)} digits cannot be right")
    frames = text.split(";")
    if not all(frames):
        raise StacksFileError(f"{place}: frame {frames.index('') + 1} has no name")
    return frames, int(weight)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")

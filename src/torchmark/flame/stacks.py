"""Stacks with their weights: text formats, names of frames, and trees of frames.

Folded text has a line for each stack: `main;outer;inner 284`. py-spy and others write it. A file
may come from anywhere, so a name may contain spaces, quotes and markup. Only `;` and line breaks
cannot be part of a name, because they separate frames and stacks.

Some names change from one recording to the next: they contain an address, or a line of a file that
was edited. Two recordings would have nothing in common below such a frame. So code that recorders
can name only by its address is named by its library. Where two recordings are compared, a Python
function is named by its file, without the line.

A tree is built from sorted stacks, so the children of a frame are sorted by name. Nothing here is
recursive, because a recorded stack may be deeper than Python's own.
"""

from __future__ import annotations

import json
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from torchmark.errors import StacksFileError

ROOT = "all"
"""The name of the frame that holds every stack."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"

NAMELESS = "[code without a name]"
"""The name of code that is in no library either, such as code that is compiled at run time."""

_MOST_DIGITS = 18
"""Digits of a weight. A larger number is damage, and slow to read."""

_SEPARATORS = str.maketrans({";": ",", "\n": " ", "\r": " "})

# py-spy writes `0x7fd5 (libc.so.6)`; callgrind's are `0x7fd5 [libc.so.6]`, and `'2` if it recurs.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+(?:'\d+)?(?: [(\[](?P<library>.*)[)\]])?")
_PYTHON_PLACE = re.compile(r"\((?:[^()]*\.py(?::\d+)?|<[^()]*>(?::\d+)?)\)$")
_LINE = re.compile(r":\d+\)$")


class Stack(NamedTuple):
    frames: tuple[str, ...]
    """Names, the outermost first."""

    weight: int
    """Samples with exactly this stack, or instructions of its last frame."""


def parse_stacks(text: str, source: str = "the folded stacks") -> list[Stack]:
    """The stacks in the order of their lines; `source` is the name of the text in errors.

    >>> parse_stacks("main;f (a.py:3) 12")
    [Stack(frames=('main', 'f (a.py:3)'), weight=12)]
    """
    names: dict[str, str] = {}  # each name once in memory, which also makes comparing them fast
    stacks = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            frames, weight = _parse_line(line, f"{source}, line {number}")
            stacks.append(Stack(tuple(names.setdefault(name, name) for name in frames), weight))
    return stacks


def _parse_line(line: str, place: str) -> tuple[list[str], int]:
    text, space, weight = line.rstrip("\r").rpartition(" ")
    if not (space and weight.isascii() and weight.isdigit()):
        raise StacksFileError(
            f"{place}: {_shorten(weight or line)} is not a number of samples; "
            "a line has frames separated by ';', a space and a whole number"
        )
    if len(weight) > _MOST_DIGITS:
        raise StacksFileError(f"{place}: a weight of {len(weight)} digits cannot be right")
    frames = text.split(";")
    if not all(frames):
        raise StacksFileError(f"{place}: frame {frames.index('') + 1} has no name")
    return frames, int(weight)


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def fold_stacks(stacks: Iterable[Stack]) -> str:
    r"""One line for each distinct stack, sorted. Separators in names are replaced.

    >>> fold_stacks([Stack(("main", "g"), 1), Stack(("main", "f"), 2), Stack(("main", "g"), 3)])
    'main;f 2\nmain;g 4\n'
    """
    merged = merge_stacks(rename_frames(stacks, lambda name: name.translate(_SEPARATORS)))
    lines = {";".join(frames): weight for frames, weight in merged.items()}
    return "".join(f"{line} {weight}\n" for line, weight in sorted(lines.items()))


def merge_stacks(stacks: Iterable[Stack]) -> dict[tuple[str, ...], int]:
    """The weight of each different stack."""
    weights: dict[tuple[str, ...], int] = defaultdict(int)
    for frames, weight in stacks:
        weights[frames] += weight
    return weights


def render_speedscope(
    stacks: Iterable[Stack], *, name: str, files: Mapping[str, str] | None = None
) -> str:
    """JSON text for https://www.speedscope.app: a "sampled" profile, one sample for each stack.

    `name` is the title that speedscope shows; `files` says where frames are defined. speedscope's
    own units are for time and bytes, so the weights have the unit "none".
    """
    weights = sorted(merge_stacks(stacks).items())
    names = dict.fromkeys(frame for frames, _ in weights for frame in frames)
    places = {frame: place for place, frame in enumerate(names)}
    known = files or {}
    sampled = {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(weight for _, weight in weights),
        "samples": [[places[frame] for frame in frames] for frames, _ in weights],
        "weights": [weight for _, weight in weights],
    }
    return json.dumps(
        {
            "$schema": SPEEDSCOPE_SCHEMA,
            "exporter": "torchmark",
            "name": name,
            "activeProfileIndex": 0,
            "shared": {
                "frames": [
                    {"name": frame, "file": known[frame]} if frame in known else {"name": frame}
                    for frame in names
                ]
            },
            "profiles": [sampled],
        }
    )


def count_common_frames(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The number of frames that both stacks have in common, from the outermost on."""
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def rename_frames(stacks: Iterable[Stack], rename: Callable[[str], str]) -> Iterator[Stack]:
    """The stacks, with every name changed by `rename`."""
    rename_once = cache(rename)
    for frames, weight in stacks:
        yield Stack(tuple(map(rename_once, frames)), weight)


def comparable_name(name: str) -> str:
    """A name for the frame that is the same in every recording."""
    return without_line(without_address(name))


def without_address(name: str) -> str:
    """
    >>> without_address("0x7fd51a44524a (libc.so.6)"), without_address("0x12'2 [???]")
    ('[libc.so.6]', '[code without a name]')
    >>> without_address("0x_a_name")
    '0x_a_name'
    """
    found = _ADDRESS.fullmatch(name)
    if found is None:
        return name
    library = found["library"]
    return NAMELESS if library in (None, "", "?", "???") else f"[{library}]"


def without_line(name: str) -> str:
    """
    >>> without_line("forward (model.py:12)"), without_line("at::add (BinaryOps.cpp:99)")
    ('forward (model.py)', 'at::add (BinaryOps.cpp:99)')
    """
    return _LINE.sub(")", name) if is_python(name) else name


def is_python(name: str) -> bool:
    """Whether py-spy names a frame of Python: a function with the place of its source.

    >>> is_python("forward (model.py:12)"), is_python("add (libtorch_cpu.so)"), is_python("main")
    (True, False, False)
    >>> is_python("<module> (<string>:1)"), is_python("at::add (BinaryOps.cpp:99)")
    (True, False)
    >>> is_python("at::empty(std::optional<bool>)")
    False
    """
    return _PYTHON_PLACE.search(name) is not None


class Weights(NamedTuple):
    """Weights on both sides of a comparison. A single recording has only a branch."""

    base: int = 0
    branch: int = 0

    change: float = 0.0
    """Growth as a share of the total; negative for shrinkage."""

    room: float = 0.0
    """The width in a picture that shows both sides: for each stack the larger of its two shares of
    the total, added up."""

    def plus(self, other: Weights) -> Weights:
        return Weights(*map(operator.add, self, other))


_NO_WEIGHTS = Weights()


@dataclass(slots=True)
class Frame:
    """All stacks that begin with the same frames, down to this one."""

    name: str

    own: Weights = _NO_WEIGHTS
    """Weights of the stack that ends here."""

    total: Weights = _NO_WEIGHTS
    """Weights of all stacks that contain this frame."""

    children: list[Frame] = field(default_factory=list)
    """The frames that it called, by name."""


def build_tree(stacks: Iterable[Stack]) -> Frame:
    """The frame that holds all stacks.

    >>> (main,) = build_tree([Stack(("main", "f"), 2), Stack(("main",), 1)]).children
    >>> main.own.branch, main.total.branch, [child.name for child in main.children]
    (1, 3, ['f'])
    """
    return build_difference([], stacks, normalise=False)


def build_difference(base: Iterable[Stack], branch: Iterable[Stack], *, normalise: bool) -> Frame:
    """The frame that holds the stacks of both sides, with the weights on either side.

    With `normalise`, shares are compared. That is right for samples, since a longer recording has
    more of them. Without it, weights are compared. That is right for instructions per run, where a
    larger total is part of the difference.
    """
    before, after = merge_stacks(base), merge_stacks(branch)
    base_total, branch_total = sum(before.values()), sum(after.values())
    if not normalise:
        base_total = branch_total = max(base_total, branch_total)
    root = Frame(ROOT)
    path = [root]
    previous: tuple[str, ...] = ()
    for frames in sorted({*before, *after}):
        shared = count_common_frames(previous, frames)  # they are in the tree already
        _close(path, shared + 1)
        for name in frames[shared:]:
            path[-1].children.append(Frame(name))
            path.append(path[-1].children[-1])
        old, new = before.get(frames, 0), after.get(frames, 0)
        old_share, new_share = old / (base_total or 1), new / (branch_total or 1)
        weights = Weights(old, new, new_share - old_share, max(old_share, new_share))
        path[-1].own = path[-1].total = weights
        previous = frames
    _close(path, 1)
    return root


def _close(path: list[Frame], length: int) -> None:
    """Add the weights of frames that no later stack contains to those of the frames above."""
    while len(path) > length:
        closed = path.pop()
        path[-1].total = path[-1].total.plus(closed.total)

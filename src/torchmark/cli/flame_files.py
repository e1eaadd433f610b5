"""What `torchmark flame` writes, by the ending of the file's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.errors import InvalidArgumentError
from torchmark.flame.png import png_of
from torchmark.flame.speedscope import speedscope
from torchmark.flame.stacks import folded
from torchmark.flame.svg import difference_svg, flame_svg

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torchmark.flame.stacks import Stack

_PICTURES = (".svg", ".png")
_TEXTS = (".folded", ".txt", ".json")
ENDINGS = (*_PICTURES, *_TEXTS)


def check_ending(file: Path, *, is_difference: bool) -> None:
    """Whether it is one that we write is known before the work."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise InvalidArgumentError(
            f"{file}: the ending decides the format: .svg and .png are pictures, .folded and .txt "
            "folded stacks, .json is for speedscope"
        )
    if is_difference and ending not in _PICTURES:
        raise InvalidArgumentError(
            f"{file}: a difference is a picture, .svg or .png; write the stacks of each with a "
            "call of its own"
        )


def flame_file(file: Path, stacks: Sequence[Stack], *, title: str, unit: str, note: str) -> bytes:
    """The content of the file for the stacks of one statement."""
    ending = file.suffix.lower()
    if ending == ".json":
        return speedscope(stacks, name=title, unit=unit).encode()
    if ending in _TEXTS:
        return folded(stacks).encode()
    return _picture(ending, flame_svg(stacks, title=title, unit=unit, note=note))


def difference_file(
    file: Path,
    base: Sequence[Stack],
    branch: Sequence[Stack],
    *,
    title: str,
    unit: str,
    note: str,
) -> bytes:
    """The content of the file for what the branch has more, or less, than the base."""
    svg = difference_svg(base, branch, title=title, unit=unit, note=note, normalise=False)
    return _picture(file.suffix.lower(), svg)


def _picture(ending: str, svg: str) -> bytes:
    return png_of(svg) if ending == ".png" else svg.encode()

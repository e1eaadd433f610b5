"""Colours of frames: by name in a flame graph, by change in a difference.

A colour says the same in every picture: that of a name is drawn from the name alone, and that of a
change from its share of the whole.
"""

from __future__ import annotations

import colorsys
import math
import zlib
from functools import lru_cache

from torchmark.flame.names import is_python, without_line
from torchmark.flame.tree import ROOT

PYTHON_KEY = "#7fc4ae"
"""In the legend, for what frames of Python look like."""

NATIVE_KEY = "#efb27c"

_ALL = "#d8dee4"
"""The frame that holds all others is nobody's code."""

_FULL_CHANGE = 0.10
"""A tenth of the whole has the full colour. The scale is that of the square root, so a hundredth,
which matters in a dispatch, has a third of it."""

_LEAST_CHANGE = 0.0005
"""Of the whole; less is the colour of no change."""

_SAME, _GREW, _SHRANK = (0xEC, 0xEC, 0xEA), (0xE0, 0x45, 0x3A), (0x3B, 0x7D, 0xD8)


@lru_cache(maxsize=10_000)
def name_colour(name: str) -> str:
    """Sand and terracotta for native code, sea green for Python; a line number changes nothing."""
    if name == ROOT:
        return _ALL
    seed = zlib.crc32(without_line(name).encode("utf-8", "surrogatepass"))
    first, second = (seed & 0xFFFF) / 0xFFFF, (seed >> 16) / 0xFFFF
    if is_python(name):
        return _hex(colorsys.hls_to_rgb((150 + 26 * first) / 360, 0.60 + 0.14 * second, 0.38))
    return _hex(colorsys.hls_to_rgb((14 + 30 * first) / 360, 0.66 + 0.12 * second, 0.74))


def change_colour(change: float) -> str:
    """Red for what grew, blue for what shrank, the stronger the more; grey-white for neither.

    >>> change_colour(0), change_colour(0.2), change_colour(-0.2)
    ('#ececea', '#e0453a', '#3b7dd8')
    """
    if abs(change) < _LEAST_CHANGE:
        return _hex_of(_SAME)
    strength = math.sqrt(min(1.0, abs(change) / _FULL_CHANGE))
    end = _GREW if change > 0 else _SHRANK
    mixed = (same + (full - same) * strength for same, full in zip(_SAME, end, strict=True))
    return _hex_of(tuple(round(part) for part in mixed))


def _hex(colour: tuple[float, float, float]) -> str:
    return _hex_of(tuple(round(255 * part) for part in colour))


def _hex_of(colour: tuple[int, ...]) -> str:
    return "#" + "".join(f"{part:02x}" for part in colour)

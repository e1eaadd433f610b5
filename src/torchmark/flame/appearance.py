"""Colours of frames, and how much of their names fits.

A colour has the same meaning in every picture. The colour of a name is computed from the name
alone, and the colour of a change from its share of the total. The width of text is estimated
without a font, for a wide one, so texts do not overlap. `flame.js` makes the same estimate after a
zoom.
"""

from __future__ import annotations

import colorsys
import math
import re
import zlib
from functools import lru_cache

from torchmark.flame.stacks import ROOT, is_python, without_line

PYTHON_KEY = "#7fc4ae"
"""The colour of Python frames in the legend."""

NATIVE_KEY = "#efb27c"

_ALL = "#d8dee4"
"""The colour of the frame that holds all others."""

_FULL_CHANGE = 0.10
"""A tenth of the total has the full colour. The scale is that of the square root, so a hundredth,
which matters for dispatch, has a third of the colour."""

_LEAST_CHANGE = 0.0005
"""Share of the total. A smaller change has the colour of no change."""

_SAME, _GREW, _SHRANK = (0xEC, 0xEC, 0xEA), (0xE0, 0x45, 0x3A), (0x3B, 0x7D, 0xD8)


@lru_cache(maxsize=10_000)
def name_colour(name: str) -> str:
    """Sand and terracotta for native code, sea green for Python, whatever the line number."""
    if name == ROOT:
        return _ALL
    seed = zlib.crc32(without_line(name).encode("utf-8", "surrogatepass"))
    first, second = (seed & 0xFFFF) / 0xFFFF, (seed >> 16) / 0xFFFF
    if is_python(name):
        return _hex(colorsys.hls_to_rgb((150 + 26 * first) / 360, 0.60 + 0.14 * second, 0.38))
    return _hex(colorsys.hls_to_rgb((14 + 30 * first) / 360, 0.66 + 0.12 * second, 0.74))


def change_colour(change: float) -> str:
    """Red for growth, blue for shrinkage, stronger for larger changes; grey-white for no change.

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


_NARROW = frozenset(" !'(),-./:;IJ[]\\fijlrt|")
_WIDE = frozenset("#%&+<=>@MW^mw~")
_ARGUMENTS = re.compile(r"(?<=.)\s*[(<].*")


def make_printable(text: str) -> str:
    r"""The text on one line. Each character that would harm the picture becomes a replacement mark:
    characters that XML does not allow, or that reverse the text after them.

    >>> make_printable("a\x00b\n")
    'a\ufffdb\ufffd'
    """
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def width_of(text: str, size: float) -> float:
    """The width in pixels at this font size. DejaVu Sans, a wide font, needs a little less."""
    return size * sum(map(_ems, text))


def fit_text(text: str, width: float, size: float) -> str:
    """The text if it fits, or its beginning with an ellipsis; empty if too little fits.

    >>> fit_text("at::add", 200, 12), fit_text("at::add", 14, 12)
    ('at::add', '')
    >>> fit_text("torch::autograd", 60, 12)
    'torch::…'
    """
    room = width / size
    at_mark = 0  # how many characters fit together with the ellipsis
    for count, character in enumerate(text):
        room -= _ems(character)
        if room < 0:
            return f"{text[:at_mark]}…" if at_mark > 1 else ""
        if room >= 1:
            at_mark = count + 1
    return text


def fit_label(name: str, width: float, size: float) -> str:
    """As much of a frame's name as fits: all of it, without arguments, or the function only.

    >>> name = "at::native::add(at::Tensor const&)"
    >>> fit_label(name, 300, 12), fit_label(name, 130, 12), fit_label(name, 60, 12)
    ('at::native::add(at::Tensor const&)', 'at::native::add', 'add')
    >>> fit_label("forward (model.py:12)", 80, 12)
    'forward'
    """
    if width < 2 * size:  # less than two letters and the ellipsis
        return ""
    bare = _ARGUMENTS.sub("", name.replace("(anonymous namespace)::", ""))
    function = bare.rpartition("::")[2] or bare
    for text in (name, bare, function):
        if width_of(text, size) <= width:
            return text
    return fit_text(function, width, size)


def wrap_text(text: str, width: float, size: float, lines: int) -> list[str]:
    """The text in at most `lines` lines, broken between words; a line that is too long is cut."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".lstrip()
        if not found[-1] or len(found) == lines or width_of(longer, size) <= width:
            found[-1] = longer
        else:
            found.append(word)
    return [fit_text(line, width, size) for line in found if line]


def _ems(character: str) -> float:
    if character in _NARROW:
        return 0.41
    if character in _WIDE or not character.isascii():
        return 1.0
    return 0.8 if character.isupper() else 0.64

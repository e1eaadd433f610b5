"""How much text fits, without a font at hand: estimated for a wide one, so that nothing overlaps.

`flame.js` estimates in the same way where a picture is zoomed.
"""

from __future__ import annotations

import re

_NARROW = frozenset(" !'(),-./:;IJ[]\\fijlrt|")
_WIDE = frozenset("#%&+<=>@MW^mw~")
_ARGUMENTS = re.compile(r"(?<=.)\s*[(<].*")
# Not of XML, or of no width and hostile: text that turns the direction of what follows it.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""On one line, with a mark for each character that would harm the picture.

    >>> printable("a\x00b\n")
    'a\ufffdb\ufffd'
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def width_of(text: str, size: float) -> float:
    """Pixels at that size of type: a little more than DejaVu Sans needs, which is a wide font."""
    return size * sum(map(_ems, text))


def fitted(text: str, width: float, size: float) -> str:
    """The text if it fits, or its beginning with a mark; empty where nothing worth reading fits.

    >>> fitted("at::add", 200, 12), fitted("torch::autograd", 60, 12), fitted("at::add", 14, 12)
    ('at::add', 'torch::…', '')
    """
    room = width / size
    at_mark = 0  # how many characters fit together with the mark
    for count, character in enumerate(text):
        room -= _ems(character)
        if room < 0:
            return f"{text[:at_mark]}…" if at_mark > 1 else ""
        if room >= 1:
            at_mark = count + 1
    return text


def labelled(name: str, width: float, size: float) -> str:
    """As much of a frame's name as fits: whole, without arguments, or the function's alone.

    >>> name = "at::native::add(at::Tensor const&)"
    >>> labelled(name, 300, 12), labelled(name, 130, 12), labelled(name, 60, 12)
    ('at::native::add(at::Tensor const&)', 'at::native::add', 'add')
    >>> labelled("forward (model.py:12)", 80, 12)
    'forward'
    """
    if width < 2 * size:  # not even two letters and the mark
        return ""
    bare = _ARGUMENTS.sub("", name.replace("(anonymous namespace)::", ""))
    function = bare.rpartition("::")[2] or bare
    for text in (name, bare, function):
        if width_of(text, size) <= width:
            return text
    return fitted(function, width, size)


def wrapped(text: str, width: float, size: float, lines: int) -> list[str]:
    """The text on so many lines at most, broken between words; what is too long for it is cut."""
    found = [""]
    for word in text.split():
        longer = f"{found[-1]} {word}".lstrip()
        if not found[-1] or len(found) == lines or width_of(longer, size) <= width:
            found[-1] = longer
        else:
            found.append(word)
    return [fitted(line, width, size) for line in found if line]


def _ems(character: str) -> float:
    if character in _NARROW:
        return 0.41
    if character in _WIDE or not character.isascii():
        return 1.0
    return 0.8 if character.isupper() else 0.64

"""Make text safe to show in a terminal, a table or a page."""

from __future__ import annotations

import re

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u2028\u2029\u202a-\u202e\u2066-\u2069"  # line separators and text direction
    r"\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""The text without escape sequences and control characters.

    >>> printable("\x1b[31mred\x1b[0m\r\n")
    'red\n'
    """
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return text  # nearly all texts, and whole pages, in a tenth of the time
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def printable_json(text: str) -> str:
    r"""The same JSON, with the characters that `printable` removes as escapes.

    >>> printable_json('["\x9b2J"]')
    '["\\u009b2J"]'
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

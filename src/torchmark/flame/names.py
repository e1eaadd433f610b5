"""What in a frame's name is not the same the next time: addresses, and lines of a changed file.

Two recordings would agree in nothing below such a frame. So code that recorders can name by its
address alone is called after its library; and where two recordings are compared, a function in
Python by its file and not by the line that ran.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from torchmark.flame.stacks import Stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NAMELESS = "[code without a name]"
"""Of no library either, such as what is compiled while it runs."""

# py-spy writes `0x7fd5 (libc.so.6)`; callgrind's are `0x7fd5 [libc.so.6]`, and `'2` if it recurs.
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+(?:'\d+)?(?: [(\[](?P<library>.*)[)\]])?")
_PYTHON_PLACE = re.compile(r"\((?:[^()]*\.py(?::\d+)?|<[^()]*>(?::\d+)?)\)$")
_LINE = re.compile(r":\d+\)$")


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


def without_line(name: str) -> str:
    """
    >>> without_line("forward (model.py:12)"), without_line("at::add (BinaryOps.cpp:99)")
    ('forward (model.py)', 'at::add (BinaryOps.cpp:99)')
    """
    return _LINE.sub(")", name) if is_python(name) else name


def renamed(stacks: Iterable[Stack], rename: Callable[[str], str]) -> Iterator[Stack]:
    """The stacks with every name as `rename` has it."""
    rename_once = cache(rename)
    for frames, weight in stacks:
        yield Stack(tuple(map(rename_once, frames)), weight)


def comparable(name: str) -> str:
    """The name that a frame has in every recording."""
    return without_line(without_address(name))

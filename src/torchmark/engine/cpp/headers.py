"""The smallest of torch's headers that compiles a statement, and its precompiled form.

Measured with torch 2.13 and g++ 12, in seconds of CPU for one statement: `torch/types.h` 15,
`torch/torch.h` 34. Precompiling takes twice as long as compiling once (29 and 53) and half a
gigabyte; from then on a statement takes 4.3 and 12. So a header is precompiled when a second
single statement asks for it: whoever times one statement waits no longer, and from the fourth on
everybody is better off. A batch (forty: 15.5, or 6.3 with the precompiled header) uses what is
there, and never waits for one.
"""

from __future__ import annotations

import enum
import hashlib
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchmark.engine.cpp.source import PRELUDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from torchmark.engine.cpp.cache import Cache
    from torchmark.engine.cpp.compiler import Toolchain
    from torchmark.engine.cpp.diagnostics import Problem
    from torchmark.engine.cpp.source import CppStatement

_NAME = "prelude.h"


class Header(enum.IntEnum):
    """What a unit includes; each holds all that the one before it has."""

    TYPES = 0
    SCRIPT = 1
    TORCH = 2
    PYTHON = 3

    @property
    def includes(self) -> tuple[str, ...]:
        return _INCLUDES[self]

    def prelude(self) -> str:
        """The text of the header that the unit starts with."""
        return "".join(f"#include <{name}>\n" for name in self.includes) + PRELUDE


_INCLUDES = {
    Header.TYPES: ("torch/types.h",),
    Header.SCRIPT: ("torch/script.h",),
    Header.TORCH: ("torch/torch.h", "torch/script.h"),
    Header.PYTHON: ("torch/extension.h", "torch/script.h"),
}

_NEEDED_BY = {
    Header.PYTHON: re.compile(r"\b(?:py|pybind11)::|\bPy[A-Z]\w*|\bTHP\w+"),
    Header.TORCH: re.compile(
        r"\b(?:nn|optim|data|serialize|special|sparse|nested)::|"
        r"\btorch::(?:save|load|manual_seed|cuda|mps|xpu|print|fft)\b"
    ),
    Header.SCRIPT: re.compile(r"\bjit::|\bautograd::|\btorch::(?:class_|NoGradGuard)|\bgrad\("),
}

_MISSING = re.compile(
    r"(\w+)\W is not a member of .(?:torch|at|c10)\b|"
    r"\b(?:torch|at|c10)::(?:\w+::)*(\w+)\W has not been declared|"
    r"no (?:member|type) named .(\w+). in namespace .(?:torch|at|c10)\b|"
    r"incomplete type .*?\b(?:torch|at|c10)::(?:\w+::)*(\w+)"
)
"""What compilers say of a name in torch's namespaces that they do not know; with that name."""


def header_for(statement: CppStatement) -> Header:
    """The smallest header that may do, judged by the names in the text."""
    text = "\n".join(statement)
    for header, names in _NEEDED_BY.items():
        if names.search(text):
            return header
    return Header.TYPES


def larger_header(
    header: Header, problems: Iterable[Problem], folders: Iterable[Path]
) -> Header | None:
    """The header to try next, if the errors miss a name that torch has in these folders.

    A name that is misspelt is in none of them, and no header will help.
    """
    if header >= Header.TORCH:
        return None
    found = [_MISSING.search(problem.message) for problem in problems]
    names = {name for match in found if match is not None for name in match.groups() if name}
    return Header.TORCH if names and _is_any_declared(names, folders) else None


def _is_any_declared(names: Iterable[str], folders: Iterable[Path]) -> bool:
    word = re.compile(rb"\b(?:" + "|".join(map(re.escape, names)).encode() + rb")\b")
    headers = (path for folder in folders for path in folder.rglob("*.h"))
    return any(word.search(path.read_bytes()) for path in headers)


@contextmanager
def prelude_of(
    header: Header, toolchain: Toolchain, cache: Cache, workspace: Path, *, precompile: bool | None
) -> Iterator[Path]:
    """The path of the header to include first, precompiled if that exists or is worth its time.

    `precompile`: True makes it now, False only uses what is there, None makes it for the second
    who asks so.
    """
    key = hashlib.sha256(f"{toolchain.key}\n{header.prelude()}".encode()).hexdigest()[:32]
    if precompile or (precompile is None and cache.asked_before(key)):
        _precompile(header, key, toolchain, cache, workspace)
    with cache.header_in_use(key, f"{_NAME}.gch") as compiled:
        if compiled is not None:
            yield compiled.with_name(_NAME)
        else:
            plain = workspace / _NAME
            plain.write_text(header.prelude())
            yield plain


def _precompile(
    header: Header, key: str, toolchain: Toolchain, cache: Cache, workspace: Path
) -> None:
    with cache.lock("header", key):
        if cache.has_header(key, f"{_NAME}.gch"):
            return
        folder = workspace / "header"
        folder.mkdir()
        (folder / _NAME).write_text(header.prelude())
        # Where it cannot be made (a full disk), the statement compiles without it.
        if toolchain.precompile(folder / _NAME, folder / f"{_NAME}.gch"):
            cache.keep_header(key, [folder / _NAME, folder / f"{_NAME}.gch"])

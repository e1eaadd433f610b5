"""C++ statements in torchmark's own code around them, without torch: compiled in a second."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from torchmark.engine.cpp.source import CppStatement, render, support
from torchmark_probe.zygote.messages import NativeCase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEADERS = {
    "c10/util/Exception.h": """
        #include <exception>
        namespace c10 {
        struct Error : std::exception { const char* what_without_backtrace() const { return ""; } };
        }""",
    "ATen/ThreadLocalState.h": """
        namespace at {
        struct ThreadLocalState { static void setThreadLocalState(const ThreadLocalState&) {} };
        }""",
}
"""What torchmark uses of torch."""


def compile_light(directory: Path, statements: Sequence[CppStatement]) -> list[NativeCase]:
    """All of them in one library."""
    library = compile_unit(directory, render(dict(enumerate(statements))))
    return [NativeCase(str(library), f"torchmark_run_{k}") for k in range(len(statements))]


def compile_unit(directory: Path, unit: str) -> Path:
    """A shared object with the functions of this unit."""
    for name, text in _HEADERS.items():
        header = directory / "include" / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)
    source, library = directory / "unit.cpp", directory / "unit.so"
    source.write_text(support() + unit)
    include = str(directory / "include")
    subprocess.run(
        ["g++", "-std=c++14", "-O1", "-shared", "-fPIC", "-I", include, source, "-o", library],
        check=True,
    )
    return library

"""The torch that C++ is built against, and what it asks of the compiler.

It is described by plain facts, so that it need not be the torch of this process. The standard is
the one that torch's own builder of extensions names. OpenMP is on where torch has it: without it
`at::parallel_for`, a template, would run on one thread whatever was asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.errors import LibtorchMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LIBRARIES = ("c10", "torch_cpu", "torch", "c10_cuda", "torch_cuda", "c10_hip", "torch_hip")
"""Linked where torch has them; torch_cpu came with 1.5."""

_NEWEST_STANDARD = 17
"""For a torch that does not say which one it wants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Libtorch:
    """One build of torch."""

    folder: Path
    """Of the package. Distributions may keep headers and libraries elsewhere, and link them here
    as `include` and `lib`."""

    version: str
    """As torch says it, with what follows the numbers."""

    git: str
    """The commit that it was built from, if it says so."""

    cxx11_abi: bool
    """Whether its std::string is that of C++11."""

    openmp: bool
    """Whether it was built with OpenMP."""

    python_include: str
    """Where the environment's Python has its Python.h."""

    @property
    def api_folder(self) -> Path:
        """Where torch declares what its larger headers have."""
        return self.folder / "include" / "torch" / "csrc" / "api" / "include"

    def flags(self) -> tuple[str, ...]:
        """For compiling."""
        # As system headers: their warnings are not the user's, and builds do not list them as read.
        folders = [self.folder / "include", self.api_folder, self.python_include]
        return (
            f"-std={self._standard()}",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(self.cxx11_abi)}",
            *(("-fopenmp",) if self.openmp else ()),
            *(word for folder in folders for word in ("-isystem", str(folder))),
        )

    def link_flags(self) -> tuple[str, ...]:
        """For linking, after the source."""
        folder = self.folder / "lib"
        # torch's own OpenMP runtime comes before the system's: with two, threads would not be
        # shared.
        runtimes = sorted(folder.glob("lib[gi]omp*.so*"))
        runtimes += sorted(self.folder.parent.glob("torch.libs/lib[gi]omp*.so*"))
        # A missing symbol is an error of the build, not of the process that loads it.
        return (
            "-shared", "-Wl,--no-undefined", f"-L{folder}", f"-Wl,-rpath,{folder}",
            *(f"-l{name}" for name, _ in self._libraries()),
            "-Wl,--as-needed", "-ltorch_python", *map(str, runtimes),
        )  # fmt: skip

    def stamp(self) -> str:
        """Which torch, to the build: version, commit, size and time of its libraries."""
        # Whoever works on torch itself rebuilds it without a commit in between.
        facts = [(name, path.stat()) for name, path in self._libraries()]
        stamps = [f"{name}:{fact.st_size}:{fact.st_mtime_ns}" for name, fact in facts]
        return " ".join([self.version, self.git, *stamps])

    def check(self) -> None:
        """Raise a LibtorchMissingError if there is nothing to build against."""
        # A link that leads nowhere is what Debian's torch has without its headers.
        header = self.api_folder / "torch" / "types.h"
        if not header.exists():
            raise LibtorchMissingError(
                f"C++ cannot be built for torch {self.version}: its headers are not installed "
                f"({header} is not there); install them with 'apt-get install libtorch-dev' if "
                "this torch is Debian's or Ubuntu's; torch from pip or conda brings its own"
            )
        if not any(self._libraries()):
            raise LibtorchMissingError(
                f"C++ cannot be built for torch {self.version}: its libraries "
                f"({self.folder / 'lib' / 'libc10.so'} and others) are not there; install torch "
                "again"
            )

    def _libraries(self) -> Iterator[tuple[str, Path]]:
        for name in _LIBRARIES:
            path = self.folder / "lib" / f"lib{name}.so"
            if path.exists():
                yield name, path

    def _standard(self) -> str:
        """The newest standard that torch's builder of extensions asks for, by its source text."""
        try:
            text = (self.folder / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
        except OSError:
            text = ""
        named = [int(year) for year in re.findall(r"-std=c\+\+(\d\d)\b", text)]
        return f"c++{max(named, default=_NEWEST_STANDARD)}"


def libtorch_of(facts: Mapping[str, Any]) -> Libtorch:
    """The torch that the facts of a zygote describe; a LibtorchMissingError if C++ cannot be built.

    The probe's `facts` are the one source of it, called in a zygote or in this process.
    """
    libtorch = Libtorch(
        folder=Path(facts["torch_folder"]),
        version=str(facts["torch"]),
        git=str(facts["torch_git"]),
        cxx11_abi=facts["torch_cxx11_abi"],
        openmp=facts["torch_openmp"],
        python_include=facts["python_include"],
    )
    libtorch.check()
    return libtorch

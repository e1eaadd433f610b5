"""The C++ compiler of this machine, with the flags that this torch needs.

The standard is the one that torch's own builder of extensions names, the ABI and the paths are
those of the torch that is imported. OpenMP is on where torch has it: without it
`at::parallel_for`, a template, would run on one thread whatever was asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchmark.errors import CompileError, CompilerMissingError
from torchmark.run.torch_import import import_torch

_COMPILERS = ("g++", "c++", "clang++")

_INSTALL = (
    "install one: 'apt-get install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora), "
    "'conda install -c conda-forge cxx-compiler'; or name yours in the variable CXX"
)

_LIBRARIES = ("c10", "torch_cpu", "torch", "c10_cuda", "torch_cuda", "c10_hip", "torch_hip")
"""Linked where torch has them; the first three always exist."""

_INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
"""They steer a compiler from outside of its command line."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """How a run of the compiler ended."""

    succeeded: bool
    output: str
    """What it said, on both streams."""

    def disk_was_full(self) -> bool:
        return not self.succeeded and "No space left on device" in self.output


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler and all that decides what it makes of a source."""

    command: tuple[str, ...]
    """The compiler, with the words that the variable CXX may have after it."""

    version: str
    """The first line of what it says of itself."""

    flags: tuple[str, ...]
    """For compiling."""

    link_flags: tuple[str, ...]
    """For linking, after the source."""

    torch_build: str
    """Which torch, to the build: version, commit, size and time of its libraries."""

    api_folders: tuple[Path, ...] = ()
    """Where torch declares what its larger headers have; empty for a compiler of something else."""

    @property
    def key(self) -> str:
        """A digest of everything here and of the variables that compilers read."""
        outside = [f"{name}={os.environ.get(name, '')}" for name in _INCLUDE_VARIABLES]
        facts = [*self.command, self.version, *self.flags, *self.link_flags, self.torch_build]
        return hashlib.sha256("\0".join([*facts, *outside]).encode()).hexdigest()

    def build(
        self, source: Path, prelude: Path, library: Path, depends: Path, *, uses_python: bool
    ) -> Compilation:
        """Make a shared object of the source; `depends` gets the files that it read."""
        # The interpreter has Python's own symbols, not a library that could be named here.
        more = ["-Wl,-z,undefs"] if uses_python else []
        return self._run(
            [*self.flags, "-MMD", "-MF", str(depends), "-iquote", os.getcwd(),
             "-include", str(prelude), str(source), "-o", str(library), *self.link_flags, *more],
            library.parent,
        )  # fmt: skip

    def precompile(self, header: Path, output: Path) -> bool:
        """Make a precompiled header; False if the compiler could not."""
        arguments = [*self.flags, "-x", "c++-header", str(header), "-o", str(output)]
        return self._run(arguments, output.parent).succeeded

    def _run(self, arguments: list[str], folder: Path) -> Compilation:
        # Messages are read by diagnostics.py, so they must be in English.
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
        process = subprocess.Popen(  # noqa: S603 - the compiler that the user has, and a list
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,  # Ctrl-C is for us, and its helpers end with it
        )
        _running.add(process)
        try:
            output, _ = process.communicate()
        except BaseException:
            _kill(process)
            raise
        finally:
            _running.discard(process)
        if process in _stopped:
            _stopped.discard(process)
            raise CompileError("the compiler was stopped because the run ended")
        return Compilation(process.returncode == 0, output)


_running: set[subprocess.Popen[str]] = set()
_stopped: set[subprocess.Popen[str]] = set()


def stop_compilers() -> None:
    """End every compiler of this process; whoever waits for one gets a CompileError."""
    for process in list(_running):
        _stopped.add(process)
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        os.killpg(process.pid, signal.SIGKILL)


def find_toolchain() -> Toolchain:
    """The compiler that CXX names, or the first of g++, c++ and clang++, for the torch in use."""
    command = _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))
    version = _version_of(command)
    torch = import_torch()
    return Toolchain(
        command=command,
        version=version,
        flags=(*_flags(torch), *(("-ferror-limit=0",) if "clang" in version else ())),
        link_flags=_link_flags(torch),
        torch_build=_torch_build(torch),
        api_folders=(_api_folder(torch),),
    )


@cache
def _find_compiler(chosen: str, search_path: str) -> tuple[str, ...]:
    if chosen.strip():
        first, *words = shlex.split(chosen)
        found = shutil.which(first, path=search_path)
        if found is None:
            raise CompilerMissingError(f"the variable CXX names {first!r}, which is not there; "
                                       f"{_INSTALL}")  # fmt: skip
        return (found, *words)
    for name in _COMPILERS:
        found = shutil.which(name, path=search_path)
        if found is not None:
            return (found,)
    raise CompilerMissingError(
        f"C++ statements need a compiler, and there is none of {', '.join(_COMPILERS)}; {_INSTALL}"
    )


@cache
def _version_of(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            [*command, "--version"], capture_output=True, text=True, check=True, errors="replace"
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompilerMissingError(
            f"the C++ compiler {shlex.join(command)} does not run ({error}); {_INSTALL}"
        ) from error
    return done.stdout.partition("\n")[0]


def _flags(torch: Any) -> tuple[str, ...]:
    root = _root(torch)
    # As system headers: their warnings are not the user's, and builds do not list them as read.
    folders = [root / "include", _api_folder(torch)]
    python = sysconfig.get_paths()["include"]
    return (
        f"-std={_standard(root)}",
        "-O2", "-fPIC", "-pipe", "-w", "-fdiagnostics-color=never",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",  # noqa: SLF001
        *(("-fopenmp",) if torch.backends.openmp.is_available() else ()),
        *(word for folder in [*folders, python] for word in ("-isystem", str(folder))),
    )  # fmt: skip


def _link_flags(torch: Any) -> tuple[str, ...]:
    folder = _root(torch) / "lib"
    libraries = [name for name in _LIBRARIES if (folder / f"lib{name}.so").exists()]
    # torch's own OpenMP runtime comes before the system's: with two, threads would not be shared.
    runtimes = sorted(folder.glob("lib[gi]omp*.so*"))
    runtimes += sorted(_root(torch).parent.glob("torch.libs/lib[gi]omp*.so*"))
    # A missing symbol is an error of the build, not of the process that loads it.
    return (
        "-shared", "-Wl,--no-undefined", f"-L{folder}", f"-Wl,-rpath,{folder}",
        *(f"-l{name}" for name in libraries),
        "-Wl,--as-needed", "-ltorch_python", *map(str, runtimes),
    )  # fmt: skip


def _standard(root: Path) -> str:
    """The newest standard that torch's builder of extensions asks for, by its source text."""
    try:
        text = (root / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = [int(year) for year in re.findall(r"-std=c\+\+(\d\d)\b", text)]
    return f"c++{max(named, default=17)}"


def _torch_build(torch: Any) -> str:
    folder = _root(torch) / "lib"
    stamps = []
    for name in _LIBRARIES:
        path = folder / f"lib{name}.so"
        if path.exists():
            facts = path.stat()
            # Whoever works on torch itself rebuilds it without a commit in between.
            stamps.append(f"{name}:{facts.st_size}:{facts.st_mtime_ns}")
    return " ".join([torch.__version__, str(torch.version.git_version), *stamps])


def _api_folder(torch: Any) -> Path:
    return _root(torch) / "include" / "torch" / "csrc" / "api" / "include"


def _root(torch: Any) -> Path:
    return Path(torch.__file__).resolve().parent

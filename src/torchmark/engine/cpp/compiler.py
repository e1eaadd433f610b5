"""The C++ compiler of this machine, with the flags that a torch needs.

Which torch is said by the facts that the probe gathers where that torch is imported: in this
process, or in the zygote of another environment (see libtorch.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from torchmark.engine.cpp.libtorch import libtorch_of
from torchmark.engine.local_torch import import_torch
from torchmark.errors import CompileError, CompilerMissingError
from torchmark_probe.zygote.warmup import facts as facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_COMPILERS = ("g++", "c++", "clang++")

_INSTALL = (
    "install one: 'apt-get install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora), "
    "'conda install -c conda-forge cxx-compiler'; or name yours in the variable CXX"
)

_FLAGS = ("-O2", "-fPIC", "-pipe", "-w", "-fdiagnostics-color=never")

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
    command = _chosen_compiler()  # the missing compiler is told before torch is imported
    return _toolchain(command, facts_of(import_torch()))


def toolchain_of(facts: Mapping[str, Any]) -> Toolchain:
    """As `find_toolchain`, for the torch of the zygote whose `start` returned these facts."""
    return _toolchain(_chosen_compiler(), facts)


def find_compiler_version() -> str | None:
    """What the compiler says of itself; None if there is none that runs."""
    try:
        return _version_of(_chosen_compiler())
    except CompilerMissingError:
        return None


def _toolchain(command: tuple[str, ...], facts: Mapping[str, Any]) -> Toolchain:
    version = _version_of(command)
    libtorch = libtorch_of(facts)
    return Toolchain(
        command=command,
        version=version,
        flags=(*_FLAGS, *libtorch.flags(), *(("-ferror-limit=0",) if "clang" in version else ())),
        link_flags=libtorch.link_flags(),
        torch_build=libtorch.stamp(),
        api_folders=(libtorch.api_folder,),
    )


def _chosen_compiler() -> tuple[str, ...]:
    return _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


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

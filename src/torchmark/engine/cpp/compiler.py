"""Finds the C++ compiler of this machine and the flags that a torch needs.

The facts about torch come from the probe in the process that imports it: this process, or the
zygote of another environment. The language standard is the one that torch's extension builder
uses. OpenMP is on if torch uses it: otherwise `at::parallel_for`, a template, would always run on
one thread.
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
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchmark.engine.machine import import_torch, run_tool
from torchmark.errors import CompileError, CompilerMissingError, LibtorchMissingError
from torchmark_probe.zygote.warmup import facts as facts_of

_COMPILERS = ("g++", "c++", "clang++")

_INSTALL = (
    "install one: 'apt-get install g++' (Debian, Ubuntu), 'dnf install gcc-c++' (Fedora), "
    "'conda install -c conda-forge cxx-compiler'; or set the variable CXX to a compiler"
)

_FLAGS = ("-O2", "-fPIC", "-pipe", "-w", "-fdiagnostics-color=never")

_INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
"""Variables that affect a compiler in addition to its command line."""

_LIBRARIES = ("c10", "torch_cpu", "torch", "c10_cuda", "torch_cuda", "c10_hip", "torch_hip")
"""Linked if torch has them; torch_cpu exists since 1.5."""

_NEWEST_STANDARD = 17
"""Used for a torch that does not say which standard it needs."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler, and everything else that affects its output."""

    command: tuple[str, ...]
    """The compiler, with any further words of the variable CXX."""

    version: str
    """The first line that the compiler prints about its version."""

    flags: tuple[str, ...]
    """For compiling."""

    link_flags: tuple[str, ...]
    """For linking, after the source."""

    torch_build: str
    """Identifies the build of torch: version, commit, size and time of its libraries."""

    api_folders: tuple[Path, ...] = ()
    """Where torch declares what its larger headers add; empty for a compiler without torch."""

    @property
    def key(self) -> str:
        """A digest of all fields and of the variables that compilers read."""
        outside = [f"{name}={os.environ.get(name, '')}" for name in _INCLUDE_VARIABLES]
        facts = [*self.command, self.version, *self.flags, *self.link_flags, self.torch_build]
        return hashlib.sha256("\0".join([*facts, *outside]).encode()).hexdigest()

    def build(self, source: Path, prelude: Path, *, uses_python: bool) -> str | None:
        """Make a shared object next to the source; return None, or the compiler's errors.

        A `.d` file next to it lists the files that the compiler read.
        """
        library, depends = source.with_suffix(".so"), source.with_suffix(".d")
        # Python's symbols come from the interpreter; there is no library to link for them.
        more = ["-Wl,-z,undefs"] if uses_python else []
        return self._run(
            [*self.flags, "-MMD", "-MF", str(depends), "-iquote", os.getcwd(),
             "-include", str(prelude), str(source), "-o", str(library), *self.link_flags, *more],
            source.parent,
        )  # fmt: skip

    def precompile(self, header: Path, output: Path) -> bool:
        """Make a precompiled header; return False if the compiler failed."""
        arguments = [*self.flags, "-x", "c++-header", str(header), "-o", str(output)]
        return self._run(arguments, output.parent) is None

    def _run(self, arguments: list[str], folder: Path) -> str | None:
        """Return None if the compiler succeeds, else what it printed on both streams."""
        # diagnostics.py parses the messages, so they must be in English.
        environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
        process = subprocess.Popen(  # noqa: S603 - the compiler that the user has, and a list
            [*self.command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,  # only this process gets Ctrl-C, and then ends the helpers too
        )
        _running.add(process)
        try:
            output, _ = process.communicate()
        except BaseException:
            _kill(process)
            raise
        finally:
            was_stopped = process not in _running
            _running.discard(process)
        if was_stopped:
            raise CompileError("the compiler was stopped because the run ended")
        return None if process.returncode == 0 else output


_running: set[subprocess.Popen[str]] = set()


def stop_compilers() -> None:
    """End every compiler of this process; callers that wait for one get a CompileError."""
    for process in list(_running):
        _running.discard(process)
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):  # it has already ended
        os.killpg(process.pid, signal.SIGKILL)


def find_toolchain() -> Toolchain:
    """Return the compiler and flags for the torch of this process."""
    _chosen_compiler()  # report a missing compiler before importing torch
    return toolchain_of(facts_of(import_torch()))


def toolchain_of(facts: Mapping[str, Any]) -> Toolchain:
    """Return the compiler that CXX names, or the first of g++, c++ and clang++, with torch's flags.

    `facts` come from a zygote. Raises LibtorchMissingError if its torch cannot be built against.
    """
    command = _chosen_compiler()
    version = _version_of(command)
    # Distributions may keep headers and libraries elsewhere and put links here.
    folder = Path(facts["torch_folder"])
    api_folder = folder / "include" / "torch" / "csrc" / "api" / "include"
    paths = {name: folder / "lib" / f"lib{name}.so" for name in _LIBRARIES}
    libraries = {name: path for name, path in paths.items() if path.exists()}
    _check_torch(facts, api_folder / "torch" / "types.h", libraries)
    # As system headers: no warnings are shown for them, and they are not listed as files read.
    headers = (folder / "include", api_folder, facts["python_include"])
    return Toolchain(
        command=command,
        version=version,
        flags=(
            *_FLAGS,
            f"-std={_find_standard(folder)}",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(facts['torch_cxx11_abi'])}",
            *(("-fopenmp",) if facts["torch_openmp"] else ()),
            *(word for header in headers for word in ("-isystem", str(header))),
            *(("-ferror-limit=0",) if "clang" in version else ()),
        ),
        link_flags=_link_flags(folder, libraries),
        torch_build=_stamp(facts, libraries),
        api_folders=(api_folder,),
    )


def find_compiler_version() -> str | None:
    """Return the compiler's version line; None if no compiler runs."""
    try:
        return _version_of(_chosen_compiler())
    except CompilerMissingError:
        return None


def _check_torch(facts: Mapping[str, Any], header: Path, libraries: Mapping[str, Path]) -> None:
    said = f"C++ cannot be built for torch {facts['torch']}: its"
    # Debian's torch without its headers has a dangling link here.
    if not header.exists():
        raise LibtorchMissingError(
            f"{said} headers are not installed ({header} is missing). If this torch is from Debian "
            "or Ubuntu, install them with 'apt-get install libtorch-dev'; torch from pip or conda "
            "includes them"
        )
    if not libraries:
        raise LibtorchMissingError(
            f"{said} libraries ({Path(facts['torch_folder']) / 'lib' / 'libc10.so'} and others) "
            "are missing; reinstall torch"
        )


def _find_standard(folder: Path) -> str:
    """Return the newest standard that torch's extension builder uses, found in its source text."""
    try:
        text = (folder / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = [int(year) for year in re.findall(r"-std=c\+\+(\d\d)\b", text)]
    return f"c++{max(named, default=_NEWEST_STANDARD)}"


def _link_flags(torch_folder: Path, libraries: Mapping[str, Path]) -> tuple[str, ...]:
    folder = torch_folder / "lib"
    # torch's own OpenMP runtime comes before the system's: two runtimes would not share threads.
    runtimes = sorted(folder.glob("lib[gi]omp*.so*"))
    runtimes += sorted(torch_folder.parent.glob("torch.libs/lib[gi]omp*.so*"))
    # A missing symbol should fail the build, not the process that loads the library.
    return (
        "-shared", "-Wl,--no-undefined", f"-L{folder}", f"-Wl,-rpath,{folder}",
        *(f"-l{name}" for name in libraries),
        "-Wl,--as-needed", "-ltorch_python", *map(str, runtimes),
    )  # fmt: skip


def _stamp(facts: Mapping[str, Any], libraries: Mapping[str, Path]) -> str:
    # Developers of torch rebuild it without a commit in between.
    stats = [(name, path.stat()) for name, path in libraries.items()]
    stamps = [f"{name}:{stat.st_size}:{stat.st_mtime_ns}" for name, stat in stats]
    return " ".join([str(facts["torch"]), str(facts["torch_git"]), *stamps])


def _chosen_compiler() -> tuple[str, ...]:
    return _find_compiler(os.environ.get("CXX", ""), os.environ.get("PATH", ""))


@cache
def _find_compiler(chosen: str, search_path: str) -> tuple[str, ...]:
    if chosen.strip():
        first, *words = shlex.split(chosen)
        found = shutil.which(first, path=search_path)
        if found is None:
            raise CompilerMissingError(
                f"the variable CXX names {first!r}, which was not found; {_INSTALL}"
            )
        return (found, *words)
    for name in _COMPILERS:
        found = shutil.which(name, path=search_path)
        if found is not None:
            return (found,)
    raise CompilerMissingError(
        f"C++ statements need a compiler, but none of {', '.join(_COMPILERS)} was found; {_INSTALL}"
    )


@cache
def _version_of(command: tuple[str, ...]) -> str:
    try:
        done = run_tool([*command, "--version"])
        done.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerMissingError(
            f"the C++ compiler {shlex.join(command)} does not run ({error}); {_INSTALL}"
        ) from error
    return done.stdout.partition("\n")[0]

"""The C++ compiler of this machine, with the flags that a torch needs.

Which torch is said by the facts that the probe gathers where that torch is imported: in this
process, or in the zygote of another environment. The standard is the one that torch's own builder
of extensions names. OpenMP is on where torch has it: without it `at::parallel_for`, a template,
would run on one thread whatever was asked for.
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
    "'conda install -c conda-forge cxx-compiler'; or name yours in the variable CXX"
)

_FLAGS = ("-O2", "-fPIC", "-pipe", "-w", "-fdiagnostics-color=never")

_INCLUDE_VARIABLES = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
"""They steer a compiler from outside of its command line."""

_LIBRARIES = ("c10", "torch_cpu", "torch", "c10_cuda", "torch_cuda", "c10_hip", "torch_hip")
"""Linked where torch has them; torch_cpu came with 1.5."""

_NEWEST_STANDARD = 17
"""For a torch that does not say which one it wants."""


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

    def build(self, source: Path, prelude: Path, *, uses_python: bool) -> str | None:
        """Make a shared object beside the source; None, or what was said against it.

        A file that ends in `.d` gets the names of the files that it read.
        """
        library, depends = source.with_suffix(".so"), source.with_suffix(".d")
        # The interpreter has Python's own symbols, not a library that could be named here.
        more = ["-Wl,-z,undefs"] if uses_python else []
        return self._run(
            [*self.flags, "-MMD", "-MF", str(depends), "-iquote", os.getcwd(),
             "-include", str(prelude), str(source), "-o", str(library), *self.link_flags, *more],
            source.parent,
        )  # fmt: skip

    def precompile(self, header: Path, output: Path) -> bool:
        """Make a precompiled header; False if the compiler could not."""
        arguments = [*self.flags, "-x", "c++-header", str(header), "-o", str(output)]
        return self._run(arguments, output.parent) is None

    def _run(self, arguments: list[str], folder: Path) -> str | None:
        """None if the compiler succeeds, else what it says on both streams."""
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
            was_stopped = process not in _running
            _running.discard(process)
        if was_stopped:
            raise CompileError("the compiler was stopped because the run ended")
        return None if process.returncode == 0 else output


_running: set[subprocess.Popen[str]] = set()


def stop_compilers() -> None:
    """End every compiler of this process; whoever waits for one gets a CompileError."""
    for process in list(_running):
        _running.discard(process)
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):  # it has ended by itself
        os.killpg(process.pid, signal.SIGKILL)


def find_toolchain() -> Toolchain:
    """The compiler for the torch of this process."""
    _chosen_compiler()  # the missing compiler is told before torch is imported
    return toolchain_of(facts_of(import_torch()))


def toolchain_of(facts: Mapping[str, Any]) -> Toolchain:
    """The compiler that CXX names, or the first of g++, c++ and clang++, with torch's flags.

    `facts` are those of a zygote. A LibtorchMissingError if its torch has nothing to build against.
    """
    command = _chosen_compiler()
    version = _version_of(command)
    # Distributions may keep headers and libraries elsewhere, and link them here.
    folder = Path(facts["torch_folder"])
    api_folder = folder / "include" / "torch" / "csrc" / "api" / "include"
    paths = {name: folder / "lib" / f"lib{name}.so" for name in _LIBRARIES}
    libraries = {name: path for name, path in paths.items() if path.exists()}
    _check_torch(facts, api_folder / "torch" / "types.h", libraries)
    # As system headers: their warnings are not the user's, and builds do not list them as read.
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
    """What the compiler says of itself; None if there is none that runs."""
    try:
        return _version_of(_chosen_compiler())
    except CompilerMissingError:
        return None


def _check_torch(facts: Mapping[str, Any], header: Path, libraries: Mapping[str, Path]) -> None:
    said = f"C++ cannot be built for torch {facts['torch']}: its"
    # A link that leads nowhere is what Debian's torch has without its headers.
    if not header.exists():
        raise LibtorchMissingError(
            f"{said} headers are not installed ({header} is not there); install them with "
            "'apt-get install libtorch-dev' if this torch is Debian's or Ubuntu's; torch from pip "
            "or conda brings its own"
        )
    if not libraries:
        raise LibtorchMissingError(
            f"{said} libraries ({Path(facts['torch_folder']) / 'lib' / 'libc10.so'} and others) "
            "are not there; install torch again"
        )


def _find_standard(folder: Path) -> str:
    """The newest standard that torch's builder of extensions asks for, by its source text."""
    try:
        text = (folder / "utils" / "cpp_extension.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = [int(year) for year in re.findall(r"-std=c\+\+(\d\d)\b", text)]
    return f"c++{max(named, default=_NEWEST_STANDARD)}"


def _link_flags(torch_folder: Path, libraries: Mapping[str, Path]) -> tuple[str, ...]:
    folder = torch_folder / "lib"
    # torch's own OpenMP runtime comes before the system's: with two, threads would not be shared.
    runtimes = sorted(folder.glob("lib[gi]omp*.so*"))
    runtimes += sorted(torch_folder.parent.glob("torch.libs/lib[gi]omp*.so*"))
    # A missing symbol is an error of the build, not of the process that loads it.
    return (
        "-shared", "-Wl,--no-undefined", f"-L{folder}", f"-Wl,-rpath,{folder}",
        *(f"-l{name}" for name in libraries),
        "-Wl,--as-needed", "-ltorch_python", *map(str, runtimes),
    )  # fmt: skip


def _stamp(facts: Mapping[str, Any], libraries: Mapping[str, Path]) -> str:
    # Whoever works on torch itself rebuilds it without a commit in between.
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
                f"the variable CXX names {first!r}, which is not there; {_INSTALL}"
            )
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
        done = run_tool([*command, "--version"])
        done.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        raise CompilerMissingError(
            f"the C++ compiler {shlex.join(command)} does not run ({error}); {_INSTALL}"
        ) from error
    return done.stdout.partition("\n")[0]

"""A zygote's process: launched, watched until it is ready, and ended.

Counts should be the same wherever and by whomever they are taken. They depend on where objects lie,
which depends on every byte that a process starts with. So a zygote gets a canonical environment,
working directory, command line and set of descriptors. The probe is read from standard input under
the name /proc/self/fd/0, and everything else arrives over the channel. The input is a file in
memory: `inspect` resolves that name to the real file, and the path of a cache directory contains
the user's name.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchmark.engine.environments import Interpreter, ask_interpreter
from torchmark.engine.machine import need_tool
from torchmark.errors import ImportFailedError, ZygoteError
from torchmark_probe.zygote import messages, wire

if TYPE_CHECKING:
    from importlib.abc import Traversable

START_SECONDS = 900.0
"""A start that takes longer has failed. Half a minute is usual under valgrind; a busy machine with
a slow disk has taken ten times that."""

_END_SECONDS = 5.0
"""How long a zygote may take to exit after its channel is closed, before it is killed."""

_LOG_TAIL = 4000
"""Characters of a dead zygote's output that an error shows."""

_STACK_STEP = 272
"""Bytes by which the stack moves down from one layout to the next. This is no power of two, so that
layouts differ in every address bit that caches use."""

_ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF
"""The argument that makes `personality` return the current value without changing it."""

_libc = ctypes.CDLL(None)

_PASSED_THROUGH = ("LD_LIBRARY_PATH", "PYTHONHOME", "CUDA_VISIBLE_DEVICES")
"""Without these an environment may not find its libraries, or use another device."""

_ENTRY = b"""\
import os
from torchmark_probe.__main__ import main
main()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a zygote. Zygotes of equal launches are interchangeable."""

    interpreter: Interpreter = field(default_factory=lambda: ask_interpreter(sys.executable))
    """The environment under test."""

    threads: int = 1
    """Threads of torch, OpenMP and the BLAS libraries."""

    under_callgrind: bool = False
    """Whether to count instructions instead of taking times."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables in addition to the canonical ones."""

    layout: int | None = None
    """Selects memory addresses: equal numbers give equal addresses, as far as the kernel lets
    torchmark choose them. None leaves it to the kernel, which picks new ones at every start."""

    copies_code: bool = False
    """Whether to copy the timed code into new pages, away from where the kernel happened to map the
    files. Used for comparisons of two builds."""

    modules: tuple[str, ...] = ()
    """What to import in addition to torch, so that not every case imports it again in its process.
    Modules of the probe that a child needs must be listed, because the child can no longer read the
    archive. Modules that an environment lacks are skipped."""

    imports: tuple[str, ...] = ()
    """What the user wants imported before any case, such as a module that defines operators. If one
    of these cannot be imported, the zygote does not start."""

    path: tuple[str, ...] | None = None
    """Where cases find modules in addition to PYTHONPATH and the interpreter's path. None means the
    path of this process if the interpreter is the same, and nothing otherwise."""

    def extra_path(self) -> list[str]:
        """Return the user's own directories, which the interpreter would not search for modules.

        The interpreter's path lacks PYTHONPATH, so it is added for the cases.
        """
        known = self.interpreter.sys_path
        if self.path is not None:
            return [*self.path, *(entry for entry in self._python_path() if entry not in known)]
        if self.interpreter.executable != sys.executable:
            return []
        here = os.getcwd()
        # Python writes the working directory as "", which has the same length for everybody.
        return ["" if entry == here else entry for entry in sys.path if entry not in known]

    def import_path(self) -> list[str]:
        """Return where the zygote finds `imports`, in addition to the interpreter's path.

        These are the directories that cases use, and the environment's PYTHONPATH. Empty without
        imports, because a path contains the user's name.
        """
        if not self.imports:
            return []
        return [os.path.abspath(each) for each in [*self.extra_path(), *self._python_path()]]

    def _python_path(self) -> list[str]:
        given = dict(self.environment).get("PYTHONPATH", "")
        return [each for each in given.split(os.pathsep) if each]


def canonical_environment(launch: Launch, given: Mapping[str, str]) -> dict[str, str]:
    """Return the same variables for everybody, except those needed to find libraries."""
    threads = str(launch.threads)
    variables = {
        "HOME": "/",
        "LANG": "C.UTF-8",
        "LOGNAME": "torchmark",
        "MKL_NUM_THREADS": threads,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "USER": "torchmark",
    }
    if launch.under_callgrind:
        variables["OMP_WAIT_POLICY"] = "PASSIVE"  # spinning would be counted
    if launch.layout:
        variables["TORCHMARK_LAYOUT"] = "x" * (_STACK_STEP * launch.layout)  # above the stack
    passed = {name: given[name] for name in _PASSED_THROUGH if name in given}
    return {**variables, **passed, **dict(launch.environment)}


def command(launch: Launch, directory: Path) -> list[str]:
    """Return the command line: the interpreter on its standard input, under callgrind if asked."""
    # With chosen addresses, whatever `site` imports must come after torch's libraries.
    options = ["-S"] if launch.layout is not None else []
    python = [launch.interpreter.executable, *options, "/proc/self/fd/0"]
    if not launch.under_callgrind:
        return python
    return [
        valgrind(),
        "--tool=callgrind",
        "--instr-atstart=no",
        "--collect-atstart=no",
        "--vgdb=no",  # its pipes have user and host in their names
        f"--log-file={directory / 'valgrind.log'}",
        f"--callgrind-out-file={directory / 'case.%p'}",
        *python,
    ]


def valgrind() -> str:
    """Return the path of valgrind, or raise an error that says how to install it."""
    return need_tool(
        "valgrind",
        "counting instructions needs valgrind, which is not on PATH; install the package "
        "'valgrind': 'apt-get install valgrind' (Debian, Ubuntu), 'dnf install valgrind' "
        "(Fedora) or 'conda install -c conda-forge valgrind'",
    )


@cache
def archive_bytes() -> bytes:
    """Return the probe as a zip file that any Python can run, with the same bytes on any machine.

    Nothing is installed or written in an environment under test. Names are sorted, all have the
    same date, and nothing is compressed, because inflating is slow under valgrind.
    """
    files = dict(_sources_in(resources.files("torchmark_probe"), "torchmark_probe"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, "__main__.py": _ENTRY}.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def _sources_in(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield every module below the folder, except the backport, which no zygote runs."""
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_file() and entry.name.endswith(".py"):
            yield path, entry.read_bytes()
        elif entry.is_dir() and entry.name not in {"backport", "__pycache__"}:
            yield from _sources_in(entry, path)


@contextlib.contextmanager
def _fixed_addresses() -> Iterator[None]:
    """Give the processes that this thread starts in the block the same addresses at every start.

    Some containers forbid this. Then addresses are random as usual, and the zygote's facts say so.
    """
    before = _libc.personality(_ASK)
    _libc.personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        _libc.personality(before)


class ZygoteProcess:
    """One run of a zygote's process.

    The thread that launches it watches it until it ends: the kernel kills the zygote when its
    parent dies, and for the kernel that parent is the thread.
    """

    def __init__(self, launch: Launch, directory: Path) -> None:
        self._launch = launch
        self._directory = directory
        self._log = directory / "zygote.log"
        self._command = command(launch, directory)
        self._channel, self._their_end = socket.socketpair()
        self._told: queue.SimpleQueue[messages.Message | None] = queue.SimpleQueue()
        self._gone = threading.Event()
        self._handing_over = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._cores: Collection[int] = ()
        self.facts: dict[str, Any] = {}
        threading.Thread(target=self._live, name="torchmark zygote", daemon=True).start()

    @property
    def is_alive(self) -> bool:
        return not self._gone.is_set()

    def run_on(self, cores: Collection[int]) -> None:
        """Move it to these cores, now or when it is launched; an empty collection does nothing."""
        self._cores = cores
        self._move()

    def _move(self) -> None:
        if self._cores and self._process is not None:
            # It may have ended or may not be moved; then it stays where it is.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, self._cores)

    def wait_until_ready(self, progress: Callable[[str], None]) -> None:
        """Wait until cases can be handed over; `progress` gets each stage as it begins."""
        deadline = time.monotonic() + START_SECONDS
        while not self.facts:
            try:
                message = self._told.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.end()
                raise ZygoteError(
                    "the process that imports torch and forks the cases (the zygote) was not "
                    f"ready after {START_SECONDS:.0f} s; its last output:\n" + self.last_words()
                ) from None
            if message is None:
                raise self.death()
            if isinstance(message, messages.StageBegan):
                progress(message.text)
            elif isinstance(message, messages.ImportFailed):
                raise ImportFailedError(
                    f"{self._launch.interpreter.executable} cannot import {message.module}: "
                    f"{message.reason}; fix this, or leave the module out"
                )
            elif isinstance(message, messages.Ready):
                self.facts = message.facts

    def hand_over(self, files: wire.CaseFiles, *, in_haste: bool) -> None:
        """Ask the zygote to fork for a case; an OSError means that it has ended."""
        with self._handing_over:
            wire.hand_over(self._channel, files, in_haste=in_haste)

    def death(self) -> ZygoteError:
        """Return the error that says how this zygote ended, with its last output."""
        self._gone.wait(_END_SECONDS)
        how = "ended" if self._process is None else f"ended with status {self._process.returncode}"
        if self._failure is not None:
            how = f"could not be started: {self._failure}"
        return ZygoteError(
            f"the process of {self._launch.interpreter.executable} that imports torch and forks "
            f"the cases (the zygote) {how}; its last output:\n"
            f"{self.last_words()}"
        )

    def last_words(self) -> str:
        """Return the end of what the zygote and valgrind wrote."""
        logs = (self._log, self._directory / "valgrind.log")
        texts = [log.read_text(errors="replace") for log in logs if log.exists()]
        return "\n".join(texts).strip()[-_LOG_TAIL:] or "(none)"

    def end(self) -> None:
        """Close the channel, which ends the zygote and every case; kill it if it does not exit."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if not self._gone.wait(_END_SECONDS if self.facts else 0.0) and self._process is not None:
            self._process.kill()
            self._gone.wait(_END_SECONDS)
        self._channel.close()

    def _live(self) -> None:
        try:
            self._start()
            self._listen()
        except OSError as error:
            self._failure = self._failure or error
        finally:
            self._their_end.close()
            if self._process is not None:
                self._process.wait()
            self._gone.set()
            self._told.put(None)

    def _start(self) -> None:
        fixed = self._launch.layout is not None
        with (
            open(os.memfd_create("torchmark-probe"), "w+b") as archive,
            open(self._log, "wb") as log,
            _fixed_addresses() if fixed else contextlib.nullcontext(),
        ):
            archive.write(archive_bytes())
            archive.flush()
            self._process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
                self._command,
                stdin=archive,
                stdout=self._their_end.fileno(),
                stderr=log,
                cwd="/",
                env=canonical_environment(self._launch, os.environ),
                start_new_session=True,  # Ctrl-C is handled by the control side
            )
        self._move()
        self._their_end.close()
        start = messages.Start(
            sys_path=list(self._launch.interpreter.sys_path),
            threads=self._launch.threads,
            layout=self._launch.layout,
            torch_file=self._launch.interpreter.torch_file,
            modules=list(self._launch.modules),
            imports=list(self._launch.imports),
            import_path=self._launch.import_path(),
            copies_code=self._launch.copies_code,
        )
        self._channel.sendall(wire.encode(start))

    def _listen(self) -> None:
        with self._channel.makefile("rb") as lines:
            for line in lines:
                try:
                    self._told.put(wire.decode(line))
                except wire.WireError:
                    return

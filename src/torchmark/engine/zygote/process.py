"""A zygote's process: launched, watched until it is ready, and ended.

Counts are to be the same wherever and by whomever they are taken, and they depend on where
objects lie, which depends on every byte that a process starts with. So a zygote gets a canonical
environment, working directory, command line and descriptors: the probe is read from standard
input under the name /proc/self/fd/0, and everything else is told over the channel. That input is
a file in memory, since `inspect` follows the name to the file behind it, and a cache directory
has the user's name in its path.
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
"""After this a start has failed. Half a minute is usual under valgrind; a busy machine and a slow
disk together have been seen to take ten times that."""

_END_SECONDS = 5.0
"""How long a zygote may take to see that its channel is closed before it is killed."""

_LOG_TAIL = 4000
"""Characters of a dead zygote's last words that an error shows."""

_STACK_STEP = 272
"""Bytes by which the stack of one layout lies below that of the one before: no power of two, so
that layouts differ in every bit of an address that caches look at."""

_ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF
"""What `personality` takes to tell the present one and change nothing."""

_libc = ctypes.CDLL(None)

_PASSED_THROUGH = ("LD_LIBRARY_PATH", "PYTHONHOME", "CUDA_VISIBLE_DEVICES")
"""Without these an environment may not find its libraries, or find another device."""

_ENTRY = b"""\
import os
from torchmark_probe.__main__ import main
main()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How a zygote is to be started: those of equal launches can stand in for each other."""

    interpreter: Interpreter = field(default_factory=lambda: ask_interpreter(sys.executable))
    """The environment under test."""

    threads: int = 1
    """Threads of torch, OpenMP and the BLAS libraries."""

    under_callgrind: bool = False
    """Whether to count instructions rather than to take times."""

    environment: tuple[tuple[str, str], ...] = ()
    """Variables beyond the canonical ones."""

    layout: int | None = None
    """Where memory lies: equal numbers give equal addresses, as far as the kernel lets us choose
    them; None leaves it to the kernel, which draws new ones at every start."""

    copies_code: bool = False
    """Whether the code that is timed lies in pages of its own, and not where the kernel happened to
    read the files: for comparisons of two builds."""

    modules: tuple[str, ...] = ()
    """What to import beyond torch, for cases that would all import it again, each in its process;
    modules of the probe that a child needs must be among them, since it cannot read the archive any
    more. What an environment does not have is left out."""

    imports: tuple[str, ...] = ()
    """What the user wants imported before any case, such as a module that defines operators. A
    zygote that cannot import one of these does not start."""

    path: tuple[str, ...] | None = None
    """Where cases find modules beyond the interpreter's own places. None is what this process
    finds, if the interpreter is ours, and nothing if it is another."""

    def extra_path(self) -> list[str]:
        """Where cases find modules and the interpreter would not: the user's own."""
        if self.path is not None:
            return list(self.path)
        if self.interpreter.executable != sys.executable:
            return []
        known = self.interpreter.sys_path
        here = os.getcwd()
        # The working directory has a name of its own to Python, of the same length for everybody.
        return ["" if entry == here else entry for entry in sys.path if entry not in known]

    def import_path(self) -> list[str]:
        """Where the zygote finds `imports` beyond the interpreter's own places: where cases find
        modules, and on the environment's PYTHONPATH. Nowhere if it has none to import: a path has
        the user's name in it.
        """
        if not self.imports:
            return []
        given = dict(self.environment).get("PYTHONPATH", "").split(os.pathsep)
        return [os.path.abspath(each) for each in [*self.extra_path(), *filter(None, given)]]


def canonical_environment(launch: Launch, given: Mapping[str, str]) -> dict[str, str]:
    """The same variables for everybody, but for those that a library cannot be found without."""
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
    """What is run: the interpreter on its standard input, under callgrind if asked."""
    # With addresses of our choice, what `site` brings in comes after torch's libraries.
    options = ["-S"] if launch.layout is not None else []
    python = [launch.interpreter.executable, *options, "/proc/self/fd/0"]
    if not launch.under_callgrind:
        return python
    return [
        valgrind(),
        "--tool=callgrind",
        "--instr-atstart=no",
        "--collect-atstart=no",
        "--vgdb=no",  # its pipes are named by user and host
        f"--log-file={directory / 'valgrind.log'}",
        f"--callgrind-out-file={directory / 'case.%p'}",
        *python,
    ]


def valgrind() -> str:
    """The path of valgrind, or an error that says how to get it."""
    return need_tool(
        "valgrind",
        "counting instructions needs valgrind, which is not on PATH; install the package "
        "'valgrind': 'apt-get install valgrind' (Debian, Ubuntu), 'dnf install valgrind' "
        "(Fedora) or 'conda install -c conda-forge valgrind'",
    )


@cache
def archive_bytes() -> bytes:
    """The probe as a zip file that any Python can run, with the same bytes wherever it is built.

    Nothing is installed or written in an environment under test. Names are sorted, all have one
    date, and nothing is compressed: under valgrind the inflating of a few kilobytes would be felt.
    """
    files = dict(_sources_in(resources.files("torchmark_probe"), "torchmark_probe"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted({**files, "__main__.py": _ENTRY}.items()):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def _sources_in(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Every module below the folder, but for the backport, which no zygote runs."""
    for entry in folder.iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_file() and entry.name.endswith(".py"):
            yield path, entry.read_bytes()
        elif entry.is_dir() and entry.name not in {"backport", "__pycache__"}:
            yield from _sources_in(entry, path)


@contextlib.contextmanager
def _fixed_addresses() -> Iterator[None]:
    """What the calling thread starts meanwhile gets the same addresses at every start.

    Some containers forbid it; then addresses are drawn as usual, and the zygote's facts say so.
    """
    before = _libc.personality(_ASK)
    _libc.personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        _libc.personality(before)


class ZygoteProcess:
    """One life of a zygote.

    The thread that launches it watches it to its end: the kernel kills the zygote when its parent
    dies, and to the kernel the parent is the thread.
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
        """Move it to these cores, now or when it is launched; none means that it stays."""
        self._cores = cores
        self._move()

    def _move(self) -> None:
        if self._cores and self._process is not None:
            # It may be gone, or may not be moved: then it runs where it is.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, self._cores)

    def wait_until_ready(self, progress: Callable[[str], None]) -> None:
        """Return when cases can be handed over; `progress` gets each stage as it begins."""
        deadline = time.monotonic() + START_SECONDS
        while not self.facts:
            try:
                message = self._told.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.end()
                raise ZygoteError(
                    f"the zygote was not ready after {START_SECONDS:.0f} s; its last words:\n"
                    + self.last_words()
                ) from None
            if message is None:
                raise self.death()
            if isinstance(message, messages.StageBegan):
                progress(message.text)
            elif isinstance(message, messages.ImportFailed):
                raise ImportFailedError(
                    f"{self._launch.interpreter.executable} cannot import {message.module}: "
                    f"{message.reason}"
                )
            elif isinstance(message, messages.Ready):
                self.facts = message.facts

    def hand_over(self, files: wire.CaseFiles, *, in_haste: bool) -> None:
        """Let the zygote fork for a case; an OSError means that it is gone."""
        with self._handing_over:
            wire.hand_over(self._channel, files, in_haste=in_haste)

    def death(self) -> ZygoteError:
        """The error that says how this zygote ended, with its last words."""
        self._gone.wait(_END_SECONDS)
        how = "ended" if self._process is None else f"ended with status {self._process.returncode}"
        if self._failure is not None:
            how = f"could not be started: {self._failure}"
        return ZygoteError(
            f"the zygote of {self._launch.interpreter.executable} {how}; its last words:\n"
            f"{self.last_words()}"
        )

    def last_words(self) -> str:
        """The end of what the zygote and valgrind wrote."""
        logs = (self._log, self._directory / "valgrind.log")
        texts = [log.read_text(errors="replace") for log in logs if log.exists()]
        return "\n".join(texts).strip()[-_LOG_TAIL:] or "(none)"

    def end(self) -> None:
        """Close the channel, which ends the zygote and every case; kill it if it lingers."""
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
                start_new_session=True,  # Ctrl-C is for the control side
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

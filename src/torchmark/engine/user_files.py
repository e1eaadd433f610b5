"""Runs users' suite and sweep files in another process, and returns what they define as data.

A file defines cases, text and plain values, so the other process can return them as one line of
JSON per file. The process that measures never runs the file itself. A file that aborts, hangs or
imports torch affects nothing else, and its output goes to standard error. One process reads all
files of a suite; if it dies, another continues after the file that ended it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec

from torchmark.define.expansion import ConditionalCase
from torchmark.define.suites.loading import CasesOfFile, Source, read_here
from torchmark.define.sweep.points import with_valid_points
from torchmark.define.sweep.spec import SweepSpec, read_spec
from torchmark.engine.zygote.conversation import signal_name
from torchmark.errors import InvalidArgumentError, SuiteFileError, SuiteNotFoundError
from torchmark_probe.zygote.serving import die_with_parent

LOAD_SECONDS = 60.0
"""How long a file may take to load if the command sets no limit: several times the
import of torch on a busy machine."""

_SHORTEST = 10.0
"""Every file may take this long, because a command's limit is meant for one case. On a busy machine
the import of torch alone has taken nine seconds."""

_PROGRAM = """
import sys
path, sys.argv[1:] = sys.argv[1:], []
sys.path[:] = path
from torchmark.engine.user_files import serve
serve()
"""


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the other process should read."""

    sources: tuple[tuple[str, bool], ...]
    """Names of files and modules, and whether each is a file."""

    is_sweep: bool
    sizes: Mapping[str, tuple[int, ...]] | None
    """For a sweep: sizes that replace the file's own, by dimension. None if the valid points are
    not wanted."""

    descriptor: int
    """The file descriptor for the answers."""


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a SuiteFileError."""

    reason: str
    file: str
    line: int | None
    text: str
    column: int | None


class _Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of reading one source."""

    sys_path: list[str]
    """sys.path afterwards: a suite may add a folder that its cases need."""

    cases: CasesOfFile = ()
    spec: SweepSpec | None = None
    failure: _Failure | None = None
    not_found: str = ""
    """The message of a SuiteNotFoundError."""


def read_suites(
    sources: Sequence[Source], *, time_limit: float = LOAD_SECONDS
) -> Iterator[CasesOfFile | SuiteFileError]:
    """Yield the cases of each source, or why it has none; raise if a module does not exist."""
    for answer in _read_all(sources, time_limit, is_sweep=False):
        yield answer if isinstance(answer, SuiteFileError) else answer.cases


def read_sweep(
    file: Path,
    *,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    time_limit: float = LOAD_SECONDS,
) -> SweepSpec:
    """Return the sweep that a file defines; raise SuiteFileError if it defines none.

    With `sizes`, which replace the file's own for some dimensions, the spec also has the valid
    points: code in the file decides about them, so they are computed in the other process.
    """
    (answer,) = _read_all([file], time_limit, is_sweep=True, sizes=sizes)
    if isinstance(answer, SuiteFileError):
        raise answer
    assert answer.spec is not None
    return replace(answer.spec, file=file)


def _read_all(
    sources: Sequence[Source],
    time_limit: float,
    *,
    is_sweep: bool,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> Iterator[_Answer | SuiteFileError]:
    left = list(sources)
    while left:
        for answer in _read_in_one_process(tuple(left), time_limit, is_sweep=is_sweep, sizes=sizes):
            left.pop(0)
            yield answer


def _read_in_one_process(
    sources: Sequence[Source],
    time_limit: float,
    *,
    is_sweep: bool,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> Iterator[_Answer | SuiteFileError]:
    """Yield one answer per source, up to the one that ends the process."""
    time_limit = max(time_limit, _SHORTEST)
    own, theirs = os.pipe()
    named = tuple((str(source), isinstance(source, Path)) for source in sources)
    request = _Request(sources=named, is_sweep=is_sweep, sizes=sizes, descriptor=theirs)
    with tempfile.TemporaryFile() as file, open(own, "rb", buffering=0):
        file.write(msgspec.json.encode(request))
        file.seek(0)
        process = subprocess.Popen(  # noqa: S603 - a list of arguments, no shell
            [sys.executable, "-c", _PROGRAM, *map(str, sys.path)],
            stdin=file,
            stdout=2,  # standard output is reserved for results
            pass_fds=[theirs],
            start_new_session=True,  # only this process gets Ctrl-C, and then ends the other one
        )
        os.close(theirs)
        received = bytearray()
        try:
            for source in sources:
                if not _receive_line(own, received, time.monotonic() + time_limit):
                    yield _how_it_ended(process, str(source), time_limit)
                    return
                line, _, rest = received.partition(b"\n")
                received[:] = rest
                yield _understand(bytes(line))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _receive_line(descriptor: int, received: bytearray, deadline: float) -> bool:
    """Read until there is a whole line; False if the time is up or the other end is closed."""
    while b"\n" not in received:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return False
        data = os.read(descriptor, 1 << 16)
        if not data:
            return False
        received += data
    return True


def _how_it_ended(process: subprocess.Popen[bytes], file: str, time_limit: float) -> SuiteFileError:
    try:
        status = process.wait(1.0)  # the pipe closes slightly before the process has ended
    except subprocess.TimeoutExpired:
        reason = f"was stopped after {time_limit:g} s because it did not finish loading"
    else:
        ended = f"crashed with {signal_name(-status)}" if status < 0 else f"exited with {status}"
        reason = f"{ended} while loading"
    return SuiteFileError(reason, file=file)


def _understand(line: bytes) -> _Answer | SuiteFileError:
    answer = msgspec.json.decode(line, type=_Answer)
    sys.path[:] = answer.sys_path
    if answer.not_found:
        raise SuiteNotFoundError(answer.not_found)
    if answer.failure is not None:
        return SuiteFileError(**msgspec.structs.asdict(answer.failure))
    return answer


def serve() -> NoReturn:
    """Run the other process: read the sources one after another."""
    die_with_parent(signal.SIGKILL)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with open(request.descriptor, "wb") as answers:
        for name, is_file in request.sources:
            answer = _read_here(Path(name) if is_file else name, request)
            answers.write(msgspec.json.encode(answer) + b"\n")
            answers.flush()
    os._exit(0)  # without the exit handlers and threads that the files may have left


def _read_here(source: Source, request: _Request) -> _Answer:
    cases: tuple[ConditionalCase, ...] = ()
    spec, failure, not_found = None, None, ""
    try:
        if request.is_sweep:
            spec = _read_spec(Path(source), request.sizes)
        else:
            (found,) = read_here([source])
            if isinstance(found, SuiteFileError):
                raise found
            cases = found
    except SuiteNotFoundError as error:
        not_found = str(error)
    except SuiteFileError as error:
        failure = _Failure(
            reason=error.reason,
            file=error.file,
            line=error.line,
            text=error.text,
            column=error.column,
        )
    return _Answer(sys_path=sys.path, cases=cases, spec=spec, failure=failure, not_found=not_found)


def _read_spec(file: Path, sizes: Mapping[str, tuple[int, ...]] | None) -> SweepSpec:
    """Read the spec as data."""
    spec = read_spec(file)
    if sizes is not None:
        try:
            spec = with_valid_points(spec.with_sizes(sizes))
        except InvalidArgumentError as error:
            raise SuiteFileError(str(error), file=str(file)) from error
    return replace(spec, file=None, valid=None)

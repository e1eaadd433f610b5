"""One child per case, and a keeper between it and the zygote.

The zygote forks a keeper, the keeper forks the child and waits for it. So the zygote does the same
few things between any two forks, whatever becomes of a case: that is what makes counts repeat to
the instruction. The keeper tells the control side which process to kill when the time is up, and
how the process ended; it also takes the case with it when the zygote dies.
"""

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from typing import Any

from torchmark_probe import cases, failures, wire

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def die_with_parent(how: int) -> None:
    """Ask the kernel for a signal at the death of the parent, whatever kills it."""
    _libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)


def keep(files: wire.CaseFiles, around: cases.Surroundings, zygote: int) -> None:
    """Be the keeper of one case, and end with it. Called in a fork; never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Until the child is known there is nothing to take along, so the default will do.
        die_with_parent(signal.SIGTERM)
        if os.getppid() != zygote:
            os._exit(1)
        keeper = os.getpid()
        child = os.fork()
        if child == 0:
            _be_the_child(files, around, keeper)
        _see_it_through(files.talk, child)
    finally:
        os._exit(1)


def _see_it_through(talk: int, child: int) -> None:
    """Wait for the child and tell how it ended; its own processes end with it."""
    _lead_a_group(child)

    def take_along(_signal: int, _frame: Any) -> None:
        _kill_group(child)
        os._exit(1)

    signal.signal(signal.SIGTERM, take_along)
    wire.send(talk, {"pid": child})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    _kill_group(child)  # before it is reaped, so the number is still its own
    _, status = os.waitpid(child, 0)
    # The child may have died in the middle of a line.
    wire.write(talk, b"\n" + wire.encoded({"status": status}))
    _be_gone()


def _lead_a_group(child: int) -> None:
    """Both the keeper and the child do this, so it is done whoever comes first."""
    with contextlib.suppress(OSError):  # it has ended already
        os.setpgid(child, child)


def _kill_group(child: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def _be_the_child(files: wire.CaseFiles, around: cases.Surroundings, keeper: int) -> None:
    try:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(1)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _move_in(files)
        request = wire.receive(files.talk)
        if request is None:
            os._exit(1)
        reply = _reply(request, around, files.talk)
        cases.flush_everything()
        wire.send(files.talk, reply)
        _be_gone()
    except BaseException:  # a mistake of ours; where it prints is kept with the case
        traceback.print_exc()
    finally:
        os._exit(1)


def _be_gone() -> None:
    """End with nothing more to do. A signal does what `_exit` does, but for callgrind: at an exit
    it would write one more file, for which nobody waits and everybody would have to.
    """
    os.kill(os.getpid(), signal.SIGKILL)


def _reply(request: Any, around: cases.Surroundings, talk: int) -> Any:
    try:
        return cases.answer(request, around, talk)
    except BaseException as error:  # a statement may raise anything, SystemExit too
        return failures.described(error)


def _move_in(files: wire.CaseFiles) -> None:
    """The case gets its own output, nothing to read, and the user's working directory."""
    os.fchdir(files.directory)
    os.dup2(files.stdout, 1)
    os.dup2(files.stderr, 2)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    for descriptor in (files.stdout, files.stderr, files.directory, empty):
        os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        # A crash loses what is still in a buffer.
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]

"""A child for every case: what it does in its life, and what its parent does at its end.

The parent is a keeper or the zygote itself (`serving.py`). It tells the control side which process
to kill when the time is up, and how the process ended.
"""

import contextlib
import ctypes
import os
import signal
import sys
import traceback

from torchmark_probe.zygote import failures, handlers, messages, wire

_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def die_with_parent(how: int) -> None:
    """Ask the kernel for a signal at the death of the parent, whatever kills it."""
    _libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)


def introduce(child: int, talk: int) -> None:
    """Tell the control side which process it is; it leads a group of its own."""
    # The child does this too, so it is done whoever comes first.
    with contextlib.suppress(OSError):  # it has ended already
        os.setpgid(child, child)
    wire.send(talk, messages.Forked(child))


def bury(child: int, talk: int) -> None:
    """Tell how a child ended that has; its own processes end with it."""
    kill_group(child)  # before it is reaped, so the number is still its own
    _, status = os.waitpid(child, 0)
    # The child may have died in the middle of a line.
    wire.write(talk, b"\n" + messages.encode(messages.Ended(status)))


def kill_group(child: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def live(files: wire.CaseFiles, around: handlers.Surroundings, parent: int) -> None:
    """Be the child of one case, from its request to its answer. Called in a fork; never returns."""
    try:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _move_in(files)
        request = wire.receive(files.talk)
        if not isinstance(request, messages.Request):
            os._exit(1)
        outcome = _outcome(request, around, files.talk)
        _flush_everything()
        wire.send(files.talk, messages.Answer(outcome, handlers.collect_reports()))
        be_gone()
    except BaseException:  # a mistake of ours; where it prints is kept with the case
        traceback.print_exc()
    finally:
        os._exit(1)


def be_gone() -> None:
    """End with nothing more to do. A signal does what `_exit` does, but for callgrind: at an exit
    it would write one more file, for which nobody waits and everybody would have to.
    """
    os.kill(os.getpid(), signal.SIGKILL)


def _outcome(
    request: messages.Request, around: handlers.Surroundings, talk: int
) -> messages.Message:
    try:
        return handlers.outcome_of(request, around, talk)
    except BaseException as error:  # a statement may raise anything, SystemExit too
        return failures.describe(error)


def _flush_everything() -> None:
    """What the case printed leaves the process, from Python and from C."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the statement closed it
            stream.flush()
    _libc.fflush(None)


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

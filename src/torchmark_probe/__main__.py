"""The zygote: import torch once, warm up, then fork a child for every case.

Launched normally it takes times; launched under callgrind it counts instructions. Its channel to
the control side is a Unix socket at descriptor 1. Anything that torch or other code prints goes to
descriptor 2, and so does the traceback if torch cannot be imported.
"""

import os
import signal
import site
import socket
import sys
import warnings
from typing import Optional

from torchmark_probe import memory
from torchmark_probe.zygote import (
    cases,  # noqa: F401 - registers handlers
    handlers,
    messages,
    rounds,  # noqa: F401
    serving,
    warmup,
    wire,
)


def main() -> None:
    channel = _own_channel()
    wanted = wire.receive(channel.fileno())
    if not isinstance(wanted, messages.Start):
        return
    around = _start(wanted, channel)
    if around is None:
        return
    serve = serving.serve_counts if around.callgrind else serving.serve_times
    serve(channel, around)


def _own_channel() -> socket.socket:
    """Take the channel from descriptor 1, and redirect printed output to descriptor 2."""
    channel = socket.socket(fileno=os.dup(1))
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If the control side died before this, the channel has ended, which the next read notices.
    serving.die_with_parent(signal.SIGKILL)
    return channel


def _start(wanted: messages.Start, channel: socket.socket) -> Optional[handlers.Surroundings]:
    """Prepare what children run in; None if that failed, which the control side has been told."""

    def tell(stage: str) -> None:
        wire.send(channel.fileno(), messages.StageBegan(stage))

    # Python 3.12 warns about forks of processes with threads; BLAS libraries start some at import.
    warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork.*")
    handlers.remember_own_lines()
    if wanted.layout is not None:
        memory.choose_addresses(wanted.layout, wanted.torch_file)
        site.main()  # not done at the start of this process; see torchmark.engine.zygote.process
    sys.path[:] = wanted.sys_path
    try:
        around = warmup.warm_up(wanted, tell)
    except warmup.ImportFailedError as error:
        wire.send(channel.fileno(), messages.ImportFailed(*error.args))
        return None
    around = around._replace(copies_code=wanted.copies_code)
    wire.send(channel.fileno(), messages.Ready(warmup.facts(around.torch)))
    return around


if __name__ == "__main__":
    main()
    os._exit(0)

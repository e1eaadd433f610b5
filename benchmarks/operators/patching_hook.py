"""The operators of a training script and their inputs, by the lines of seed 003.

    import sys
    sys.path.append('<PATH/TO/benchmarks/operators>')
    from patching_hook import init, hook
    from torch import nn
    nn.modules.module.register_module_forward_pre_hook(hook)
    init()

From `init()` to the end of the script every operator call is recorded, those of the backward pass
and of the optimizer too; nothing is rewritten for it, and nothing of it is left behind. The output
is /tmp/picklefile, or what `init("FILE")` or the variable PATCHING_HOOK_FILE names: a pickle of
dictionaries, lists, text and numbers, that `pickle.load` reads without importing anything.

    {"calls": [{"op": "aten.addmm.default", "schema": …, "args": […], "kwargs": {…}, "outputs": …,
                "count": 3, "places": [{"phase": "forward", "module": "fc1", …, "count": 3}]}, …],
     "unseen": ["2 worker processes of a DataLoader: …"], "torch": "2.13.0"}

Arguments have the form of docs/reference/trace-format.md. `torchmark capture` needs none of these
lines, and writes a trace that can be run again.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import stat
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from torchmark.capture.capture import Capture

if TYPE_CHECKING:
    from torchmark.model.trace import Trace

DEFAULT_FILE = "/tmp/picklefile"  # noqa: S108 - the seed's; see `write` for what keeps it safe

_capture: Capture | None = None


def hook(module: object, inputs: object) -> None:
    """The seed's lines register it; what it would be shown is recorded below the modules."""


def init(file: str | os.PathLike[str] | None = None) -> None:
    """Records from here to the end of the script; said again it does nothing more."""
    global _capture  # noqa: PLW0603 - a script has one
    if _capture is not None:
        return
    path = Path(file or os.environ.get("PATCHING_HOOK_FILE") or DEFAULT_FILE).absolute()
    check(path)
    _capture = Capture()
    atexit.register(finish, _capture, path, os.getpid())
    _capture.__enter__()


def finish(capture: Capture, path: Path, process: int) -> None:
    capture.__exit__(None, None, None)
    if os.getpid() != process:
        return  # a fork of the script, which has its end as well
    try:
        write(path, plain(capture.trace()))
    except OSError as error:
        print(f"patching_hook: {path} could not be written: {error.strerror}", file=sys.stderr)


def plain(trace: Trace) -> dict[str, Any]:
    """The trace in built-in types alone."""
    places: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for (call, place), count in trace.counts.items():
        places[call].append(msgspec.structs.asdict(trace.places[place]) | {"count": count})
    calls = [
        {
            "op": call.op,
            "schema": call.schema,
            "args": call.args,
            "kwargs": dict(call.kwargs),
            "outputs": call.outputs,
            "count": sum(place["count"] for place in places[number]),
            "places": places[number],
        }
        for number, call in enumerate(trace.calls)
        if number in places
    ]
    everything = {"torch": trace.torch, "calls": calls, "unseen": trace.unseen}
    # JSON knows nothing but built-in types, so neither does what comes back from it.
    result: dict[str, Any] = json.loads(json.dumps(everything))
    return result


def check(path: Path) -> None:
    """Raises where another's file, a link or no file at all stands: in /tmp anybody may put one."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    if found is not None and not (stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()):
        raise FileExistsError(
            f"{path} is not a file of yours; name another: init('FILE') or PATCHING_HOOK_FILE=FILE"
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"{path.parent} is no folder that you can write to; name another file"
        )


def write(path: Path, content: dict[str, Any]) -> None:
    """A new file of this user alone, which then takes the name; no link is ever followed."""
    check(path)
    descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            pickle.dump(content, file)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise

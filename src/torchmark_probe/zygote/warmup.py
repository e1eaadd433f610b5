"""What a zygote does once, so that no case has to do it again.

Under callgrind the order matters: torch is imported and every op is run once without
instrumentation, because importing is thirty times slower with it. Then instrumentation starts, and
the same ops run again, so that the parent has their translations and every child inherits them.
"""

import contextlib
import gc
import importlib
import operator
import os
import platform
import sys
import sysconfig
import traceback
from typing import Any, Callable, Dict, List

from torchmark_probe import memory
from torchmark_probe.loops.counted import UnrolledCode
from torchmark_probe.loops.snippets import PythonLoop
from torchmark_probe.zygote import handlers, messages, valgrind, wire
from torchmark_probe.zygote.handlers import Surroundings, offer

_SETUP = """
x = torch.ones((4, 4))
y = torch.ones((4, 4), requires_grad=True)
w = torch.nn.Linear(4, 4)
index = torch.tensor([0, 1])
"""
_STATEMENT = """
x + x
x.add_(1).mul_(1)
x[0]
x[index]
x.sum()
x.t().contiguous().view(-1)
torch.mm(x, x)
z = torch.nn.functional.relu(w(x))
"""
"""The code paths of most statements: the dispatcher, views, indexing, a module."""

_BACKWARD = "(z * y).sum().backward()\n"
"""Adds autograd, if it does not leave threads behind."""


class ImportFailedError(Exception):
    """A module that the user wants cannot be imported; the arguments are its name and the error."""


def warm_up(wanted: messages.Start, tell: Callable[[str], None]) -> Surroundings:
    """Import torch, the given modules if they exist, and the user's modules; then warm up.

    `tell` gets the name of each stage as it begins.
    """
    callgrind = _callgrind()
    where = " under valgrind" if callgrind else ""
    tell("importing torch" + where)
    import torch  # noqa: PLC0415 - after reporting the stage, which takes long

    for name in wanted.modules:
        # Another version of torch may lack it, or something that it imports.
        with contextlib.suppress(ImportError, AttributeError):
            importlib.import_module(name)
    handlers.remember_own_lines()
    torch.set_num_threads(wanted.threads)
    if wanted.imports:
        tell("importing " + ", ".join(wanted.imports) + where)
        _import_all(wanted.imports, wanted.import_path)
    tell("warming up" + where)
    _rehearse(torch, _STATEMENT)
    statement = _STATEMENT + _BACKWARD
    if _leaves_threads(lambda: _rehearse(torch, statement)):
        statement = _STATEMENT
    _rehearse(torch, statement)
    gc.collect()
    gc.freeze()
    gc.disable()
    reserve = memory.Reserve() if callgrind else None
    if callgrind:
        memory.have_had_a_thread()
        memory.empty_the_bins()
        tell("starting instrumentation")
        callgrind.start_instrumentation()
        tell("warming up callgrind")
        _rehearse(torch, statement)
        memory.empty_the_bins()
    return Surroundings(torch=torch, callgrind=callgrind, reserve=reserve)


def _import_all(names: List[str], path: List[str]) -> None:
    """Import the user's modules, searching only where cases find them."""
    before = list(sys.path)
    sys.path[:0] = path
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # the module may raise anything
            traceback.print_exc()
            raise ImportFailedError(name, handlers.headline_of(error)) from error
    sys.path[:] = before


def facts(torch: Any) -> Dict[str, Any]:
    """Return the facts about this environment that the control side needs."""
    return {
        "torch": str(torch.__version__),  # this is not a plain str
        "torch_git": torch.version.git_version,
        "torch_config": torch.__config__.show(),
        "torch_folder": os.path.dirname(os.path.realpath(torch.__file__)),
        "torch_cxx11_abi": bool(torch.compiled_with_cxx11_abi()),
        "torch_openmp": bool(torch.backends.openmp.is_available()),
        "python": platform.python_version(),
        "python_include": sysconfig.get_paths()["include"],
        "executable": sys.executable,
        "pid": os.getpid(),
        "threads": torch.get_num_threads(),
        "fixed_addresses": memory.are_addresses_fixed(),
    }


@offer
def torch_has(paths: List[str]) -> Dict[str, bool]:
    """Return whether torch has these attributes, given by path ("torch.func.vmap")."""
    import torch  # noqa: PLC0415 - already imported when a child calls this

    found = {}
    for path in paths:
        try:
            operator.attrgetter(path.partition(".")[2])(torch)
        except AttributeError:
            found[path] = False
        else:
            found[path] = True
    return found


def _callgrind() -> Any:
    try:
        requests = valgrind.requests()
    except OSError:
        return None  # only needed under callgrind; counting reports an error earlier
    return requests if requests.running_on_valgrind() else None


def _leaves_threads(action: Callable[[], None]) -> bool:
    """Return whether the action starts threads that keep running; tested in a fork.

    A fork has none of its parent's threads. The first backward pass starts one for every device
    except the CPU (in torch 1.11 and earlier built for CUDA, also without a device). Autograd then
    refuses to run in any fork, or waits forever.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] != 0
    status = 1
    try:
        before = len(os.listdir("/proc/self/task"))
        action()
        status = int(len(os.listdir("/proc/self/task")) > before)
    finally:
        os._exit(status)


def _rehearse(torch: Any, statement: str) -> None:
    """Do everything that a child does, so that children need no new code or modules."""
    case = messages.PythonCase(statement, _SETUP)
    request = messages.Request(messages.Count(case, 1, 1), [], None, [])
    wire.decode(wire.encode(request))
    torch.default_generator.manual_seed(0)
    PythonLoop(case.stmt, case.setup, globals={"torch": torch}).timeit(3)
    code = UnrolledCode(case.stmt, case.setup, {"torch": "torch"}, number=1, warmup=1)
    code.run({}, ready=_nothing, toggle=_nothing)
    try:
        PythonLoop("1 / 0").timeit(1)
    except ZeroDivisionError as error:
        wire.encode(messages.Answer(handlers.describe_error(error), {}))


def _nothing() -> None:
    pass

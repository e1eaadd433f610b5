"""Who answers which request: each kind of work has one handler, registered by its module's import.

The zygote knows none of them by name. Its start message says which modules to import beyond its
own; what those register it can do. A request can reach nothing that is not registered.

Code of a case may report facts of it: they come back with its answer, beside what it printed. An
exception travels to the control side as text and facts.
"""

import linecache
import os
import random
import resource
import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

from torchmark_probe.loops.snippets import SnippetSyntaxError, place_of
from torchmark_probe.memory import Reserve
from torchmark_probe.zygote import messages
from torchmark_probe.zygote.valgrind import Requests

_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "not enough memory", "bad_alloc")
"""What torch, the C library and C++ say when an allocation fails and it is no MemoryError."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Surroundings(NamedTuple):
    """What the zygote gives to every case."""

    torch: Any
    """The module, imported once for all cases."""

    callgrind: Optional[Requests]
    """Callgrind's requests, or None in a zygote that was launched plainly."""

    reserve: Optional[Reserve]
    """What a child frees before it counts, so that allocations cost the same in all of them."""


class UnknownRequestError(Exception):
    """A request that this zygote does not answer."""


class UnsupportedError(Exception):
    """What cannot be done here, and is no failure of the case; the sentence says why."""


_handlers: Dict[type, Callable[[Any, Surroundings, int], messages.Message]] = {}
_offered: Dict[str, Callable[..., Any]] = {}
_reported: Dict[str, Any] = {}


def answers(kind: type) -> Callable[[Function], Function]:
    """Register what does this kind of work.

    It gets the work, the surroundings and the socket of the case, for what it has to say before it
    returns the outcome.
    """

    def register(handler: Function) -> Function:
        _handlers[kind] = handler
        return handler

    return register


def offer(function: Function) -> Function:
    """Let a request call this function, with arguments and result as plain JSON."""
    _offered[f"{function.__module__}.{function.__name__}"] = function
    return function


def report(**facts: Any) -> None:
    """Tell the control side something of this case, as plain JSON. The last value of a name counts.

    >>> report(flops=2)
    >>> collect_reports()
    {'flops': 2}
    """
    _reported.update(facts)


def collect_reports() -> Dict[str, Any]:
    """All that was reported in this process, which is then forgotten."""
    facts = dict(_reported)
    _reported.clear()
    return facts


def outcome_of(request: messages.Request, around: Surroundings, talk: int) -> messages.Message:
    """Do what the request asks; an exception is an outcome too."""
    try:
        return _answer(request, around, talk)
    except BaseException as error:  # a statement may raise anything, SystemExit too
        return describe_error(error)


def _answer(request: messages.Request, around: Surroundings, talk: int) -> messages.Message:
    if request.memory is not None:
        # Valgrind keeps RLIMIT_DATA for itself.
        limit_memory(
            request.memory, resource.RLIMIT_AS if around.callgrind else resource.RLIMIT_DATA
        )
    sys.path[:0] = request.path
    _seed_everything(around.torch)
    if request.cores:
        os.sched_setaffinity(0, request.cores)
    handler = _handlers.get(type(request.work))
    if handler is None:
        raise not_answered(request.work)
    return handler(request.work, around, talk)


def not_answered(work: messages.Message) -> UnknownRequestError:
    return UnknownRequestError(f"this zygote does not answer the request {type(work).__name__!r}")


@answers(messages.Call)
def _call(work: messages.Call, _around: Surroundings, _talk: int) -> messages.Value:
    if work.function not in _offered:
        raise UnknownRequestError(f"this zygote offers no function {work.function!r}")
    return messages.Value(_offered[work.function](*work.arguments))


def limit_memory(extra: int, kind: int = resource.RLIMIT_DATA) -> None:
    """Let this process take `extra` bytes beyond what it has, unless it may only take less.

    RLIMIT_DATA counts what is written to, RLIMIT_AS the address space.
    """
    with open("/proc/self/statm") as file:
        pages = file.read().split()[0 if kind == resource.RLIMIT_AS else 5]
    wanted = int(pages) * resource.getpagesize() + extra
    soft, hard = resource.getrlimit(kind)
    if soft < 0 or wanted < soft:
        resource.setrlimit(kind, (wanted, hard))


def _seed_everything(torch: Any) -> None:
    """The same numbers in every child: Python draws a new seed at a fork."""
    random.seed(0)
    # torch.manual_seed goes through every kind of device, with a traceback for each.
    torch.default_generator.manual_seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)


def remember_own_lines() -> None:
    """Keep the probe's own source for tracebacks: a child has no longer the archive to read."""
    for module in list(sys.modules.values()):
        name: str = getattr(module, "__name__", "")
        loader: Any = getattr(module, "__loader__", None)
        if name.partition(".")[0] == "torchmark_probe" and hasattr(loader, "get_source"):
            text = loader.get_source(name) or ""
            file = str(module.__file__)
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)


def describe_error(error: BaseException) -> messages.Message:
    """The outcome of a case that raised: the user's part of it."""
    if isinstance(error, SnippetSyntaxError):
        wrong = error.error
        # The end is known from Python 3.10 on.
        names = ("lineno", "offset", "text", "end_lineno", "end_offset")
        details = [getattr(wrong, name, None) for name in names]
        return messages.SyntaxFailed(error.part, wrong.msg, details)
    if isinstance(error, UnsupportedError):
        return messages.Unsupported(str(error))
    last = traceback.format_exception_only(type(error), error)
    text = "\n".join(users_frames(error, _OWN_ROOT) + [line.rstrip("\n") for line in last])
    is_memory = isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY)
    return messages.Raised(text, is_memory)


def users_frames(error: BaseException, *own_roots: str) -> List[str]:
    """The traceback from the statement on, with the user's own parts and line numbers.

    Files below `own_roots` say nothing about the mistake.
    """
    lines: List[str] = []
    is_in_snippet = False
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(own_roots):
            continue
        place = place_of(frame.filename, frame.lineno or 0)
        if place is None:
            lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        else:
            if not is_in_snippet:
                lines.clear()  # what called the statement
            is_in_snippet = True
            lines.append(f"  In the {place.part}, line {place.line}:")
        if frame.line:
            lines.append(f"    {frame.line}")
    return lines

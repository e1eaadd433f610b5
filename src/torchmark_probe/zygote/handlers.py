"""Who answers which request: each kind of work has one handler, registered by its module's import.

The zygote knows none of them by name. Its start message says which modules to import beyond its
own; what those register it can do. A request can reach nothing that is not registered.

Code of a case may report facts of it: they come back with its answer, beside what it printed.
"""

import os
import random
import resource
import sys
from typing import Any, Callable, Dict, NamedTuple, Optional, Type, TypeVar

from torchmark_probe.memory import layout
from torchmark_probe.zygote.messages import Call, Message, Request, Value
from torchmark_probe.zygote.valgrind import Requests

_PAGE_SIZE = resource.getpagesize()

Work = TypeVar("Work", bound=Message)
Function = TypeVar("Function", bound=Callable[..., Any])


class Surroundings(NamedTuple):
    """What the zygote gives to every case."""

    torch: Any
    """The module, imported once for all cases."""

    callgrind: Optional[Requests]
    """Callgrind's requests, or None in a zygote that was launched plainly."""

    reserve: Optional[layout.Reserve]
    """What a child frees before it counts, so that allocations cost the same in all of them."""


class UnknownRequestError(Exception):
    """A request that this zygote does not answer."""


_handlers: Dict[type, Callable[[Any, Surroundings, int], Message]] = {}
_offered: Dict[str, Callable[..., Any]] = {}
_reported: Dict[str, Any] = {}


def answers(
    kind: Type[Work],
) -> Callable[
    [Callable[[Work, Surroundings, int], Message]], Callable[[Work, Surroundings, int], Message]
]:
    """Register what does this kind of work.

    It gets the work, the surroundings and the socket of the case, for what it has to say before it
    returns the outcome.
    """

    def register(
        handler: Callable[[Work, Surroundings, int], Message],
    ) -> Callable[[Work, Surroundings, int], Message]:
        _handlers[kind] = handler
        return handler

    return register


def offer(function: Function) -> Function:
    """Let a request call this function, with arguments and result as plain JSON."""
    _offered["{}.{}".format(function.__module__, function.__name__)] = function
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


def outcome_of(request: Request, around: Surroundings, talk: int) -> Message:
    """Do what the request asks; what the case raises passes through."""
    _limit_memory(request.memory, around.callgrind is not None)
    sys.path[:0] = request.path
    _seed_everything(around.torch)
    if request.cores:
        os.sched_setaffinity(0, request.cores)
    handler = _handlers.get(type(request.work))
    if handler is None:
        raise not_answered(request.work)
    return handler(request.work, around, talk)


def not_answered(work: Message) -> UnknownRequestError:
    name = type(work).__name__
    return UnknownRequestError("this zygote does not answer the request {!r}".format(name))


@answers(Call)
def _call(work: Call, _around: Surroundings, _talk: int) -> Value:
    if work.function not in _offered:
        raise UnknownRequestError("this zygote offers no function {!r}".format(work.function))
    return Value(_offered[work.function](*work.arguments))


def _limit_memory(extra: Optional[int], is_under_valgrind: bool) -> None:
    """Let the case take `extra` bytes beyond what the zygote has already.

    RLIMIT_DATA counts what is written to; valgrind keeps that one for itself, so there the
    address space is limited.
    """
    if extra is None:
        return
    with open("/proc/self/statm") as file:
        sizes = [int(field) * _PAGE_SIZE for field in file.read().split()]
    kind, used = (
        (resource.RLIMIT_AS, sizes[0]) if is_under_valgrind else (resource.RLIMIT_DATA, sizes[5])
    )
    _, hard = resource.getrlimit(kind)
    wanted = used + extra
    resource.setrlimit(kind, (wanted if hard < 0 else min(wanted, hard), hard))


def _seed_everything(torch: Any) -> None:
    """The same numbers in every child: Python draws a new seed at a fork."""
    random.seed(0)
    # torch.manual_seed goes through every kind of device, with a traceback for each.
    torch.default_generator.manual_seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)

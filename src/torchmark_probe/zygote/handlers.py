"""Who answers which request: each kind of work has one handler, registered by its module's import.

The zygote knows none of them by name. Its start message says which modules to import beyond its
own; what those register it can do. A request can reach nothing that is not registered.

Code of a case may report facts of it: they come back with its answer, beside what it printed. An
exception travels to the control side as text and facts.
"""

import linecache
import os
import random
import re
import resource
import sys
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Optional, TypeVar

from torchmark_probe.loops.snippets import SnippetSyntaxError, place_of
from torchmark_probe.memory import Reserve
from torchmark_probe.zygote import messages
from torchmark_probe.zygote.lacking import what_is_lacking
from torchmark_probe.zygote.valgrind import Requests

_OWN_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_NO_MEMORY = ("can't allocate memory", "Cannot allocate memory", "not enough memory", "bad_alloc")
"""What torch, the C library and C++ say when an allocation fails and it is no MemoryError."""

_LONGEST_LINE = 200
"""Characters of an exception that is told on one line."""

_LONGEST_TEXT = 32 * 1024
"""Characters of what an exception and its causes say: a message may hold a whole tensor."""

_MOST_CAUSES = 5

_SHOWN_LINES = 12
"""Lines of a traceback that are kept at its start and at its end; a recursion has thousands."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Surroundings(NamedTuple):
    """What the zygote gives to every case."""

    torch: Any
    """The module, imported once for all cases."""

    callgrind: Optional[Requests]
    """Callgrind's requests, or None in a zygote that was launched plainly."""

    reserve: Optional[Reserve]
    """What a child frees before it counts, so that allocations cost the same in all of them."""

    copies_code: bool = False
    """Whether a child that is timed puts the code that it runs into pages of its own."""


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
    text = full_text(error)
    kind = type(error)
    return messages.Raised(
        headline=headline_of(error),
        frames="\n".join(_users_frames(error)),
        text=text,
        builtin=kind.__name__ if kind.__module__ == "builtins" else "",
        is_memory=kind is MemoryError or any(sign in text for sign in _NO_MEMORY),
        lacking=what_is_lacking(error),
    )


def why_unsupported(error: BaseException) -> str:
    """Why something cannot be done here, in a sentence; empty for what failed otherwise."""
    return str(error) if isinstance(error, UnsupportedError) else what_is_lacking(error)


def headline_of(error: BaseException) -> str:
    r"""The type of an exception and the line that says what happened, not too long.

    That is the first one: torch's messages go on with where they come from in C++, line after line.
    Some first lines only announce what comes.

    >>> headline_of(ValueError("sizes differ\nException raised from add at Add.cpp:1"))
    'ValueError: sizes differ'
    """
    printed = traceback.format_exception_only(type(error), error)
    # What a SyntaxError has before its type is indented.
    said = next((part for part in printed if not part.startswith(" ")), printed[-1])
    line = _what_happened(said)
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


_SCRIPT_FAILED = "The following operation failed in the TorchScript interpreter."
"""How a message begins that goes on with the script, and ends with what was raised in there."""

_RAISED_IN_SCRIPT = re.compile(r"(?:builtins\.)?([\w.]+: .*)")


def _what_happened(said: str) -> str:
    first, *more = [line.strip() for line in said[:_LONGEST_TEXT].splitlines() if line.strip()]
    if first.endswith(_SCRIPT_FAILED):
        script = said.partition("\n")[2][-_LONGEST_TEXT:]
        below = script.rpartition("<--- HERE")[2]  # a traced function has no such mark
        found = map(_RAISED_IN_SCRIPT.match, below.splitlines())
        return next((match.group(1) for match in found if match), first)
    if more and first.endswith(":"):
        return f"{first} {more[0]}"
    if more and more[0].startswith("Explanation: "):  # of torch.compile
        why = more[0].partition(": ")[2]
        _, _, raised = why.rpartition(": got ")
        return f"{first}: {raised or why}"
    return first


def full_text(error: BaseException) -> str:
    """An exception as Python prints it, below it what caused it; a very long text is cut."""
    texts: List[str] = []
    cause: Optional[BaseException] = error
    why = ""
    while cause is not None and len(texts) < _MOST_CAUSES:
        texts.append(why + "".join(traceback.format_exception_only(type(cause), cause)).strip("\n"))
        why = "caused by " if cause.__cause__ else "raised while handling "
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    text = "\n".join(texts)
    left_out = len(text) - _LONGEST_TEXT
    return text if left_out <= 0 else f"{text[:_LONGEST_TEXT]}\n[{left_out} characters left out]"


def _users_frames(error: BaseException) -> List[str]:
    """The traceback from the statement on, with the user's own parts and line numbers.

    The probe's own files say nothing about the mistake.
    """
    lines: List[str] = []
    is_in_snippet = False
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename.startswith(_OWN_ROOT):
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
    left_out = len(lines) - 2 * _SHOWN_LINES
    if left_out > 0:
        lines[_SHOWN_LINES:-_SHOWN_LINES] = [f"  … {left_out} lines left out …"]
    return lines

"""Maps requests to handlers: each kind of work has one handler, which its module registers.

The zygote does not know the handlers by name. Its start message names the modules to import, and
these register what the zygote can do. A request can only reach registered functions.

The code of a case may report facts, which are returned with its answer in addition to its output.
An exception is sent to the control side as text and facts.
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
"""What torch, the C library and C++ say if an allocation fails without a MemoryError."""

_LONGEST_LINE = 200
"""Maximum characters of an exception that is shown on one line."""

_LONGEST_TEXT = 32 * 1024
"""Maximum characters of an exception with its causes: a message may contain a whole tensor."""

_MOST_CAUSES = 5

_SHOWN_LINES = 12
"""Lines of a traceback to keep from its start and from its end; a recursion has thousands."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Surroundings(NamedTuple):
    """What the zygote provides for every case."""

    torch: Any
    """The module, imported once for all cases."""

    callgrind: Optional[Requests]
    """Callgrind's requests; None in a zygote without callgrind."""

    reserve: Optional[Reserve]
    """Objects that a child frees before it counts, so that allocations cost the same in each."""

    copies_code: bool = False
    """Whether a timed child copies the code that it runs to new pages."""


class UnknownRequestError(Exception):
    """The zygote has no handler for the request."""


class UnsupportedError(Exception):
    """Something is not possible here, which is not a failure of the case; the text says why."""


_handlers: Dict[type, Callable[[Any, Surroundings, int], messages.Message]] = {}
_offered: Dict[str, Callable[..., Any]] = {}
_reported: Dict[str, Any] = {}


def answers(kind: type) -> Callable[[Function], Function]:
    """Register the handler for this kind of work.

    It gets the work, the surroundings and the socket of the case, over which it can send messages
    before it returns the outcome.
    """

    def register(handler: Function) -> Function:
        _handlers[kind] = handler
        return handler

    return register


def offer(function: Function) -> Function:
    """Let requests call this function, with plain JSON as arguments and result."""
    _offered[f"{function.__module__}.{function.__name__}"] = function
    return function


def report(**facts: Any) -> None:
    """Report facts of this case to the control side, as plain JSON; later values replace earlier.

    >>> report(flops=2)
    >>> collect_reports()
    {'flops': 2}
    """
    _reported.update(facts)


def collect_reports() -> Dict[str, Any]:
    """Return everything that was reported in this process, and forget it."""
    facts = dict(_reported)
    _reported.clear()
    return facts


def outcome_of(request: messages.Request, around: Surroundings, talk: int) -> messages.Message:
    """Do the work of the request; an exception is an outcome too."""
    try:
        return _answer(request, around, talk)
    except BaseException as error:  # a statement may raise anything, SystemExit too
        return describe_error(error)


def _answer(request: messages.Request, around: Surroundings, talk: int) -> messages.Message:
    if request.memory is not None:
        # Valgrind uses RLIMIT_DATA itself.
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
    """Let this process take `extra` bytes more than it has, unless its limit is lower.

    RLIMIT_DATA counts writable memory, RLIMIT_AS the address space.
    """
    with open("/proc/self/statm") as file:
        pages = file.read().split()[0 if kind == resource.RLIMIT_AS else 5]
    wanted = int(pages) * resource.getpagesize() + extra
    soft, hard = resource.getrlimit(kind)
    if soft < 0 or wanted < soft:
        resource.setrlimit(kind, (wanted, hard))


def _seed_everything(torch: Any) -> None:
    """Use the same random numbers in every child; Python seeds anew after a fork."""
    random.seed(0)
    # torch.manual_seed visits every kind of device, and creates a traceback for each.
    torch.default_generator.manual_seed(0)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(0)


def remember_own_lines() -> None:
    """Keep the probe's source for tracebacks, because a child can no longer read the archive."""
    for module in list(sys.modules.values()):
        name: str = getattr(module, "__name__", "")
        loader: Any = getattr(module, "__loader__", None)
        if name.partition(".")[0] == "torchmark_probe" and hasattr(loader, "get_source"):
            text = loader.get_source(name) or ""
            file = str(module.__file__)
            linecache.cache[file] = (len(text), None, text.splitlines(True), file)


def describe_error(error: BaseException) -> messages.Message:
    """Return the outcome of a case that raised, with the user's part of the traceback."""
    if isinstance(error, SnippetSyntaxError):
        wrong = error.error
        # The end position is known since Python 3.10.
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
    """Say in a sentence why something is not possible here; empty for other failures."""
    return str(error) if isinstance(error, UnsupportedError) else what_is_lacking(error)


def headline_of(error: BaseException) -> str:
    r"""Return the type of an exception and the line that says what happened, shortened.

    This is usually the first line: torch's messages continue with lines about their origin in C++.
    Some first lines only announce what follows.

    >>> headline_of(ValueError("sizes differ\nException raised from add at Add.cpp:1"))
    'ValueError: sizes differ'
    """
    printed = traceback.format_exception_only(type(error), error)
    # A SyntaxError has indented lines before its type.
    said = next((part for part in printed if not part.startswith(" ")), printed[-1])
    line = _what_happened(said)
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + "…"


_SCRIPT_FAILED = "The following operation failed in the TorchScript interpreter."
"""Start of a message that continues with the script and ends with the exception raised in it."""

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
    """Return an exception as Python prints it, followed by its causes; very long text is cut."""
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
    """Return the traceback from the statement on, with the user's parts and line numbers.

    Frames of the probe are left out, because they do not explain the mistake.
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

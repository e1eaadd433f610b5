"""Turns the output of a compiler or linker into problems at lines of the user's code.

An error in a header belongs to the statement that made the compiler read it. g++ names that place
in lines before the error ("required from here"), clang in lines after it ("requested here"). The
rest of the 200 lines that a template mistake prints is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from torchmark.engine.cpp.source import CppStatement, Problem, imbalance_of

_MOST_PROBLEMS = 3
"""Errors that are shown per statement; later ones mostly follow from the first."""

_LONGEST_MESSAGE = 300
"""Characters of one message; template types can take thousands."""

_DIAGNOSTIC = re.compile(
    r"^(?P<file><\w+ \d+>|[^:\n]+):(?:(?P<line>\d+):)?(?:(?P<column>\d+):)?\s+"
    r"(?P<kind>fatal error|error|warning|note): (?P<message>.*)$"
)
_PLACE = re.compile(r"<(?P<part>stmt|setup|global_setup|torchmark) (?P<number>\d+)>:(?P<line>\d+)")
_CONTEXT = re.compile(
    r"In file included from|^ +from |In instantiation of|required (from|by)|In sub"
)
_IN_FUNCTION = re.compile(r"(?:torchmark_run_|torchmark_)(\d+)\b")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) (?P<name>.*)")
_SYNTAX = re.compile(
    r"expected|unterminated|missing terminating|stray |extraneous|before .* token|"
    r"a function-definition is not allowed|at end of input|#if|#endif|#else"
)

_SCOPE = r"(?:namespace )?['‘](?:class )?((?:torch|at|c10)(?:::\w+)*)['’]"
_LACKING = (
    (re.compile(rf"['‘](\w+)['’] is not a member of {_SCOPE}"), "{1}::{0}"),
    (re.compile(rf"{_SCOPE} has no member named ['‘](\w+)['’]"), "{}::{}"),
    (re.compile(rf"no member named ['‘](\w+)['’] in {_SCOPE}"), "{1}::{0}"),
    (re.compile(r"^((?:torch|ATen|c10)/\S+): No such file"), "header {}"),
    (re.compile(r"^['‘]((?:torch|ATen|c10)/\S+)['’] file not found"), "header {}"),
)
"""How g++ and clang report a name that torch does not have, and how to write that name."""

_PART_NAMES = {
    "stmt": "statement",
    "setup": "setup",
    "global_setup": "global setup",
    "torchmark": "end of a part",
}


def problems_in(output: str) -> dict[int, list[Problem]]:
    """Return the errors by the number of their statement; errors that name none are left out."""
    lines = output.splitlines()
    problems: dict[int, list[Problem]] = {}
    context: list[str] = []
    for index, line in enumerate(lines):
        found = _DIAGNOSTIC.match(line)
        undefined = _UNDEFINED.search(line)
        if found is None and undefined is None:
            if _CONTEXT.search(line):
                context.append(line)
            continue
        told = None
        if undefined is not None:
            told = _of_linker(lines[: index + 1], undefined["name"])
        elif found is not None and found["kind"].endswith("error"):
            told = _of_compiler(line, context, lines[index + 1 :], found["message"])
        context = []
        if told is not None:
            number, problem = told
            own = problems.setdefault(number, [])
            if problem not in own:
                own.append(problem)
    return problems


def surely_guilty(problems: Mapping[int, Sequence[Problem]]) -> tuple[int, ...]:
    """Return the statements named, up to the first syntax error, which may cause the others."""
    guilty = []
    for number in sorted(problems):
        guilty.append(number)
        if any(_SYNTAX.search(problem.message) for problem in problems[number]):
            break
    return tuple(guilty)


def explain(
    statement: CppStatement, problems: Sequence[Problem], output: str, compiler: str
) -> str:
    """Explain the failure to the user: their own lines, and what the compiler said about them."""
    imbalance = imbalance_of(statement)
    shown = [*([imbalance] if imbalance is not None else []), *problems[:_MOST_PROBLEMS]]
    lines = ["the C++ statement does not compile:"]
    for part, line, message in shown:
        own = getattr(statement, part, "").split("\n")
        if 1 <= line <= len(own):
            lines.append(f"  {_PART_NAMES[part]}, line {line}: {message}")
            lines.append(f"    {own[line - 1].strip()}")
        else:
            lines.append(f"  {_PART_NAMES[part]}: {message}")
    if len(problems) > _MOST_PROBLEMS:
        lines.append(f"  and {len(problems) - _MOST_PROBLEMS} more errors")
    if not shown:
        said = _first_errors(output) or ["nothing"]
        lines += [f"  {compiler} said:", *(f"    {line}" for line in said)]
    return "\n".join(lines)


def what_is_lacking(problems: Sequence[Problem], version: str) -> str:
    """Say in a sentence what this version of torch lacks in C++; empty if this is not the cause.

    >>> what_is_lacking([Problem("stmt", 1, "'vmap' is not a member of 'torch'")], "1.13.1")
    'torch 1.13.1 has no torch::vmap'
    """
    for _, _, message in problems[:1]:
        for pattern, name in _LACKING:
            found = pattern.search(message)
            if found is not None:
                return f"torch {version} has no {name.format(*found.groups())}"
    return ""


def _first_errors(output: str) -> list[str]:
    """The first three messages of an output that names no statement."""
    said = [_shorten(line.strip()) for line in output.splitlines() if line.strip()]
    errors = [line for line in said if "error" in line]
    return (errors or said)[:3]


def _of_compiler(
    line: str, context: list[str], following: list[str], message: str
) -> tuple[int, Problem] | None:
    place = _PLACE.match(line)
    if place is None:
        # The innermost place is the last one before the error, and the first one after it.
        places = map(_PLACE.search, [*reversed(context), *_notes(following)])
        place = next(filter(None, places), None)
        message = f"{message} (in {line.partition(': ')[0]})"
    if place is None:
        return None
    return int(place["number"]), Problem(place["part"], int(place["line"]), _shorten(message))


def _notes(following: list[str]) -> list[str]:
    notes = []
    for line in following:
        found = _DIAGNOSTIC.match(line)
        if found is not None and found["kind"].endswith("error"):
            break
        if found is not None and "requested here" in line:
            notes.append(line)
    return notes


def _of_linker(until_here: list[str], name: str) -> tuple[int, Problem] | None:
    """Find the statement of a linker error: `ld` names the function on this line or just before."""
    for line in reversed(until_here[-20:]):
        function = _IN_FUNCTION.search(line)
        if function is not None:
            message = f"undefined reference to {name}: no library of torch defines it"
            return int(function[1]), Problem("stmt", 0, _shorten(message))
    return None


def _shorten(message: str) -> str:
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return message[: _LONGEST_MESSAGE - 2] + " …"

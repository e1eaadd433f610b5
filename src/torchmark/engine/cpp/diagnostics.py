"""What a compiler or linker said becomes problems at places of the user's own code.

A message about a header belongs to the statement that made the compiler look there: g++ says so
on the lines before the error ("required from here"), clang on those after it ("requested here").
Everything else of the two hundred lines that a template mistake prints is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST_MESSAGE = 300
"""Characters of one message; types of templates go on for thousands."""

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

PART_NAMES = {
    "stmt": "statement",
    "setup": "setup",
    "global_setup": "global setup",
    "torchmark": "end of a part",
}
"""How the parts of a statement are called in messages."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error, at a place of the user's code."""

    number: int
    """Which statement of the unit."""

    part: str
    """stmt, setup, global_setup, or torchmark for the code around them."""

    line: int
    """Counted from 1 in that part; 0 where a linker names the function alone."""

    message: str
    """In the words of the compiler."""

    def breaks_syntax(self) -> bool:
        """Whether errors that follow may only be its echo."""
        return _SYNTAX.search(self.message) is not None


def problems_in(output: str) -> list[Problem]:
    """All errors of which the output says to whose code they belong, in its order."""
    lines = output.splitlines()
    problems = []
    context: list[str] = []
    for index, line in enumerate(lines):
        found = _DIAGNOSTIC.match(line)
        undefined = _UNDEFINED.search(line)
        if found is None and undefined is None:
            if _CONTEXT.search(line):
                context.append(line)
            continue
        if undefined is not None:
            problem = _of_linker(lines[: index + 1], undefined["name"])
        elif found is not None and found["kind"].endswith("error"):
            problem = _of_compiler(line, context, lines[index + 1 :], found["message"])
        else:
            problem = None
        context = []
        if problem is not None and problem not in problems:
            problems.append(problem)
    return problems


def first_errors(output: str) -> list[str]:
    """The first three messages of an output that names no statement, for want of better ones."""
    said = [_shorten(line.strip()) for line in output.splitlines() if line.strip()]
    errors = [line for line in said if "error" in line]
    return (errors or said)[:3]


def _of_compiler(
    line: str, context: list[str], following: list[str], message: str
) -> Problem | None:
    place = _PLACE.match(line)
    if place is None:
        # The innermost place comes last before the error, and first after it.
        places = [_PLACE.search(text) for text in [*reversed(context), *_notes(following)]]
        place = next((found for found in places if found is not None), None)
        message = f"{message} (in {line.partition(': ')[0]})"
    if place is None:
        return None
    return Problem(int(place["number"]), place["part"], int(place["line"]), _shorten(message))


def _notes(following: list[str]) -> list[str]:
    notes = []
    for line in following:
        found = _DIAGNOSTIC.match(line)
        if found is not None and found["kind"].endswith("error"):
            break
        if found is not None and "requested here" in line:
            notes.append(line)
    return notes


def _of_linker(until_here: list[str], name: str) -> Problem | None:
    """`ld` names the function in this line or in one shortly before it."""
    for line in reversed(until_here[-20:]):
        function = _IN_FUNCTION.search(line)
        if function is not None:
            message = f"undefined reference to {name}: no library that torch has defines it"
            return Problem(int(function[1]), "stmt", 0, _shorten(message))
    return None


def _shorten(message: str) -> str:
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return message[: _LONGEST_MESSAGE - 2] + " …"

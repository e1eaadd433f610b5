"""`-k PATTERN`: selects cases by parts of their titles, or by their ids.

    any     = all ("or" all)*
    all     = each (["and"] each)*
    each    = "not" each | "(" any ")" | word

A word is anything without blanks and parentheses, or anything in quotes. It matches if the title
contains it, in any case, or if it is the whole id.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from torchmark.errors import PatternError

if TYPE_CHECKING:
    from torchmark.model.case import Case

Condition = Callable[["_Names"], bool]

_DEEPEST = 100
"""Maximum nesting of parentheses and `not`: more than anybody writes by hand."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[()])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()]+))"""
)


class _Names(NamedTuple):
    """The names of a case in lower case."""

    title: str
    id: str


class _Token(NamedTuple):
    text: str
    """In lower case, without quotes; empty at the end."""

    start: int
    is_plain: bool
    """Not in quotes, so that words like `or` and parentheses have their special meaning."""

    def means(self, *words: str) -> bool:
        return self.is_plain and self.text in words


def selected(cases: Iterable[Case], pattern: str) -> tuple[Case, ...]:
    """Return the cases that match the pattern, in order; an empty pattern matches all.

    >>> from torchmark.model.case import Case
    >>> cases = [Case(label=("add", "float"), stmt="x"), Case(label=("add", "int"), stmt="x")]
    >>> [case.label for case in selected(cases, "add not float")]
    [('add', 'int')]
    """
    condition = _Parser(pattern).condition()
    return tuple(case for case in cases if condition(_Names(case.title.lower(), case.id)))


class _Parser:
    """Parses a pattern into a condition on the names of a case."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._tokens = collections.deque(_tokens(pattern))
        self._depth = 0

    def condition(self) -> Condition:
        if self._next.means(""):
            return lambda _: True
        condition = self._any()
        if not self._next.means(""):
            self._fail("unmatched ')'")
        return condition

    @property
    def _next(self) -> _Token:
        return self._tokens[0]

    def _any(self) -> Condition:
        options = [self._all()]
        while self._accept("or"):
            options.append(self._all())
        return lambda names: any(option(names) for option in options)

    def _all(self) -> Condition:
        parts = [self._each()]
        while not self._next.means("or", ")", ""):
            self._accept("and")
            parts.append(self._each())
        return lambda names: all(part(names) for part in parts)

    def _each(self) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} nested parentheses or nots")
        condition = self._one()
        self._depth -= 1
        return condition

    def _one(self) -> Condition:
        if self._next.means("", "and", "or", ")"):
            self._fail("expected a word")
        if self._accept("not"):
            part = self._each()
            return lambda names: not part(names)
        if self._accept("("):
            inside = self._any()
            if not self._accept(")"):
                self._fail("expected ')'")
            return inside
        word = self._tokens.popleft().text
        return lambda names: word in names.title or word == names.id

    def _accept(self, mark: str) -> bool:
        """Consume the next token if it is this mark; return whether it was."""
        is_next = self._next.means(mark)
        if is_next:
            self._tokens.popleft()
        return is_next

    def _fail(self, message: str) -> NoReturn:
        raise PatternError(
            f"the pattern cannot be read: {message}:",
            text=self._pattern,
            position=self._next.start,
        )


def _tokens(pattern: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(pattern):
        kind = match.lastgroup
        assert kind is not None, "one of the groups has matched"
        start = match.end() - len(match[0].lstrip())
        found.append(_Token(match[kind].lower(), start, kind in ("mark", "word")))
    return [*found, _Token("", len(pattern), is_plain=True)]

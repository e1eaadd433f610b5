"""Signatures: what a statement reads and what it computes, as in `f(x, w) -> y`.

    signature = NAME "(" [variable ("," variable)* [","]] ")" "->" outputs
    outputs   = "None" | output ("," output)* [","]
    output    = variable | "(" output ("," output)* [","] ")"
    variable  = NAME [":" type]
    type      = NAME ("." NAME)* ["[" type ("," type)* "]"]

Commas and parentheses mean the same as in Python: `(y)` is y, `(y,)` is a tuple of one. A variable
without a type is a Tensor, as in TorchScript.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import NoReturn

from torchmark.errors import SignatureError

TENSOR = "Tensor"
"""The type of a variable without a type."""

OUTPUT_TYPES = (TENSOR, "int", "float", "bool")
"""Types that an output may have: those that C++ can take out of a scripted model."""

RESERVED = frozenset({"torch", "model", "jit_model", "compiled_model", "ivalue_inputs"})
"""Names that torchmark uses in the statements it makes from a signature."""

_DEEPEST = 100
"""Maximum nesting of brackets: more than anybody writes by hand."""

_TOKEN = re.compile(r"\s*(?:(?P<name>[^\W\d]\w*)|(?P<mark>->|[(),:.\[\]])|(?P<other>\S)|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A name with its type."""

    name: str
    type: str = TENSOR
    """As TorchScript writes it."""

    def __str__(self) -> str:
        return self.name if self.type == TENSOR else f"{self.name}: {self.type}"


Output = Variable | tuple["Output", ...]
"""An output: a variable, or a tuple of outputs, nested as in the signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a statement reads and what it computes.

    >>> signature = Signature.parse("f(x, n: int) -> y, (h, c)")
    >>> [variable.name for variable in signature.args], signature.py_output
    (['x', 'n'], 'y, (h, c)')
    """

    name: str
    """The function's name, which only appears in the source of scripted functions."""

    args: tuple[Variable, ...]
    """Variables that the setup has made."""

    output: Output | None
    """What the statement computes; None if it returns nothing."""

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Parse a signature; a SignatureError points at the mistake."""
        return _Parser(text).signature()

    @property
    def outputs(self) -> tuple[Variable, ...]:
        """All variables of the output, from left to right."""
        return () if self.output is None else tuple(_leaves(self.output))

    @property
    def py_output(self) -> str:
        """The output as the left side of an assignment, which also works after `return`."""
        return self._output_text(typed=False)

    def __str__(self) -> str:
        args = ", ".join(map(str, self.args))
        return f"{self.name}({args}) -> {self._output_text(typed=True)}"

    def _output_text(self, *, typed: bool) -> str:
        if self.output is None:
            return "None"
        text = _text(self.output, typed)
        needs_no_brackets = isinstance(self.output, tuple) and len(self.output) > 1
        return text[1:-1] if needs_no_brackets else text


def _leaves(output: Output) -> list[Variable]:
    if isinstance(output, Variable):
        return [output]
    return [leaf for part in output for leaf in _leaves(part)]


def _text(output: Output, typed: bool) -> str:
    if isinstance(output, Variable):
        return str(output) if typed else output.name
    inside = ", ".join(_text(part, typed) for part in output)
    return f"({inside},)" if len(output) == 1 else f"({inside})"


class _Parser:
    """Reads one token ahead; errors have the position of that token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0
        self._start = 0
        self._ahead = ""
        self._is_name = False
        self._depth = 0
        self._advance()

    def signature(self) -> Signature:
        name = self._name("the name of a function")
        self._mark("(")
        args: dict[str, Variable] = {}
        while self._ahead != ")":
            variable = self._variable(args)
            args[variable.name] = variable
            if not self._accept(","):
                break
        self._mark(")")
        self._mark("->")
        output = None if self._accept("None") else self._output_list(set(), end="")
        if self._ahead:
            self._fail("expected the end")
        return Signature(name=name, args=tuple(args.values()), output=output)

    def _output_list(self, seen: set[str], end: str) -> Output:
        """Parse outputs between commas, up to the token `end`; one without a comma is no tuple."""
        parts = [self._output(seen)]
        is_tuple = False
        while self._accept(","):
            is_tuple = True
            if self._ahead == end:
                break
            parts.append(self._output(seen))
        return tuple(parts) if is_tuple else parts[0]

    def _output(self, seen: set[str]) -> Output:
        if self._accept("("):
            with self._deeper():
                inside = self._output_list(seen, end=")")
            self._mark(")")
            return inside
        variable = self._variable(seen, types=OUTPUT_TYPES)
        seen.add(variable.name)
        return variable

    def _variable(self, seen: Container[str], types: tuple[str, ...] | None = None) -> Variable:
        if self._is_name and self._ahead in seen:
            self._fail(f"duplicate variable {self._ahead}:", got=False)
        if self._ahead in RESERVED:
            self._fail(f"the name {self._ahead} is reserved by torchmark:", got=False)
        name = self._name("a variable")
        if not self._accept(":"):
            return Variable(name=name)
        start, kind = self._start, self._type().removeprefix("torch.")
        if types is not None and kind not in types:
            self._start = start
            self._fail(f"an output must be one of {', '.join(types)}:", got=False)
        return Variable(name=name, type=kind)

    def _type(self) -> str:
        text = self._name("a type")
        while self._accept("."):
            text += f".{self._name('a type')}"
        if self._ahead == "[":
            inside: list[str] = []
            while not inside or self._ahead == ",":
                self._advance()
                with self._deeper():
                    inside.append(self._type())
            self._mark("]")
            text += f"[{', '.join(inside)}]"
        return text

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} nested brackets:", got=False)
        yield
        self._depth -= 1

    def _name(self, what: str) -> str:
        name = self._ahead
        if not self._is_name:
            self._fail(f"expected {what}")
        if name == "None":
            self._fail(f"None is not {what}:", got=False)
        if keyword.iskeyword(name):
            self._fail(f"expected {what}, but {name} is a Python keyword:", got=False)
        self._advance()
        return name

    def _mark(self, mark: str) -> None:
        if not self._accept(mark):
            self._fail(f"expected {mark!r}")

    def _accept(self, text: str) -> bool:
        """Consume the next token if it is this one; return whether it was."""
        is_next = self._ahead == text
        if is_next:
            self._advance()
        return is_next

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._end)
        assert match is not None, "the pattern takes any character, and the end"
        self._is_name = match["name"] is not None
        self._ahead = match["name"] or match["mark"] or match["other"] or ""
        self._start, self._end = match.end() - len(self._ahead), match.end()

    def _fail(self, message: str, *, got: bool = True) -> NoReturn:
        if got:
            message += f", got {self._ahead!r}:" if self._ahead else ", but the text ends:"
        raise SignatureError(
            f"the signature cannot be read: {message}", text=self._text, position=self._start
        )

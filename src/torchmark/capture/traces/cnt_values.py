"""The arguments in a line of the `cnt:` form, parsed as data: `((T([2, 3], f16), 1.0), {})`.

    value   = number | text | name | name "(" arguments ")" | "<" … ">"
            | "[" values "]" | "(" values ")" | "{" text ":" value, … "}"

It looks like Python and is not: nothing is looked up or evaluated. `T` is a tensor, `ST` a sparse
one, `f16` a dtype, `torch.bool` and `torch.strided` are what torch calls so; any other name is a
value that the file does not tell, and opaque in the trace.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from torchmark.capture.traces.checking import WrongValueError
from torchmark.capture.traces.names import DEVICES, DTYPES_BY_SHORT_NAME, sanitize, tagged_attribute

if TYPE_CHECKING:
    from collections.abc import Callable

_DEEPEST = 30
"""Values within values."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf\b|nan\b)j?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<unknown><[^<>]*>)
    |(?P<mark>[()\[\]{},:=])
    )""",
    re.VERBOSE,
)
_EQUALS = re.compile(r"\s*=")
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt])|(.))", re.DOTALL)
_BLANKS = {"n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS = {"None": None, "True": True, "False": False}
_LONGEST_NUMBER = 400
"""Digits; the largest float has 309."""


class _Token(NamedTuple):
    kind: str
    """One of the pattern's names; "end" after the last."""

    text: str
    column: int
    """From 1 on."""


class _Call(NamedTuple):
    """A name with arguments."""

    args: list[Any]
    kwargs: dict[str, Any]


def parse_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and those by name, as tagged JSON."""
    return _Parser(text).arguments()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._token = self._read()

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        self._expect("(")
        args = self._sequence("(", ")", 1)[0]
        self._expect(",")
        kwargs = self._keywords(1)
        self._expect(")")
        if self._token.kind != "end":
            self._fail("nothing more is expected")
        return args, kwargs

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            self._fail(f"values are nested deeper than {_DEEPEST}")
        token = self._token
        if token.kind == "mark" and token.text in "([":
            return self._list_or_tuple(token.text, depth)
        if token.kind == "mark" and token.text == "{":
            return {"dict": [[key, value] for key, value in self._keywords(depth).items()]}
        if token.kind in ("mark", "end"):
            self._fail("a value is expected")
        self._advance()
        if token.kind == "number":
            return self._number(token.text)
        if token.kind == "text":
            return _text_value(_unquote(token.text))
        if token.kind == "unknown":
            return {"opaque": sanitize(token.text.strip("<>"), 80)}
        return self._named(token.text, depth)

    def _list_or_tuple(self, opening: str, depth: int) -> Any:
        values, has_comma = self._sequence(opening, ")" if opening == "(" else "]", depth)
        if opening == "[":
            return values
        if len(values) == 1 and not has_comma:
            return values[0]
        return {"tuple": values}

    def _sequence(self, opening: str, closing: str, depth: int) -> tuple[list[Any], bool]:
        self._expect(opening)
        values = []
        has_comma = False
        while not self._is(closing):
            values.append(self._value(depth + 1))
            if self._token.kind == "number" and self._token.text.endswith("j"):
                values[-1] = self._complex(values[-1])
            if not self._is(","):
                break
            has_comma = True
            self._advance()
        self._expect(closing)
        return values, has_comma

    def _keywords(self, depth: int) -> dict[str, Any]:
        """A dictionary from text to values."""
        self._expect("{")
        found: dict[str, Any] = {}
        while not self._is("}"):
            if self._token.kind != "text":
                self._fail("the name of an argument is expected, in quotes")
            name = _unquote(self._token.text)
            self._advance()
            self._expect(":")
            found[name] = self._value(depth + 1)
            if not self._is(","):
                break
            self._advance()
        self._expect("}")
        return found

    def _named(self, name: str, depth: int) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if self._is("("):
            call = self._call(depth)
            make = _MAKERS.get(name.rpartition(".")[2])
            made = None if make is None else make(call)
            return {"opaque": sanitize(name, 80)} if made is None else made
        if name in DTYPES_BY_SHORT_NAME:
            return {"dtype": DTYPES_BY_SHORT_NAME[name]}
        prefix, _, attribute = name.rpartition(".")
        return tagged_attribute(attribute) if prefix in ("torch", "th") else {"opaque": name[:80]}

    def _call(self, depth: int) -> _Call:
        self._expect("(")
        call = _Call([], {})
        while not self._is(")"):
            keyword = self._keyword()
            value = self._value(depth + 1)
            if keyword is None:
                call.args.append(value)
            else:
                call.kwargs[keyword] = value
            if not self._is(","):
                break
            self._advance()
        self._expect(")")
        return call

    def _keyword(self) -> str | None:
        """The name before an equals sign, if there is one here."""
        if self._token.kind != "name" or not _EQUALS.match(self._text, self._position):
            return None
        name = self._token.text
        self._advance()
        self._expect("=")
        return name

    def _number(self, text: str) -> Any:
        if len(text) > _LONGEST_NUMBER:
            self._fail("a number is too long")
        if text.endswith("j"):
            return {"complex": [0.0, _tag_float(text[:-1])]}
        if re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        return _tag_float(text)

    def _complex(self, real: Any) -> Any:
        text = self._token.text
        self._advance()
        return {"complex": [real, _tag_float(text[:-1])]}

    def _read(self) -> _Token:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            rest = self._text[self._position :]
            column = self._position + len(rest) - len(rest.lstrip()) + 1
            if rest.strip():
                self._fail("this is no value", _Token("end", "", column))
            return _Token("end", "", column)
        self._position = match.end()
        text = match[match.lastgroup]
        return _Token(match.lastgroup, text, match.end() - len(text) + 1)

    def _advance(self) -> None:
        self._token = self._read()

    def _is(self, mark: str) -> bool:
        return self._token.kind == "mark" and self._token.text == mark

    def _expect(self, mark: str) -> None:
        if not self._is(mark):
            self._fail(f"{mark!r} is expected")
        self._advance()

    def _fail(self, what: str, token: _Token | None = None) -> NoReturn:
        column = (token or self._token).column
        near = sanitize(self._text[column - 1 : column + 20], 40)
        raise WrongValueError(
            f"cannot be read, at character {column} of the arguments: {what}, not {near!r}"
        )


def _unquote(text: str) -> str:
    """What stands between the quotes, with the escapes that Python writes there."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else _BLANKS.get(match[3]) or match[4]

    return _ESCAPE.sub(character, text[1:-1])


def _tag_float(text: str) -> Any:
    number = float(text)
    if number != number:  # noqa: PLR0124 - that is how a NaN is known
        return {"float": "nan"}
    if number in (float("inf"), float("-inf")):
        return {"float": "inf" if number > 0 else "-inf"}
    return number


def _text_value(text: str) -> Any:
    """Text in quotes: dtypes and devices stand in the files in quotes too."""
    if text in DTYPES_BY_SHORT_NAME:
        return {"dtype": DTYPES_BY_SHORT_NAME[text]}
    return {"device": text} if text.partition(":")[0] in DEVICES else text


def _tensor(call: _Call) -> Any:
    """`T([2, 3], f16)`, or with strides; None if it is no tensor that we know."""
    names = ("shape", "dtype", "strides")
    given = dict(zip(names, call.args, strict=False))
    given |= {_TENSOR_KEYWORDS.get(name, name): value for name, value in call.kwargs.items()}
    is_known = len(call.args) <= len(names) and given.keys() <= {
        *names, "device", "offset", "requires_grad",
    }  # fmt: skip
    dtype = _content(given.get("dtype"), "dtype")
    if not is_known or dtype is None or not isinstance(given.get("shape"), list):
        return None
    tensor = {**given, "dtype": dtype}
    if "strides" in tensor:
        tensor["strides"] = _content(tensor["strides"], "tuple") or tensor["strides"]
    if "device" in tensor:
        tensor["device"] = _content(tensor["device"], "device")
    return {"tensor": {key: value for key, value in tensor.items() if value is not None}}


def _sparse_tensor(call: _Call) -> Any:
    """`ST([965, 192], f16, torch.sparse_coo, False, 40)`: 40 rows of 965, like a gradient's.

    The file does not tell how many dimensions are sparse. Gradients of embeddings are the sparse
    tensors of training, and have one.
    """
    shape, dtype, layout, coalesced, nnz = (*call.args, *[None] * 5)[:5]
    kind = _content(dtype, "dtype")
    is_known = kind is not None and layout == {"layout": "sparse_coo"} and isinstance(nnz, int)
    if not is_known or not isinstance(shape, list) or not shape or not isinstance(shape[0], int):
        return None
    rows = {"min": 0, "max": max(0, shape[0] - 1), "order": "ascending"}
    return {
        "tensor": {
            "shape": shape,
            "dtype": kind,
            "layout": "sparse_coo",
            "coalesced": coalesced is True,
            "parts": {
                "indices": {"shape": [1, nnz], "dtype": "int64", "values": rows},
                "values": {"shape": [nnz, *shape[1:]], "dtype": kind},
            },
        }
    }


def _device(call: _Call) -> Any:
    """`device(type='cuda', index=0)` or `torch.device('cuda')`."""
    kind = _content(call.kwargs.get("type", (*call.args, None)[0]), "device")
    index = call.kwargs.get("index")
    if kind is None:
        return None
    return {"device": kind if index is None else f"{kind}:{index}"}


def _content(value: Any, tag: str) -> Any:
    return value.get(tag) if isinstance(value, dict) else None


_TENSOR_KEYWORDS = {"size": "shape", "stride": "strides", "storage_offset": "offset"}
_MAKERS: dict[str, Callable[[_Call], Any]] = {
    "T": _tensor,
    "ST": _sparse_tensor,
    "device": _device,
}

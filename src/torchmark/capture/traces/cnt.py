"""Import the text form of PyTorch's operator benchmarks.

    Operator: aten.add.Tensor
    cnt: 2, ((T([16, 64], f16), T([16, 64], f16, stride=(1, 16))), {'alpha': 2})

The text says how often each call was made, but not in which order or from which place. The
arguments look like Python, but they are parsed as data, and nothing is looked up or evaluated.

    value   = number | text | name | name "(" arguments ")" | "<" … ">"
            | "[" values "]" | "(" values ")" | "{" text ":" value, … "}"

`T` is a tensor, `ST` a sparse tensor, and `f16` a dtype. `torch.bool` and `torch.strided` mean what
they mean in torch. Any other name is a value that the file does not contain; it becomes opaque.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from torchmark.capture.traces.checking import (
    DistinctCalls,
    WrongValueError,
    convert,
    is_operator,
    sanitize,
    tag_attribute,
    tag_float,
)
from torchmark.capture.traces.files import Line, lines_of
from torchmark.errors import TraceFileError
from torchmark.model.trace import Count, Place, Trace

_LONGEST_LINE = 2**20
"""Bytes. A call with a thousand tensors has fifty kilobytes."""

_LONGEST_NUMBER = 400
"""Digits. The largest float has 309."""

_DEEPEST = 30
"""Levels of nested values."""

_RENAMED = {
    "aten.as_strided.SymInt": "aten.as_strided.default",
    "aten.empty.SymInt": "aten.empty.memory_format",
    "aten.expand.SymInt": "aten.expand.default",
    "aten.narrow_copy.SymInt": "aten.narrow_copy.default",
    "aten.new_empty.SymInt": "aten.new_empty.default",
    "aten.new_empty_strided.SymInt": "aten.new_empty_strided.default",
    "aten.sum.SymInt": "aten.sum.dim_IntList",
    "aten.view.SymInt": "aten.view.default",
    "aten.zeros.SymInt": "aten.zeros.default",
}
"""Overloads that torch had for some months before 1.13, and the overloads that replaced them, with
the same arguments. Most public files of this form were recorded then."""

_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu", "f4e2m1fnx2": "float4_e2m1fn_x2",
    "c32": "complex32", "c64": "complex64", "c128": "complex128",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "b8": "bool", "b16": "bits16", "b1x8": "bits1x8",
}  # fmt: skip

_DEVICES = frozenset({
    "cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla", "mtia", "ipu", "hip", "vulkan", "maia",
    "privateuseone",
})  # fmt: skip

_CONSTANTS = {"None": None, "True": True, "False": False}

_COUNT = re.compile(r"cnt:\s*(\d{1,19})\s*,\s*(.*)")
_OPERATOR = re.compile(r"Operator:\s*(.*?)\s*")
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf\b|nan\b)j?)
    |(?P<keyword>[A-Za-z_][A-Za-z0-9_]*)\s*=
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<unknown><[^<>]*>)
    |(?P<mark>[()\[\]{},:])
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt])|(.))", re.DOTALL)
_BLANKS = {"n": "\n", "r": "\r", "t": "\t"}


def read_cnt(file: Path) -> Trace:
    reader = _Reader()
    unseen = []
    for line in lines_of(file):
        try:
            reader.take(line)
        except WrongValueError as error:
            if line.is_whole:
                raise TraceFileError(f"line {line.number} of {file} {error}") from error
            unseen.append(f"everything after line {line.number - 1}, where the file is cut off")
    unseen += [
        f"the name {old}: since torch 1.13 it is {new}, under which its calls are listed"
        for old, new in reader.renamed.items()
    ]
    return Trace(
        source="cnt",
        calls=tuple(reader.distinct.calls),
        places=(Place(phase="unknown"),),
        counts={(call, 0): count for call, count in reader.counts.items()},
        unseen=tuple(unseen),
    )


class _Reader:
    """The content of the lines so far."""

    def __init__(self) -> None:
        self.distinct = DistinctCalls()
        self.counts: Counter[int] = Counter()
        self.renamed: dict[str, str] = {}
        """Old names of operators, and their names today."""

        self._op: str | None = None

    def take(self, line: Line) -> None:
        if len(line.content) > _LONGEST_LINE:
            raise WrongValueError(f"is longer than {_LONGEST_LINE // 2**20} MiB")
        try:
            text = line.content.decode()
        except UnicodeDecodeError as error:
            raise WrongValueError(f"is not text ({error.reason})") from error
        if not text.strip():
            return
        if operator := _OPERATOR.fullmatch(text):
            self._take_operator(operator[1])
        elif count := _COUNT.fullmatch(text):
            self._take_count(convert(int(count[1]), Count, "count"), count[2])
        else:
            raise WrongValueError("is neither an Operator: line nor a cnt: line")

    def _take_operator(self, name: str) -> None:
        # Files may leave out the overload of an operator that has only one.
        full = f"{name}.default" if name.count(".") == 1 else name
        if not is_operator(full):
            shown = sanitize(repr(name), 80)
            raise WrongValueError(f"names the operator {shown}, not one like aten.add.Tensor")
        self._op = _RENAMED.get(full, full)
        if full in _RENAMED:
            self.renamed[full] = self._op

    def _take_count(self, count: int, arguments: str) -> None:
        if self._op is None:
            raise WrongValueError("comes before the first Operator: line")
        args, kwargs = parse_arguments(arguments.strip())
        number = self.distinct.number_of({"op": self._op, "args": args, "kwargs": kwargs})
        self.counts[number] += count


class _Token(NamedTuple):
    kind: str
    """The name of a group in the pattern; "end" after the last token."""

    text: str
    column: int
    """Counted from 1."""


def parse_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional arguments and the keyword arguments, as tagged JSON."""
    return _Parser(text).arguments()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._token = self._read()

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        self._expect("(")
        args = [self._value(2) for _ in self._items("(", ")")]
        self._expect(",")
        kwargs = self._dictionary(1)
        self._expect(")")
        if self._token.kind != "end":
            self._fail("nothing more is expected")
        return args, kwargs

    def _value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            self._fail(f"values are nested deeper than {_DEEPEST}")
        if self._is("["):
            return [self._value(depth + 1) for _ in self._items("[", "]")]
        if self._is("("):
            return self._tuple(depth)
        if self._is("{"):
            return {"dict": [[key, value] for key, value in self._dictionary(depth).items()]}
        token = self._token
        if token.kind in ("mark", "keyword", "end"):
            self._fail("a value is expected")
        self._advance()
        return self._single_value(token, depth)

    def _single_value(self, token: _Token, depth: int) -> Any:
        if token.kind == "number":
            return self._number(token.text)
        if token.kind == "text":
            return _tag_text(_unquote(token.text))
        if token.kind == "unknown":
            return {"opaque": sanitize(token.text.strip("<>"), 80)}
        return self._named(token.text, depth)

    def _tuple(self, depth: int) -> Any:
        values = []
        has_comma = False
        for _ in self._items("(", ")"):
            values.append(self._value(depth + 1))
            has_comma = self._is(",")
        return values[0] if len(values) == 1 and not has_comma else {"tuple": values}

    def _dictionary(self, depth: int) -> dict[str, Any]:
        """From text to values."""
        found: dict[str, Any] = {}
        for _ in self._items("{", "}"):
            if self._token.kind != "text":
                self._fail("the name of an argument is expected, in quotes")
            name = _unquote(self._token.text)
            self._advance()
            self._expect(":")
            found[name] = self._value(depth + 1)
        return found

    def _named(self, name: str, depth: int) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if self._is("("):
            args: list[Any] = []
            kwargs: dict[str, Any] = {}
            for _ in self._items("(", ")"):
                if self._token.kind == "keyword":
                    keyword = self._token.text
                    self._advance()
                    kwargs[keyword] = self._value(depth + 1)
                else:
                    args.append(self._value(depth + 1))
            make = _MAKERS.get(name.rpartition(".")[2])
            made = None if make is None else make(args, kwargs)
            return {"opaque": sanitize(name, 80)} if made is None else made
        if name in _DTYPES:
            return {"dtype": _DTYPES[name]}
        prefix, _, attribute = name.rpartition(".")
        return tag_attribute(attribute) if prefix in ("torch", "th") else {"opaque": name[:80]}

    def _number(self, text: str) -> Any:
        if len(text) > _LONGEST_NUMBER:
            self._fail("a number is too long")
        if text.endswith("j"):
            return {"complex": [0.0, tag_float(float(text[:-1]))]}
        number = int(text) if re.fullmatch(r"[+-]?\d+", text) else tag_float(float(text))
        following = self._token
        if following.kind == "number" and following.text.endswith("j"):
            self._advance()
            return {"complex": [number, tag_float(float(following.text[:-1]))]}
        return number

    def _items(self, opening: str, closing: str) -> Iterator[None]:
        """Stop at each item between the marks; the caller reads it before it asks for the next."""
        self._expect(opening)
        while not self._is(closing):
            yield
            if not self._is(","):
                break
            self._advance()
        self._expect(closing)

    def _read(self) -> _Token:
        match = _TOKEN.match(self._text, self._position)
        if match is None or match.lastgroup is None:
            rest = self._text[self._position :]
            end = _Token("end", "", self._position + len(rest) - len(rest.lstrip()) + 1)
            if rest.strip():
                self._fail("this is not a value", end)
            return end
        self._position = match.end()
        return _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1)

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
            f"cannot be read at character {column} of the arguments, near {near!r}: {what}"
        )


def _unquote(text: str) -> str:
    """The text between the quotes, with Python's escapes replaced."""

    def character(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        return chr(int(code, 16)) if code else _BLANKS.get(match[3]) or match[4]

    return _ESCAPE.sub(character, text[1:-1])


def _tag_text(text: str) -> Any:
    """Text in quotes. The files write dtypes and devices in quotes, too."""
    if text in _DTYPES:
        return {"dtype": _DTYPES[text]}
    return {"device": text} if text.partition(":")[0] in _DEVICES else text


def _tensor(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`T([2, 3], f16)`, also with strides; None if the arguments are not those of a tensor."""
    names = ("shape", "dtype", "strides")
    tensor = dict(zip(names, args, strict=False))
    tensor |= {_TENSOR_KEYWORDS.get(name, name): value for name, value in kwargs.items()}
    tensor["dtype"] = _content(tensor.get("dtype"), "dtype")
    is_known = len(args) <= len(names) and tensor.keys() <= {
        *names, "device", "offset", "requires_grad",
    }  # fmt: skip
    if not is_known or tensor["dtype"] is None or not isinstance(tensor.get("shape"), list):
        return None
    if "strides" in tensor:
        tensor["strides"] = _content(tensor["strides"], "tuple") or tensor["strides"]
    if "device" in tensor:
        tensor["device"] = _content(tensor["device"], "device")
    return {"tensor": {key: value for key, value in tensor.items() if value is not None}}


def _sparse_tensor(args: list[Any], _: dict[str, Any]) -> Any:
    """`ST([965, 192], f16, torch.sparse_coo, False, 40)`: 40 rows of 965, as in a gradient.

    The file does not say how many dimensions are sparse. In training, sparse tensors are gradients
    of embeddings, which have one sparse dimension.
    """
    shape, dtype, layout, coalesced, nnz = (*args, *[None] * 5)[:5]
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


def _device(args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`device(type='cuda', index=0)` or `torch.device('cuda')`."""
    kind = _content(kwargs.get("type", (*args, None)[0]), "device")
    index = kwargs.get("index")
    if kind is None:
        return None
    return {"device": kind if index is None else f"{kind}:{index}"}


def _content(value: Any, tag: str) -> Any:
    return value.get(tag) if isinstance(value, dict) else None


_TENSOR_KEYWORDS = {"size": "shape", "stride": "strides", "storage_offset": "offset"}
_MAKERS: dict[str, Callable[[list[Any], dict[str, Any]], Any]] = {
    "T": _tensor,
    "ST": _sparse_tensor,
    "device": _device,
}

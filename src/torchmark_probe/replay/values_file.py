"""The exact contents of tensors: a safetensors file next to a trace, read without that library.

Eight bytes say how long the header is, the header is JSON, the data come behind it:

    {"12.0": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}

A file may be somebody else's. The whole header is checked before anything is read: every offset
lies in the file, no two tensors overlap, and sizes agree with types and shapes. What a record says
of a tensor is checked against its entry. No torch is needed here, so the control side looks too.
"""

import json
import math
import os
import re
import stat
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

LONGEST_HEADER = 32 * 2**20
"""Bytes: hundreds of thousands of tensors. More is made to fill memory."""

DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
}
"""What torch and every version of safetensors have, by torch's name. Tensors of other types are
kept as their bytes: in one dimension, as U8."""

_NUMBER = re.compile("[a-z]+([0-9]+)")


class WrongValuesError(ValueError):
    """Why contents cannot be had from a file."""


class Entry(NamedTuple):
    """Where the content of one tensor lies."""

    dtype: str
    """As safetensors calls it."""

    shape: Tuple[int, ...]
    start: int
    """Bytes from the beginning of the file."""

    size: int
    """Bytes."""


def item_bytes(dtype: str) -> int:
    """Of an element, by torch's or safetensors' name for its type.

    >>> item_bytes("bool"), item_bytes("complex64"), item_bytes("float8_e4m3fn"), item_bytes("BF16")
    (1, 8, 1, 2)
    """
    number = _NUMBER.match(dtype.lower())
    return max(1, int(number.group(1)) // 8) if number else 1


def read_entries(path: str) -> Dict[str, Entry]:
    """All tensors of a file by name; a WrongValuesError if it is not what it should be."""
    name = os.path.basename(path)
    try:
        # Not something that waits for a writer, as a pipe does.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise WrongValuesError(f"{name} is not a file")
        with open(path, "rb") as file:
            whole = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if whole < 8 or length > min(whole - 8, LONGEST_HEADER):
                raise WrongValuesError(f"{name} is not a safetensors file, or is cut off")
            header = json.loads(file.read(length))
    except FileNotFoundError as error:
        raise WrongValuesError(f"there is no file {name}") from error
    except OSError as error:
        raise WrongValuesError(f"{name} cannot be read: {error.strerror}") from error
    except WrongValuesError:
        raise
    except (ValueError, RecursionError) as error:
        raise WrongValuesError(f"the header of {name} is no JSON") from error
    if not isinstance(header, dict):
        raise WrongValuesError(f"the header of {name} is no object")
    header.pop("__metadata__", None)
    try:
        entries = {key: _entry(value, 8 + length) for key, value in header.items()}
        _check_places(list(entries.values()), whole)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WrongValuesError(f"the header of {name} is damaged") from error
    return entries


def _entry(value: Dict[str, Any], data: int) -> Entry:
    dtype, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise TypeError
    if not all(type(size) is int and size >= 0 for size in [*shape, begin, end]):
        raise ValueError
    if dtype in DTYPES.values() and end - begin != math.prod(shape) * item_bytes(dtype):
        raise ValueError
    return Entry(dtype, tuple(shape), data + begin, end - begin)


def _check_places(entries: List[Entry], whole: int) -> None:
    """Every tensor lies in the file, and behind the one before."""
    end = 0
    for entry in sorted(entries, key=lambda each: (each.start, each.size)):
        if entry.size < 0 or entry.start < end or entry.start + entry.size > whole:
            raise ValueError
        end = entry.start + entry.size


def find_entry(entries: Dict[str, Entry], name: str, dtype: str, shape: Sequence[int]) -> Entry:
    """The entry of a tensor that is recorded as this; a WrongValuesError if it is of another."""
    entry = entries.get(name)
    if entry is None:
        raise WrongValuesError("the file lacks some of them")
    as_bytes = ("U8", (math.prod(shape) * item_bytes(dtype),))
    wanted = (DTYPES[dtype], tuple(shape)) if dtype in DTYPES else as_bytes
    if (entry.dtype, entry.shape) != wanted:
        raise WrongValuesError("the file has tensors of other types or shapes")
    return entry

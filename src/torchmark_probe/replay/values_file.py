"""Reads exact contents of tensors from a safetensors file next to a trace, without that library.

The first eight bytes are the length of the header, the header is JSON, and the data follow:

    {"12.0": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}

A file may come from anybody. The whole header is checked before anything is read: all offsets are
inside the file, no two tensors overlap, and sizes agree with types and shapes. The record of a
tensor is checked against its entry. This module does not need torch, so the control side uses it.
"""

import json
import math
import os
import re
import stat
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

LONGEST_HEADER = 32 * 2**20
"""Bytes: enough for hundreds of thousands of tensors."""

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
"""Types that torch and every version of safetensors have, by torch's name. Tensors of other types
are stored as their bytes: one-dimensional U8."""

_NUMBER = re.compile("[a-z]+([0-9]+)")


class WrongValuesError(ValueError):
    """Contents cannot be read from a file; the message says why."""


class Entry(NamedTuple):
    """The location of the contents of one tensor."""

    dtype: str
    """The type's name in safetensors."""

    shape: Tuple[int, ...]
    start: int
    """Offset in bytes from the beginning of the file."""

    size: int
    """Size in bytes."""


def item_bytes(dtype: str) -> int:
    """Return the bytes of an element, by torch's or safetensors' name of its type.

    >>> item_bytes("bool"), item_bytes("complex64"), item_bytes("float8_e4m3fn"), item_bytes("BF16")
    (1, 8, 1, 2)
    """
    number = _NUMBER.match(dtype.lower())
    return max(1, int(number.group(1)) // 8) if number else 1


def read_entries(path: str) -> Dict[str, Entry]:
    """Return all tensors of a file by name; raise WrongValuesError if the file is not valid."""
    name = os.path.basename(path)
    try:
        # Only regular files: a pipe, for example, would wait for a writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise WrongValuesError(f"{name} is not a file")
        with open(path, "rb") as file:
            whole = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if whole < 8 or length > min(whole - 8, LONGEST_HEADER):
                raise WrongValuesError(f"{name} is not a safetensors file, or is truncated")
            header = json.loads(file.read(length))
    except FileNotFoundError as error:
        raise WrongValuesError(f"there is no file {name}") from error
    except OSError as error:
        raise WrongValuesError(f"{name} cannot be read: {error.strerror}") from error
    except WrongValuesError:
        raise
    except (ValueError, RecursionError) as error:
        raise WrongValuesError(f"the header of {name} is not JSON") from error
    if not isinstance(header, dict):
        raise WrongValuesError(f"the header of {name} is not an object")
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
    """Check that every tensor is inside the file and after the one before."""
    end = 0
    for entry in sorted(entries, key=lambda each: (each.start, each.size)):
        if entry.size < 0 or entry.start < end or entry.start + entry.size > whole:
            raise ValueError
        end = entry.start + entry.size


def find_entry(entries: Dict[str, Entry], name: str, dtype: str, shape: Sequence[int]) -> Entry:
    """Return the entry of a recorded tensor; raise WrongValuesError if it is another tensor."""
    entry = entries.get(name)
    if entry is None:
        raise WrongValuesError("the file lacks some of them")
    as_bytes = ("U8", (math.prod(shape) * item_bytes(dtype),))
    wanted = (DTYPES[dtype], tuple(shape)) if dtype in DTYPES else as_bytes
    if (entry.dtype, entry.shape) != wanted:
        raise WrongValuesError("the file has tensors of other dtypes or shapes")
    return entry

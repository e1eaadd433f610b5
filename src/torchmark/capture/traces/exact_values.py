"""Find the file with the exact contents of a trace's tensors, and check it against the trace.

The trace has the names of the contents, even if the file is missing. Names without contents are
removed here, so later code can rely on the others.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from msgspec import structs

from torchmark.model.trace import RecordedCall, Trace
from torchmark_probe.replay.values_file import Entry, WrongValuesError, find_entry, read_entries


def values_file(path: str | os.PathLike[str]) -> Path:
    """`NAME.safetensors` for the trace `NAME.jsonl.gz`."""
    name = Path(path).name.removesuffix(".gz").removesuffix(".jsonl")
    return Path(path).with_name(f"{name}.safetensors")


def has_exact_values(call: RecordedCall) -> bool:
    return bool(_exact_tensors(call))


def with_values(trace: Trace, path: Path) -> Trace:
    """The trace with the file of its values. Calls whose values are missing or wrong lose them.

    In that case, `unseen` says how many calls, and why.
    """
    wanting = [number for number, call in enumerate(trace.calls) if has_exact_values(call)]
    if not wanting:
        return trace
    file = values_file(path).absolute()
    wrong: dict[int, str] = {}
    try:
        entries = read_entries(str(file))
    except WrongValuesError as error:
        wrong = dict.fromkeys(wanting, str(error))
    else:
        for number in wanting:
            try:
                _check(trace.calls[number], entries)
            except WrongValuesError as error:
                wrong[number] = f"{error}: {file.name}"
    unseen = [
        f"the recorded values of {count} distinct call{'' if count == 1 else 's'}, "
        f"for which random values are used ({reason})"
        for reason, count in Counter(wrong.values()).items()
    ]
    return dataclasses.replace(
        trace,
        calls=tuple(
            _forget_values(call) if number in wrong else call
            for number, call in enumerate(trace.calls)
        ),
        values=str(file) if len(wrong) < len(wanting) else "",
        unseen=(*trace.unseen, *unseen),
    )


def _check(call: RecordedCall, entries: dict[str, Entry]) -> None:
    for tensor in _exact_tensors(call):
        find_entry(entries, tensor["exact"], tensor["dtype"], tensor["shape"])


def _forget_values(call: RecordedCall) -> RecordedCall:
    call = structs.replace(call, args=deepcopy(call.args), kwargs=deepcopy(call.kwargs))
    for tensor in _exact_tensors(call):
        del tensor["exact"]
    return call


def _exact_tensors(call: RecordedCall) -> list[dict[str, Any]]:
    """The arguments, and the parts of arguments, that name their contents."""
    tensors = _tensors_in([*call.args, *call.kwargs.values()])
    return [tensor for tensor in tensors if "exact" in tensor]


def _tensors_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _tensors_in(each)
    elif isinstance(value, dict):
        for tag, content in value.items():
            if tag == "tensor":
                yield content
                for part in content.get("parts", {}).values():
                    yield from _tensors_in({"tensor": part.get("tensor", part)})
            elif tag in ("tuple", "dict"):
                yield from _tensors_in(content)

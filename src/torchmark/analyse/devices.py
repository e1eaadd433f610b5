"""The devices on which calls were recorded. Every call is replayed on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torchmark.model.trace import RecordedCall
from torchmark.model.units import ordered_unique

_HERE = ("cpu", "meta")
"""Devices that are the same in a replay."""


def devices_of(call: RecordedCall) -> tuple[str, ...]:
    """The devices other than the CPU that the arguments of a call use.

    >>> x = {"tensor": {"shape": [2], "dtype": "float32", "device": "cuda:0"}}
    >>> devices_of(RecordedCall(op="aten.add.Tensor", args=([x, 1],), kwargs={}))
    ('cuda:0',)
    """
    found = _devices_in([*call.args, *call.kwargs.values()])
    return tuple(each for each in ordered_unique(found) if each.partition(":")[0] not in _HERE)


def _devices_in(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _devices_in(each)
    elif isinstance(value, dict):
        for tag, content in value.items():
            if tag == "tensor":
                yield content.get("device", "cpu")
            elif tag in ("device", "generator"):
                yield content
            elif tag in ("tuple", "dict"):
                yield from _devices_in(content)


def warn_of_devices(devices: Sequence[Sequence[str]]) -> list[str]:
    """A warning if calls were recorded on other devices; `devices` has those of each call.

    >>> warn_of_devices([("cuda:0",), (), ("cuda:0",)])
    ['2 of 3 distinct calls were recorded on cuda:0; their times here are CPU times']
    >>> warn_of_devices([()])
    []
    """
    elsewhere = [each for each in devices if each]
    names = ", ".join(ordered_unique(name for each in elsewhere for name in each))
    said = (
        f"{len(elsewhere):,} of {len(devices):,} distinct calls were recorded on {names}; their "
        "times here are CPU times"
    )
    return [said] if elsewhere else []

"""The memory of a recorded call: how much it takes, how much is free, the buffers themselves."""

import resource
from typing import Any, Dict, Iterable, Tuple

import torch

from torchmark_probe.replay.recorded_errors import TooLargeError
from torchmark_probe.replay.recorded_tensors import Described

_ALIGNMENT = 16
"""Bytes of the largest element, so that a buffer can be seen as any type."""

Key = Tuple[str, Any]
"""A storage: its number and where it lies; a tensor that shares with none has one of its own."""


def storage_sizes(tensors: Iterable[Described]) -> Dict[Key, int]:
    """Bytes of every storage: the most that any of its tensors says or needs."""
    sizes: Dict[Key, int] = {}
    for tensor in tensors:
        key = key_of(tensor)
        sizes[key] = max(sizes.get(key, 0), tensor.storage_bytes)
    return sizes


def key_of(tensor: Described) -> Key:
    if tensor.storage is None:
        return ("alone", id(tensor))
    return ("shared", (tensor.storage, str(tensor.device)))


def check_memory(tensors: Iterable[Described]) -> None:
    """Raise unless all of them fit into what is free."""
    needed = sum(storage_sizes(tensors).values())
    free = free_bytes()
    if needed > free:
        raise TooLargeError(needed, free)


def free_bytes() -> int:
    """What can be taken without swapping, as the kernel estimates it."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**62  # a kernel before 3.14 does not say


def limit_memory() -> None:
    """Let this process take what is free now, and no more."""
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + free_bytes()
    if soft < 0 or wanted < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))


def buffers(sizes: Dict[Key, int], device: str) -> Dict[Key, torch.Tensor]:
    """Memory for every storage, all of it zero."""
    return {
        key: torch.zeros(
            -(-max(size, 1) // _ALIGNMENT) * _ALIGNMENT, dtype=torch.uint8, device=device
        )
        for key, size in sizes.items()
    }


def view_of(buffer: torch.Tensor, tensor: Described) -> torch.Tensor:
    """The tensor as a view of its storage."""
    return buffer.view(tensor.dtype).as_strided(tensor.shape, tensor.strides, tensor.offset)

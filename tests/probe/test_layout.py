from __future__ import annotations

import sys

from torchmark_probe.layout import Reserve, empty_the_bins

POOL = 16384 if sys.version_info >= (3, 10) else 4096


def test_what_is_freed_last_is_used_next_and_lies_in_pools_that_are_half_taken() -> None:
    reserve = Reserve()
    pools = {id(thing) // POOL for thing in reserve._before_loop}
    lengths = [size - sys.getsizeof(b"") for size in range(48, 513, 16)]
    reserve.free_before_setup()
    reserve.free_before_loop()
    made = list(map(bytes, lengths))  # with nothing freed in between
    assert all(id(thing) // POOL in pools for thing in made)


def test_emptying_the_bins_harms_nobody() -> None:
    for _ in range(3):
        empty_the_bins()
    assert bytearray(100_000) == bytes(100_000)

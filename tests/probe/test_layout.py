from __future__ import annotations

import subprocess
import sys

from torchmark_probe.memory.layout import empty_the_bins

_HALF_TAKEN = """
import sys
from torchmark_probe.memory.layout import _POOL, Reserve

reserve = Reserve()
pools = {id(thing) // _POOL for thing in reserve._before_loop}
lengths = [size - sys.getsizeof(b"") for size in range(48, 513, 16)]
reserve.free_before_setup()
reserve.free_before_loop()
made = list(map(bytes, lengths))  # with nothing freed in between
assert len(pools) == 32
assert all(id(thing) // _POOL in pools for thing in made)
"""


def test_what_is_freed_last_is_where_the_next_objects_lie() -> None:
    subprocess.run([sys.executable, "-c", _HALF_TAKEN], check=True)


def test_emptying_the_bins_harms_nobody() -> None:
    for _ in range(3):
        empty_the_bins()
    assert bytearray(100_000) == bytes(100_000)


_SINGLE = "import ctypes; seen = ctypes.c_char.in_dll(ctypes.CDLL(None), '__libc_single_threaded')"


def test_the_c_library_takes_no_short_ways_after_a_thread() -> None:
    script = f"""
from torchmark_probe.memory.layout import have_had_a_thread
{_SINGLE}
assert seen.value == b"\\x01"
have_had_a_thread()
assert seen.value == b"\\x00"
"""
    subprocess.run([sys.executable, "-c", script], check=True)

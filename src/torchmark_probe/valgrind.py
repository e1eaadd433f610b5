"""Client requests: what a program that runs under callgrind may ask of it.

valgrind watches for a sequence of instructions that does nothing on a real processor. Its headers
have it as a macro for C, and some builds of torch have bindings to it; an environment under test
may have neither, so the sequence is written here as machine code, in memory of its own, and called
through ctypes. On a machine without valgrind it does nothing, by design of the sequence.

Requests without arguments are functions of their own there, `void (*)(void)` to C: compiled code
may be given their addresses and switch the collection around a loop with no Python in between.
"""

import ctypes
import mmap
import platform
import struct
from typing import Any, Callable, Dict, List, NamedTuple

_RUNNING_ON_VALGRIND = 0x1001
_CALLGRIND = ord("C") << 24 | ord("T") << 16
_ZERO_STATS = _CALLGRIND + 1
_TOGGLE_COLLECT = _CALLGRIND + 2
_DUMP_STATS_AT = _CALLGRIND + 3
_START_INSTRUMENTATION = _CALLGRIND + 4
_STOP_INSTRUMENTATION = _CALLGRIND + 5

_PAGE = mmap.PAGESIZE

_written: List[mmap.mmap] = []
"""Holds the machine code for the life of the process: C code may have its addresses."""

_MAGIC = bytes.fromhex(
    "48c1c703"  # rol $3, %rdi
    "48c1c70d"  # rol $13, %rdi
    "48c1c73d"  # rol $61, %rdi
    "48c1c733"  # rol $51, %rdi: 128 bits in all, so %rdi is as it was
    "4887db"  # xchg %rbx, %rbx: "the request is at %rax, put the answer in %rdx"
)
_GENERAL = bytes.fromhex(
    "4889f0"  # mov %rsi, %rax: the second argument, address of the six words of the request
    "4889fa"  # mov %rdi, %rdx: the first argument, the answer where there is no valgrind
    + _MAGIC.hex()
    + "4889d0"  # mov %rdx, %rax: the answer is the return value
    "c3"  # ret
)


class UnsupportedMachineError(Exception):
    """Client requests are written for x86-64 alone."""


class Requests(NamedTuple):
    """Callgrind's requests, each ready to be called from Python."""

    running_on_valgrind: Callable[[], int]
    """How many valgrinds this program runs under: 0 or 1."""

    zero_stats: Callable[[], int]
    """Forget what was counted so far."""

    toggle_collect: Callable[[], int]
    """Begin to count in the thread that calls, or stop; the answer is always the same."""

    toggle_collect_address: int
    """The same as an address, for compiled code: a `void (*)(void)`."""

    arm_toggle: Callable[[bool], None]
    """Let `toggle_collect` do what it says, or run the same code to no effect: for warming up."""

    dump_stats_at: Callable[[bytes], int]
    """Write what was counted to the next file, with this remark in it, and forget it."""

    start_instrumentation: Callable[[], int]
    """From here on callgrind watches, and everything is some thirty times slower."""

    stop_instrumentation: Callable[[], int]
    """Callgrind stands aside again, and forgets all code that it had translated."""


def requests() -> Requests:
    """Write the machine code and return its functions; they stay for the life of the process."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise UnsupportedMachineError(
            "counting instructions needs an x86-64 machine, and this is {!r}".format(
                platform.machine()
            )
        )
    codes = (
        _RUNNING_ON_VALGRIND,
        _ZERO_STATS,
        _TOGGLE_COLLECT,
        _START_INSTRUMENTATION,
        _STOP_INSTRUMENTATION,
    )
    # Private: cases run side by side, and what one child arms must not reach another.
    memory = mmap.mmap(-1, 2 * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _written.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    places = _write_all(memory, address, codes)
    _make_executable(address)
    call: Any = ctypes.CFUNCTYPE(ctypes.c_ssize_t)
    general: Any = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_size_t, ctypes.c_void_p)(address)

    words_of_toggle = _PAGE + 64 * codes.index(_TOGGLE_COLLECT)

    def arm_toggle(is_armed: bool) -> None:
        code = _TOGGLE_COLLECT if is_armed else _RUNNING_ON_VALGRIND
        struct.pack_into("=Q", memory, words_of_toggle, code)

    def dump_stats_at(remark: bytes) -> int:
        text = ctypes.create_string_buffer(remark)
        words = (ctypes.c_size_t * 6)(_DUMP_STATS_AT, ctypes.addressof(text))
        return int(general(0, ctypes.addressof(words)))

    return Requests(
        running_on_valgrind=call(places[_RUNNING_ON_VALGRIND]),
        zero_stats=call(places[_ZERO_STATS]),
        toggle_collect=call(places[_TOGGLE_COLLECT]),
        toggle_collect_address=places[_TOGGLE_COLLECT],
        arm_toggle=arm_toggle,
        dump_stats_at=dump_stats_at,
        start_instrumentation=call(places[_START_INSTRUMENTATION]),
        stop_instrumentation=call(places[_STOP_INSTRUMENTATION]),
    )


def _write_all(memory: mmap.mmap, address: int, codes: Any) -> Dict[int, int]:
    """Code into the first page, the words of the requests into the second; where each begins."""
    memory[: len(_GENERAL)] = _GENERAL
    places = {}
    for index, code in enumerate(codes):
        words = _PAGE + 64 * index
        struct.pack_into("=6Q", memory, words, code, 0, 0, 0, 0, 0)
        stub = _stub(address + words)
        start = 64 * (index + 1)
        memory[start : start + len(stub)] = stub
        places[code] = address + start
    return places


def _stub(words: int) -> bytes:
    """A function without arguments that makes one request and returns its answer."""
    return (
        b"\x48\xb8"  # movabs $words, %rax
        + struct.pack("=Q", words)
        + b"\x31\xd2"  # xor %edx, %edx: the answer where there is no valgrind
        + _MAGIC
        + b"\x48\x89\xd0"  # mov %rdx, %rax
        + b"\xc3"  # ret
    )


def _make_executable(address: int) -> None:
    """The first page can be run and no longer written: some systems refuse both at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(address, _PAGE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "the system allows no machine code of our own")

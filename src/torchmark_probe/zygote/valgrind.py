"""Client requests: what a program that runs under callgrind may ask of it.

valgrind watches for a sequence of instructions that does nothing on a real processor. Its headers
have it as a macro for C, and some builds of torch have bindings to it; an environment under test
may have neither, so the sequence is written here as machine code, in memory of its own, and called
through ctypes. On a machine without valgrind it does nothing, by design of the sequence.

Each request is a function of its own there, `void (*)(void)` to C: compiled code may be given its
address and switch the collection around a loop with no Python in between.
"""

import ctypes
import mmap
import platform
import struct
import sys
from typing import Any, Callable, Dict, List, NamedTuple

COUNTABLE_MACHINES = ("x86_64", "AMD64")
"""Where the machine code below means what it says."""

_CALLGRIND = ord("C") << 24 | ord("T") << 16
_CODES = {
    "running_on_valgrind": 0x1001,
    "zero_stats": _CALLGRIND + 1,
    "toggle_collect": _CALLGRIND + 2,
    "start_instrumentation": _CALLGRIND + 4,
    "stop_instrumentation": _CALLGRIND + 5,
    "toggle_from_python": _CALLGRIND + 2,
    "dump_stats": _CALLGRIND,
}
"""By the field of `Requests`: the number that valgrind's headers give to the request."""

_WITHOUT_ARGUMENTS = 4
"""METH_NOARGS of Python's headers."""

_PAGE = mmap.PAGESIZE

_written: List[Any] = []
"""Holds the machine code for the life of the process: C code may have its addresses."""

_MAGIC = bytes.fromhex(
    "48c1c703"  # rol $3, %rdi
    "48c1c70d"  # rol $13, %rdi
    "48c1c73d"  # rol $61, %rdi
    "48c1c733"  # rol $51, %rdi: 128 bits in all, so %rdi is as it was
    "4887db"  # xchg %rbx, %rbx: "the request is at %rax, put the answer in %rdx"
)
_RETURN = bytes.fromhex(
    "4889d0"  # mov %rdx, %rax: the answer is the return value
    "c3"  # ret
)


class Requests(NamedTuple):
    """Callgrind's requests, each ready to be called from Python."""

    running_on_valgrind: Callable[[], int]
    """How many valgrinds this program runs under: 0 or 1."""

    zero_stats: Callable[[], int]
    """Forget what was counted so far."""

    toggle_collect: Callable[[], int]
    """Begin to count in the thread that calls, or stop: machine code, a `void (*)(void)` to C."""

    toggle_from_python: Callable[[], object]
    """The same as a built-in function: the way to it and back is a hundredth of ctypes' own."""

    dump_stats: Callable[[], int]
    """Write what was counted to the next file, and forget it."""

    start_instrumentation: Callable[[], int]
    """From here on callgrind watches, and everything is some thirty times slower."""

    stop_instrumentation: Callable[[], int]
    """Callgrind stands aside again, and forgets all code that it had translated."""


class UnwatchedImports:
    """Callgrind looks away while a setup imports: importing is thirty times slower when it watches.

    Some modules are imported by torch where nobody asked: the first `__torch_dispatch__` brings in
    torch.compile's, which took minutes. From the first module that is not there yet until the
    counted runs begin, instrumentation is off; what is counted does not change by it.

    It is a finder that finds nothing: it is asked for every module that has to be imported.
    """

    def __init__(self, callgrind: Requests) -> None:
        self._callgrind = callgrind
        self._looks_away = False

    def begin(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, _name: str, _path: Any = None, _target: Any = None) -> None:
        if not self._looks_away:
            self._looks_away = True
            self._callgrind.stop_instrumentation()

    def end(self) -> None:
        """Callgrind watches again, and imports are no longer heard of."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        if self._looks_away:
            self._callgrind.start_instrumentation()


def requests() -> Requests:
    """Write the machine code and return its functions; they stay for the life of the process."""
    if platform.machine() not in COUNTABLE_MACHINES:
        raise OSError(
            f"counting instructions needs an x86-64 machine, and this is {platform.machine()!r}"
        )
    memory = mmap.mmap(-1, 2 * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _written.append(memory)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    places = _write_all(memory, address)
    _make_executable(address)
    call: Any = ctypes.CFUNCTYPE(ctypes.c_ssize_t)
    functions: Dict[str, Any] = {name: call(place) for name, place in places.items()}
    functions["toggle_from_python"] = _builtin(places["toggle_from_python"])
    return Requests(**functions)


def _write_all(memory: mmap.mmap, address: int) -> Dict[str, int]:
    """Code into the first page, the words of the requests into the second; where each begins."""
    places = {}
    for index, (name, code) in enumerate(_CODES.items()):
        start = 64 * index
        words = _PAGE + start
        struct.pack_into("=6Q", memory, words, code, 0, 0, 0, 0, 0)
        end = _return_a_python_object() if name == "toggle_from_python" else _RETURN
        stub = _stub(address + words) + end
        memory[start : start + len(stub)] = stub
        places[name] = address + start
    return places


def _stub(words: int) -> bytes:
    """The beginning of a function without arguments: one request, its answer in %rdx."""
    return (
        b"\x48\xb8"  # movabs $words, %rax
        + struct.pack("=Q", words)
        + b"\x31\xd2"  # xor %edx, %edx: the answer where there is no valgrind
        + _MAGIC
    )


def _return_a_python_object() -> bytes:
    """The end of a built-in function of Python: its result is that of PyLong_FromLong(0)."""
    make = ctypes.cast(ctypes.pythonapi.PyLong_FromLong, ctypes.c_void_p).value
    return (
        b"\x31\xff"  # xor %edi, %edi
        b"\x48\xb8" + struct.pack("=Q", make) + b"\xff\xe0"  # movabs $make, %rax  # jmp *%rax
    )


class _MethodDefinition(ctypes.Structure):
    """What Python knows of a built-in function; it must live as long as the function."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("code", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def _builtin(address: int) -> Callable[[], object]:
    definition = _MethodDefinition(b"toggle_collect", address, _WITHOUT_ARGUMENTS, None)
    _written.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    make.restype = ctypes.py_object
    return make(ctypes.addressof(definition), None, None)  # type: ignore[no-any-return]


def _make_executable(address: int) -> None:
    """The first page can be run and no longer written: some systems refuse both at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(address, _PAGE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "the system allows no machine code of our own")

"""Client requests: functions that a program running under callgrind can call to control it.

valgrind recognises a sequence of instructions that does nothing on a real processor. Its headers
define it as a C macro, and some builds of torch have bindings to it. An environment under test may
have neither, so the sequence is written here as machine code, in its own memory, and called through
ctypes. By design, it does nothing without valgrind.

Each request is a separate function, `void (*)(void)` in C. So compiled code can be given its
address, and switch collection around a loop without running Python.
"""

import ctypes
import mmap
import platform
import struct
import sys
from typing import Any, Callable, Dict, List, NamedTuple

COUNTABLE_MACHINES = ("x86_64", "AMD64")
"""Machines that can run the machine code below."""

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
"""By the fields of `Requests`: the request numbers in valgrind's headers."""

_WITHOUT_ARGUMENTS = 4
"""METH_NOARGS in Python's headers."""

_PAGE = mmap.PAGESIZE

_written: List[Any] = []
"""Keeps the machine code alive until the process ends, because C code may have its addresses."""

_MAGIC = bytes.fromhex(
    "48c1c703"  # rol $3, %rdi
    "48c1c70d"  # rol $13, %rdi
    "48c1c73d"  # rol $61, %rdi
    "48c1c733"  # rol $51, %rdi: 128 bits in total, so %rdi is unchanged
    "4887db"  # xchg %rbx, %rbx: "the request is at %rax, put the answer in %rdx"
)
_RETURN = bytes.fromhex(
    "4889d0"  # mov %rdx, %rax: the answer is the return value
    "c3"  # ret
)


class Requests(NamedTuple):
    """Callgrind's requests as Python functions."""

    running_on_valgrind: Callable[[], int]
    """The number of valgrinds that this program runs under: 0 or 1."""

    zero_stats: Callable[[], int]
    """Discard all counts so far."""

    toggle_collect: Callable[[], int]
    """Start or stop counting in the calling thread; machine code, `void (*)(void)` in C."""

    toggle_from_python: Callable[[], object]
    """The same as a built-in function, whose call costs a hundredth of a call by ctypes."""

    dump_stats: Callable[[], int]
    """Write the counts to the next file, and discard them."""

    start_instrumentation: Callable[[], int]
    """Start instrumentation, after which everything is about thirty times slower."""

    stop_instrumentation: Callable[[], int]
    """Stop instrumentation, and discard all translated code."""


class UnwatchedImports:
    """Stops instrumentation while a setup imports modules, which is thirty times slower with it.

    torch imports some modules unexpectedly: the first `__torch_dispatch__` imports those of
    torch.compile, which took minutes. Instrumentation is off from the first new module until the
    counted runs begin; this does not change the counts.

    It is a finder that finds nothing, and is asked for every module that has to be imported.
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
        """Start instrumentation again, and stop watching imports."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
        if self._looks_away:
            self._callgrind.start_instrumentation()


def requests() -> Requests:
    """Write the machine code and return its functions, which stay valid until the process ends."""
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
    """Write code to the first page and the requests' words to the second; return the addresses."""
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
    """Return the beginning of a function without arguments: one request, its answer in %rdx."""
    return (
        b"\x48\xb8"  # movabs $words, %rax
        + struct.pack("=Q", words)
        + b"\x31\xd2"  # xor %edx, %edx: the answer without valgrind
        + _MAGIC
    )


def _return_a_python_object() -> bytes:
    """Return the end of a built-in Python function, whose result is that of PyLong_FromLong(0)."""
    make = ctypes.cast(ctypes.pythonapi.PyLong_FromLong, ctypes.c_void_p).value
    return (
        b"\x31\xff"  # xor %edi, %edi
        b"\x48\xb8" + struct.pack("=Q", make) + b"\xff\xe0"  # movabs $make, %rax  # jmp *%rax
    )


class _MethodDefinition(ctypes.Structure):
    """Python's description of a built-in function; it must live as long as the function."""

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
    """Make the first page executable and read-only: some systems refuse to allow both at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if libc.mprotect(address, _PAGE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "the system does not allow torchmark to run machine code")

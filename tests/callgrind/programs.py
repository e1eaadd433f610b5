"""Real profiles: small C programs, compiled and run under callgrind, and callgrind_annotate."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SOURCES = {
    "main.c": """
        #include <pthread.h>
        #include "inlined.h"
        int from_library(int n);
        int is_odd(int n);
        int fact(int n) { return n < 2 ? 1 : n * fact(n - 1); }
        int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
        int work(int n) {
            volatile int sum = 0;
            for (int i = 0; i < n; i++)
                sum += inlined(i) + fact(i % 7) + is_even(i % 5) + from_library(i);
            return sum;
        }
        int again(int n) { return work(n); }
        static void *in_a_thread(void *unused) { work(11); return unused; }
        int main(void) {
            pthread_t thread;
            work(100);
            again(10);
            pthread_create(&thread, 0, in_a_thread, 0);
            pthread_join(thread, 0);
            return 0;
        }
    """,
    "odd.c": """
        int is_even(int n);
        int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }
    """,
    "library.c": """
        static int helper(int n) { return n * n; }
        int from_library(int n) { return helper(n) + helper(n + 1); }
    """,
    "inlined.h": """
        __attribute__((always_inline)) static inline int inlined(int n) {
            return 3 * n +
                   n / 3;
        }
    """,
}


def compile_program(directory: Path) -> Path:
    """Recursion, mutual recursion over two files, inlined code, a library and a thread."""
    for name, text in _SOURCES.items():
        (directory / name).write_text(text)
    gcc = ["gcc", "-O0", "-g", "-pthread"]
    library = directory / "liblibrary.so"
    subprocess.run(
        [*gcc, "-shared", "-fPIC", "library.c", "-o", library], cwd=directory, check=True
    )
    program = directory / "program"
    subprocess.run(
        [*gcc, "main.c", "odd.c", library, f"-Wl,-rpath,{directory}", "-o", program],
        cwd=directory,
        check=True,
    )
    return program


def count(command: list[str | Path], out: Path, *options: str) -> Path:
    """The file that callgrind writes for a command."""
    callgrind = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *options]
    subprocess.run([*callgrind, *command], check=True, capture_output=True)
    return out


def annotate(out: Path, *, inclusive: bool) -> dict[str, int]:
    """What callgrind_annotate prints for each function, without the object.

    Functions of one file and name in two objects share a number there, under the name of one of
    the objects, so the object is no part of what can be compared.
    """
    printed = subprocess.run(
        [
            "callgrind_annotate",
            f"--inclusive={'yes' if inclusive else 'no'}",
            *("--threshold=100", "--show-percs=no", "--auto=no", "--show=Ir", "--sort=Ir"),
            out,
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",  # it takes the working directory off the names of files
    ).stdout
    _, _, table = printed.partition("file:function\n")
    rows = re.findall(r"^\s*([\d,]+)\s+(\S.*)$", table, re.MULTILINE)
    return {without_object(name): int(count.replace(",", "")) for count, name in rows}


def without_object(name: str) -> str:
    return re.sub(r" \[[^\]]*\]$", "", name)

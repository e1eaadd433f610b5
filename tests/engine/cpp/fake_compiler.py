"""A compiler that compiles nothing: what it says and does hangs on words in the statements.

Run as a program. BAD: an error there. SYNTAX: an error there, and one in every later statement.
HIDDEN: an error that names no place. MISSING_NAME: torch lacks a name, unless the larger header
is included. LACKING: torch has no such name at all. FULL: the disk is full. Every run is noted in
the file that FAKE_LOG names.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    output = Path(arguments[arguments.index("-o") + 1])
    if "c++-header" in arguments:
        note("header", [])
        output.write_text("precompiled")
        return 0
    source = Path(next(word for word in arguments if word.endswith(".cpp"))).read_text()
    prelude = Path(arguments[arguments.index("-include") + 1])
    statements = re.findall(r'#line 1 "<stmt (\d+)>"\n(.*?)\n#line', source, re.DOTALL)
    note("pch" if Path(f"{prelude}.gch").exists() else "unit", [number for number, _ in statements])
    errors = errors_in(statements, prelude.read_text())
    if errors:
        print("\n".join(errors), file=sys.stderr)
        return 1
    output.write_text(source)
    depends = Path(arguments[arguments.index("-MF") + 1])
    read = re.findall(r'#include "(.*?)"', source)
    depends.write_text(f"{output}: {prelude} \\\n {' '.join(read)}\n")
    return 0


def errors_in(statements: list[tuple[str, str]], prelude: str) -> list[str]:
    errors = []
    is_broken = False
    for number, text in statements:
        if "BAD" in text:
            errors.append(f"<stmt {number}>:1:3: error: a bad word")
        if "SYNTAX" in text or is_broken:
            is_broken = True
            errors.append(f"<stmt {number}>:1:1: error: expected ';' before something")
        if "HIDDEN" in text:
            errors.append("cc1plus: error: something is wrong")
        if "MISSING_NAME" in text and "torch/torch.h" not in prelude:
            errors.append(f"<stmt {number}>:1:1: error: 'MISSING_NAME' is not a member of 'torch'")
        if "LACKING" in text:
            errors.append(f"<stmt {number}>:1:1: error: 'LACKING' is not a member of 'at'")
        if "FULL" in text:
            errors.append("unit.cpp: fatal error: error writing: No space left on device")
    return errors


def note(kind: str, numbers: list[str]) -> None:
    with open(os.environ["FAKE_LOG"], "a") as log:
        log.write(" ".join([kind, *numbers]) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

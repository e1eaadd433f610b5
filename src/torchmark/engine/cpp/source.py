"""Renders a batch of C++ statements as one translation unit.

Parsing torch's headers takes 15 s of CPU and a statement a fraction of that, so statements share a
unit. They are kept apart as follows:

- Each statement has a namespace, so that equal names of helpers do not clash. Its macros end with
  it. The `#include` lines of its global setup move to the top of the unit.
- `#line` directives name the parts of the user's code, so that compiler messages refer to them.
- `stands_alone` finds code that could affect other statements (an unclosed bracket, a namespace of
  torch or std). It gets its own unit.

A unit begins with the smallest of torch's headers that may suffice. Each statement becomes `double
torchmark_run_K(number, warmup, before, after)` with C linkage, and `const char*
torchmark_error_K()` returns the text of its exception. The function runs one block, or several
under the control of blocks.h.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PRELUDE = """\
#include <c10/util/Exception.h>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
namespace torchmark_support {
inline void describe_exception(std::string& text) noexcept {
  try {
    throw;
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is not a std::exception";
  }
}
}  // namespace torchmark_support
"""

# The warm-up and the timed runs share one copy of the statement: labels and static variables appear
# once, and the timed code is the code that was warmed up. The names end in an underscore because
# the user's setup and statement share their scope. A `break` in the statement would end the loop
# early and look like a fast statement, so the count is checked. The empty assembly produces no
# instruction, but keeps the compiler from folding a loop of `++n` into one addition. Such a loop
# would take no time, and sampling until some time has passed would never end.
_FUNCTION = """\
#line 1 "<global_setup {number}>"
{global_setup}
#line 1 "<torchmark {number}>"
;
static thread_local ::std::string torchmark_text_;
extern "C" const char* torchmark_error_{number}() {{ return torchmark_text_.c_str(); }}
extern "C" double torchmark_run_{number}(
    ::int64_t torchmark_number_, ::int64_t torchmark_warmup_,
    void (*torchmark_before_)(void), void (*torchmark_after_)(void)) {{
  double torchmark_seconds_ = 0.0;
  bool torchmark_open_ = false;
  try {{
#line 1 "<setup {number}>"
{setup}
#line 20 "<torchmark {number}>"
;
    for (int torchmark_phase_ = 0; torchmark_phase_ < 2; ++torchmark_phase_) {{
      const ::int64_t torchmark_runs_ = torchmark_phase_ ? torchmark_number_ : torchmark_warmup_;
      ::int64_t torchmark_done_ = 0;
      if (torchmark_phase_) {{
        torchmark_open_ = true;
        if (torchmark_before_) torchmark_before_();
      }}
      const auto torchmark_start_ = ::std::chrono::steady_clock::now();
      for (; torchmark_done_ < torchmark_runs_; ++torchmark_done_) {{
#line 1 "<stmt {number}>"
{stmt}
#line 40 "<torchmark {number}>"
;
        __asm__ __volatile__("");
      }}
      const auto torchmark_stop_ = ::std::chrono::steady_clock::now();
      if (torchmark_phase_) {{
        torchmark_open_ = false;
        if (torchmark_after_) torchmark_after_();
      }}
      if (torchmark_done_ < torchmark_runs_)
        throw ::std::logic_error("the statement left its loop with break");
      torchmark_seconds_ =
          ::std::chrono::duration<double>(torchmark_stop_ - torchmark_start_).count();
      if (torchmark_phase_) {{
        torchmark_number_ = ::torchmark_next_block(torchmark_seconds_);
        if (torchmark_number_ >= 0) torchmark_phase_ = 0;
      }}
    }}
  }} catch (...) {{
    ::torchmark_support::describe_exception(torchmark_text_);
    if (torchmark_open_ && torchmark_after_) torchmark_after_();
    torchmark_seconds_ = -1.0;
  }}
  return torchmark_seconds_;
}}
"""

_LITERAL = re.compile(
    r"""
    (?P<number>(?<![\w.])\.?\d(?:'?[\w.])*)          # 1'000: its quote opens no character
    | //[^\n]* | /\*.*?\*/
    | (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*"
    | '(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(\w*)", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$")
_QUOTED_INCLUDE = re.compile(r'#\s*include\b.*"')
_FILE_SCOPE_ONLY = re.compile(
    r"""\b(?:inline\s+)?namespace\s+(?:std|torch|at|c10|caffe2)\b[\s\w:]*\{ | \bextern\s*"\s*" """,
    re.VERBOSE,
)
_BRACKET = re.compile(r"[()\[\]{}]")
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(if|endif\b)", re.MULTILINE)
_CLOSING = {"')'": "'('", "']'": "'['", "'}'": "'{'", "#endif": "#if"}
"""Closing marks with the marks that open them, as messages write them."""


class CppStatement(NamedTuple):
    """The C++ code that the user wrote."""

    stmt: str
    """The timed statement."""

    setup: str = ""
    """Runs once before; its variables are locals of the function that contains the loop."""

    global_setup: str = ""
    """Includes, helper functions and types; placed outside of the function."""


class Problem(NamedTuple):
    """A mistake in the user's code."""

    part: str
    """stmt, setup or global_setup; torchmark for the code around them."""

    line: int
    """Counted from 1 in that part; 0 if a linker only names the function."""

    message: str


class Header(enum.IntEnum):
    """What a unit includes; each header includes everything that smaller ones do."""

    TYPES = 0
    SCRIPT = 1
    TORCH = 2
    PYTHON = 3

    def prelude(self) -> str:
        """Return the text that the unit starts with."""
        return "".join(f"#include <{name}>\n" for name in _INCLUDES[self]) + support()


_INCLUDES = {
    Header.TYPES: ("torch/types.h",),
    Header.SCRIPT: ("torch/script.h",),
    Header.TORCH: ("torch/torch.h", "torch/script.h"),
    Header.PYTHON: ("torch/extension.h", "torch/script.h"),
}

_NEEDED_BY = {
    Header.PYTHON: re.compile(r"\b(?:py|pybind11)::|\bPy[A-Z]\w*|\bTHP\w+"),
    Header.TORCH: re.compile(
        r"\b(?:nn|optim|data|serialize|special|sparse|nested)::|"
        r"\btorch::(?:save|load|manual_seed|cuda|mps|xpu|print|fft)\b"
    ),
    Header.SCRIPT: re.compile(r"\bjit::|\bautograd::|\btorch::(?:class_|NoGradGuard)|\bgrad\("),
}

_MISSING = re.compile(
    r"(\w+)\W is not a member of .(?:torch|at|c10)\b|"
    r"\b(?:torch|at|c10)::(?:\w+::)*(\w+)\W has not been declared|"
    r"no (?:member|type) named .(\w+). in namespace .(?:torch|at|c10)\b|"
    r"incomplete type .*?\b(?:torch|at|c10)::(?:\w+::)*(\w+)"
)
"""How compilers report an unknown name in torch's namespaces; the groups capture the name."""


@cache
def support() -> str:
    """Return the text after torch's header in every unit; it is part of the precompiled header."""
    return _PRELUDE + Path(__file__).with_name("blocks.h").read_text(encoding="utf-8")


def template_key() -> str:
    """Return a digest of torchmark's own text in every unit: a changed text needs a new build."""
    return hashlib.sha256(f"{support()}\n{_FUNCTION}".encode()).hexdigest()


def header_for(statement: CppStatement) -> Header:
    """Guess the smallest header that suffices from the names in the text."""
    text = "\n".join(statement)
    needed = (header for header, names in _NEEDED_BY.items() if names.search(text))
    return next(needed, Header.TYPES)


def larger_header(
    header: Header, problems: Iterable[Problem], folders: Iterable[Path]
) -> Header | None:
    """Return the header to try next if an error is about a name that these folders declare.

    A misspelt name is not declared anywhere, so no header will help.
    """
    found = [_MISSING.search(problem.message) for problem in problems]
    names = {name for match in found if match is not None for name in match.groups() if name}
    if header >= Header.TORCH or not names:
        return None
    word = re.compile(rb"\b(?:" + "|".join(map(re.escape, names)).encode() + rb")\b")
    headers = (path for folder in folders for path in folder.rglob("*.h"))
    is_declared = any(word.search(path.read_bytes()) for path in headers)
    return Header.TORCH if is_declared else None


def render(members: Mapping[int, CppStatement]) -> str:
    """Render the translation unit for these statements, by number; the prelude comes before it.

    A statement that `stands_alone` must be the only one.
    """
    number, statement = next(iter(members.items()))
    if len(members) == 1 and stands_alone(statement):
        return _function(number, statement, statement.global_setup)
    lines: dict[str, str] = {}
    for number, statement in members.items():
        for line, include in includes_of(statement).items():
            lines.setdefault(include, f'#line {line} "<global_setup {number}>"\n{include}\n')
    return "".join([*lines.values(), *(_in_namespace(*member) for member in members.items())])


def includes_of(statement: CppStatement) -> dict[int, str]:
    """Return the include lines of the global setup, by number; `render` moves them to the top."""
    # Includes are found in the text without comments, and returned as the user wrote them.
    lines = statement.global_setup.split("\n")
    plain = _without_literals(statement.global_setup).split("\n")
    return {
        number: lines[number - 1]
        for number, line in enumerate(plain, start=1)
        if _INCLUDE.match(line)
    }


def stands_alone(statement: CppStatement) -> bool:
    """Whether the statement could affect others in its unit, or be affected by them."""
    if imbalance_of(statement) is not None:
        return True
    text = _without_literals(statement.global_setup)
    if _FILE_SCOPE_ONLY.search(text):
        return True
    depth = 0
    seen_define = False
    for directive in _DIRECTIVE.finditer(text):
        kind = directive[1]
        depth += kind.startswith("if") - (kind == "endif")
        seen_define = seen_define or kind in ("define", "undef")
        if kind == "include" and (depth or seen_define):
            return True
    return False


def imbalance_of(statement: CppStatement) -> Problem | None:
    """Find the first bracket, quote, comment or `#if` without a partner, in any part."""
    for part, source in statement._asdict().items():
        text = _without_literals(source)
        brackets = [(bracket.start(), f"'{bracket[0]}'") for bracket in _BRACKET.finditer(text)]
        conditions = [(line.start(), f"#{line[1]}") for line in _CONDITION.finditer(text)]
        found = _unclosed_literal(text) or _find_unpaired(brackets) or _find_unpaired(conditions)
        if found is not None:
            position, message = found
            return Problem(part, text.count("\n", 0, position) + 1, message)
    return None


def quotes_an_include(statement: CppStatement) -> bool:
    """Whether an include is resolved relative to the working directory."""
    return _QUOTED_INCLUDE.search(statement.global_setup) is not None


def _in_namespace(number: int, statement: CppStatement) -> str:
    macros = _macros_of(statement)
    saved = "".join(f'#pragma push_macro("{name}")\n#undef {name}\n' for name in macros)
    restored = "".join(f'#pragma pop_macro("{name}")\n' for name in macros)
    includes = includes_of(statement)
    lines = enumerate(statement.global_setup.split("\n"), start=1)
    others = "\n".join("" if index in includes else line for index, line in lines)
    function = _function(number, statement, others)
    return f"{saved}namespace torchmark_{number} {{\n{function}}}\n{restored}"


def _function(number: int, statement: CppStatement, global_setup: str) -> str:
    return _FUNCTION.format(
        number=number, global_setup=global_setup, setup=statement.setup, stmt=statement.stmt
    )


def _macros_of(statement: CppStatement) -> list[str]:
    names = [
        directive[2]
        for source in statement
        for directive in _DIRECTIVE.finditer(_without_literals(source))
        if directive[1] in ("define", "undef") and directive[2]
    ]
    return list(dict.fromkeys(names))


def _without_literals(source: str) -> str:
    """Blank out comments and the contents of literals; every line keeps its place."""

    def blank(match: re.Match[str]) -> str:
        if match["number"]:
            return match[0].replace("'", "0")
        inside = re.sub(r"[^\n]", " ", match[0])
        return inside if match[0].startswith("/") else '"' + inside[1:-1] + '"'

    return _LITERAL.sub(blank, source)


def _unclosed_literal(text: str) -> tuple[int, str] | None:
    for mark in ("/*", "*/"):
        if mark in text:
            return text.index(mark), f"an incomplete comment: {mark}"
    closed = re.sub(r'"\s*"', lambda match: " " * len(match[0]), text)
    for position, character in enumerate(closed):
        if character in "\"'" and not _is_in_directive(text, position):
            return position, f"an unterminated literal: {character}"
    return None


def _is_in_directive(text: str, position: int) -> bool:
    start = text.rfind("\n", 0, position) + 1
    return text[start:position].lstrip().startswith("#")


def _find_unpaired(marks: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
    opened: list[tuple[int, str]] = []
    for position, mark in marks:
        if mark not in _CLOSING:
            opened.append((position, mark))
        elif opened and opened[-1][1] == _CLOSING[mark]:
            opened.pop()
        else:
            return position, f"{mark} has no opening {_CLOSING[mark]}"
    return (opened[-1][0], f"{opened[-1][1]} is never closed") if opened else None

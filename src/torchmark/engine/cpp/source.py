"""A batch of C++ statements becomes one translation unit.

Parsing torch's headers costs 15 s and a statement a fraction of one, so statements share a unit.
What keeps them apart:

- each has a namespace, so that helpers of one name do not clash, and macros of a statement end
  with it; the `#include` lines of a global setup go to the top, where headers must stand;
- `#line` directives name the user's own parts, so that the compiler's messages do;
- code that could reach over its end (an unclosed bracket, a namespace that is torch's or std's)
  is found by `stands_alone`, and gets a unit of its own.

A unit begins with the smallest of torch's headers that may do. Each statement becomes `double
torchmark_run_K(number, warmup, before, after)` with C linkage, and `const char*
torchmark_error_K()` for the text of what it threw. It runs one block, or for blocks.h one after the
other.
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

# The warm-up and the timed runs go through one copy of the statement: labels and static variables
# of the statement stand once, and what is timed is the code that has been warmed up. The names
# end in an underscore because the user's setup and statement share their scope. A `break` of the
# user would shorten the loop and pass for speed, hence the look at the count. The empty assembly
# is no instruction, but keeps the compiler from folding a loop of `++n` into one addition: such a
# loop takes no time, and whoever samples until a time has passed would never end.
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
"""What closes, and what it closes, as messages name them."""


class CppStatement(NamedTuple):
    """What the user wrote."""

    stmt: str
    """What is timed."""

    setup: str = ""
    """Runs once before; its variables are locals of the function that has the loop."""

    global_setup: str = ""
    """Includes, helper functions and types, outside of the function."""


class Problem(NamedTuple):
    """A mistake at a place of the user's code."""

    part: str
    """stmt, setup, global_setup, or torchmark for the code around them."""

    line: int
    """Counted from 1 in that part; 0 where a linker names the function alone."""

    message: str


class Header(enum.IntEnum):
    """What a unit includes; each holds all that the one before it has."""

    TYPES = 0
    SCRIPT = 1
    TORCH = 2
    PYTHON = 3

    def prelude(self) -> str:
        """The text that the unit starts with."""
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
"""What compilers say of a name in torch's namespaces that they do not know; with that name."""


@cache
def support() -> str:
    """What follows torch's header in every unit; part of the precompiled header."""
    return _PRELUDE + Path(__file__).with_name("blocks.h").read_text(encoding="utf-8")


def template_key() -> str:
    """What torchmark itself has in every unit, as a digest: a build of another text is not ours."""
    return hashlib.sha256(f"{support()}\n{_FUNCTION}".encode()).hexdigest()


def header_for(statement: CppStatement) -> Header:
    """The smallest header that may do, judged by the names in the text."""
    text = "\n".join(statement)
    needed = (header for header, names in _NEEDED_BY.items() if names.search(text))
    return next(needed, Header.TYPES)


def larger_header(
    header: Header, problems: Iterable[Problem], folders: Iterable[Path]
) -> Header | None:
    """The header to try next, if the errors miss a name that torch has in these folders.

    A name that is misspelt is in none of them, and no header will help.
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
    """The translation unit for these statements, by their numbers; the prelude comes before it.

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
    """The lines of the global setup that `render` puts to the top of the unit, by their number."""
    # Whether a line is an include is asked of the text without comments; the line is the user's.
    lines = statement.global_setup.split("\n")
    plain = _without_literals(statement.global_setup).split("\n")
    return {
        number: lines[number - 1]
        for number, line in enumerate(plain, start=1)
        if _INCLUDE.match(line)
    }


def stands_alone(statement: CppStatement) -> bool:
    """Whether the statement could disturb its neighbours, or means something else beside them."""
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
    """The first bracket, quote, comment or `#if` that has no partner, in any part."""
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
    """Whether an include is looked up relative to the working directory."""
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
    """The source with comments and the insides of literals blanked; every line stays in place."""

    def blank(match: re.Match[str]) -> str:
        if match["number"]:
            return match[0].replace("'", "0")
        inside = re.sub(r"[^\n]", " ", match[0])
        return inside if match[0].startswith("/") else '"' + inside[1:-1] + '"'

    return _LITERAL.sub(blank, source)


def _unclosed_literal(text: str) -> tuple[int, str] | None:
    for mark in ("/*", "*/"):
        if mark in text:
            return text.index(mark), f"a comment that is not whole: {mark}"
    closed = re.sub(r'"\s*"', lambda match: " " * len(match[0]), text)
    for position, character in enumerate(closed):
        if character in "\"'" and not _is_in_directive(text, position):
            return position, f"a literal that is not whole: {character}"
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
            return position, f"{mark} closes nothing"
    return (opened[-1][0], f"{opened[-1][1]} is never closed") if opened else None

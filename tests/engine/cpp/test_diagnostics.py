"""Whose mistake it is, from the words of compilers and linkers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.engine.cpp.diagnostics import (
    explain,
    problems_in,
    surely_guilty,
    what_is_lacking,
)
from torchmark.engine.cpp.source import CppStatement, Problem

GCC_TEMPLATE = """\
In file included from /usr/include/c++/12/algorithm:61,
                 from <global_setup 2>:2:
/usr/include/c++/12/bits/stl_algo.h: In instantiation of 'void std::__sort(_It, _It)':
/usr/include/c++/12/bits/stl_algo.h:4820:18:   required from 'void std::sort(_It, _It)'
<stmt 6>:1:31:   required from here
/usr/include/c++/12/bits/stl_algo.h:1938:50: error: no match for 'operator-'
 1938 |         std::__introsort_loop(__first, __last,
/usr/include/c++/12/bits/stl_iterator.h:625:5: note: candidate: 'template<class X> operator-'
<stmt 9>:1:2: note:   candidate of another statement
"""

CLANG_TEMPLATE = """\
/usr/include/c++/12/bits/stl_algo.h:1938:50: error: invalid operands to binary expression
/usr/include/c++/12/bits/stl_algo.h:4820:18: note: in instantiation of 'std::__sort' requested here
<stmt 6>:1:31: note: in instantiation of 'std::sort' requested here
1 error generated.
"""

LINKER = """\
/usr/bin/ld: ccqm.o: in function `torchmark_run_7':
unit.cpp:(.text+0x1f2): undefined reference to `torchmark_7::notthere()'
collect2: error: ld returned 1 exit status
"""


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("'InferenceMode' is not a member of 'c10'", "c10::InferenceMode"),
        ("'Foo' is not a member of 'torch::nn'; did you mean 'Fold'?", "torch::nn::Foo"),
        ("'class at::Tensor' has no member named 'foo'", "at::Tensor::foo"),
        ("no member named 'foo' in namespace 'torch'", "torch::foo"),
        ("no member named 'foo' in 'at::Tensor'", "at::Tensor::foo"),
        ("torch/foo.h: No such file or directory", "header torch/foo.h"),
        ("'torch/foo.h' file not found", "header torch/foo.h"),
        ("'foo' is not a member of 'mine'", ""),
        ("my/foo.h: No such file or directory", ""),
        ("expected ';' before '}' token", ""),
    ],
)
def test_what_torch_does_not_have_in_cpp_is_told_from_a_mistake(message: str, name: str) -> None:
    found = what_is_lacking([Problem("stmt", 1, message), Problem("stmt", 2, "echo")], "1.13.1")
    assert found == (f"torch 1.13.1 has no {name}" if name else "")


def test_an_error_in_the_users_code_is_at_the_users_line() -> None:
    output = (
        "<setup 3>: In function 'double torchmark_run_3(int64_t, int64_t)':\n"
        "<setup 3>:2:17: error: 'onse' is not a member of 'torch'; did you mean 'ones'?\n"
        "<stmt 4>:1:1: warning: unused\n"
    )
    assert problems_in(output) == {
        3: [Problem("setup", 2, "'onse' is not a member of 'torch'; did you mean 'ones'?")]
    }


def test_an_error_in_a_header_belongs_to_who_went_there() -> None:
    for output in (GCC_TEMPLATE, CLANG_TEMPLATE):
        ((number, (problem,)),) = problems_in(output).items()
        assert (number, problem.part, problem.line) == (6, "stmt", 1)
        assert "stl_algo.h" in problem.message


def test_a_missing_header_is_a_fatal_error_there() -> None:
    output = "<global_setup 2>:3:10: fatal error: no.h: No such file or directory\n"
    expected = Problem("global_setup", 3, "no.h: No such file or directory")
    assert problems_in(output) == {2: [expected]}


def test_the_linker_names_the_function() -> None:
    ((number, (problem,)),) = problems_in(LINKER).items()
    assert (number, problem.line) == (7, 0)
    assert "notthere" in problem.message


def test_long_messages_are_cut() -> None:
    ((problem,),) = problems_in(f"<stmt 0>:1:1: error: {'std::vector<' * 500}\n").values()
    assert len(problem.message) == 300


def test_syntax_errors_may_echo() -> None:
    other = [Problem("stmt", 1, "'x' was not declared in this scope")]
    syntax = [*other, Problem("stmt", 1, "expected ';' before '}' token")]
    assert surely_guilty({4: other, 1: syntax, 0: other}) == (0, 1)
    assert surely_guilty({4: other, 1: other, 0: other}) == (0, 1, 4)


def test_an_output_without_places_gives_its_first_errors() -> None:
    def said_of(output: str) -> str:
        return explain(CppStatement("x;"), [], output, "g++").partition("g++ said:\n")[2]

    assert problems_in("cc1plus: error: out of memory\n") == {}
    assert said_of("hello\ncc1plus: error: out of memory\n") == (
        "    cc1plus: error: out of memory"
    )
    assert said_of("Killed\n") == "    Killed"
    assert said_of("") == "    nothing"


@given(st.text(alphabet="<stmt 0>:1 error\nIn file included from", max_size=80))
def test_any_output_is_read(output: str) -> None:
    assert all(number >= 0 for number in problems_in(output))

"""Statements become one unit with the smallest header that may do, and stay apart in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.engine.cpp.source import (
    CppStatement,
    Header,
    Problem,
    header_for,
    imbalance_of,
    larger_header,
    quotes_an_include,
    render,
    stands_alone,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_every_part_has_its_name_and_its_lines() -> None:
    unit = render({3: CppStatement("x + y;", "int x = 1;\nint y = 2;", "int f();")})
    assert '#line 1 "<stmt 3>"\nx + y;\n' in unit
    assert '#line 1 "<setup 3>"\nint x = 1;\nint y = 2;\n' in unit
    assert '#line 1 "<global_setup 3>"\nint f();\n' in unit
    assert 'extern "C" double torchmark_run_3(' in unit
    assert 'extern "C" const char* torchmark_error_3()' in unit


def test_includes_go_to_the_top_once_and_other_lines_keep_their_numbers() -> None:
    setup = "#include <list>\nint f();\n  #  include <set>\nint g();"
    unit = render({0: CppStatement("", "", setup), 1: CppStatement("", "", "#include <list>")})
    assert unit.startswith(
        '#line 1 "<global_setup 0>"\n#include <list>\n'
        '#line 3 "<global_setup 0>"\n  #  include <set>\n'
    )
    assert '"<global_setup 0>"\n\nint f();\n\nint g();\n' in unit
    assert unit.count("#include <list>") == 1


def test_an_include_in_a_comment_is_no_include() -> None:
    unit = render({0: CppStatement("", "", "/*\n#include <list>\n*/")})
    assert unit.startswith("namespace torchmark_0")


def test_macros_end_with_their_statement() -> None:
    unit = render({0: CppStatement("N;", "#define M 2", "#define N 1"), 1: CppStatement("N;")})
    first, second = unit.split("namespace torchmark_1 ")
    assert '#pragma push_macro("N")' in first
    assert '#pragma pop_macro("M")' in first
    assert "macro" not in second


@pytest.mark.parametrize(
    ("part", "line", "statement"),
    [
        ("stmt", 2, CppStatement("x;\nf(1, [2;")),
        ("stmt", 1, CppStatement("x; }")),
        ("stmt", 1, CppStatement("(x];")),
        ("setup", 3, CppStatement("", "int x;\n\n{")),
        ("setup", 1, CppStatement("", 'auto x = "abc;')),
        ("setup", 1, CppStatement("", "/* not closed")),
        ("global_setup", 1, CppStatement("", "", "#if 1\nint x;")),
        ("global_setup", 1, CppStatement("", "", "#endif")),
    ],
)
def test_what_is_not_closed_is_found_and_stands_alone(
    part: str, line: int, statement: CppStatement
) -> None:
    found = imbalance_of(statement)
    assert found is not None
    assert (found.part, found.line) == (part, line)
    assert stands_alone(statement)


@pytest.mark.parametrize(
    "text",
    [
        'f("{", \'}\', "\\"");',
        "int n = 1'000'000; char c = '\\'';",
        'auto s = R"(})" R"x()")x";',
        "// {\nx; /* ( */",
        "auto v = x[{0, 1}](a);",
        "#error don't",
    ],
)
def test_brackets_in_literals_and_comments_do_not_count(text: str) -> None:
    assert imbalance_of(CppStatement(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "namespace std { template <> struct hash<int*> {}; }",
        "namespace torch::nn {\nint f();\n}",
        'extern "C" int f();',
        "#if 1\n#include <list>\n#endif",
        "#define X\n#include <list>",
    ],
)
def test_what_means_something_else_in_a_namespace_stands_alone(text: str) -> None:
    statement = CppStatement("", "", text)
    assert stands_alone(statement)
    assert f'#line 1 "<global_setup 0>"\n{text}\n' in render({0: statement})
    assert "namespace torchmark_0" not in render({0: statement})


@pytest.mark.parametrize("text", ["namespace mine { int f(); }", "namespace fs = std::filesystem;"])
def test_other_namespaces_go_with_the_rest(text: str) -> None:
    assert not stands_alone(CppStatement("", "", text))


def test_quoted_includes_hang_on_the_working_directory() -> None:
    assert quotes_an_include(CppStatement("", "", '#include "mine.h"'))
    assert not quotes_an_include(CppStatement('f("#include");', "", "#include <list>"))


@given(st.text(alphabet="(){}[]\"'/*\\\n#Rx ", max_size=30))
def test_any_text_is_judged(text: str) -> None:
    statement = CppStatement(text, text, text)
    found = imbalance_of(statement)
    assert found is None or 1 <= found.line <= text.count("\n") + 1
    assert f'"<stmt 7>"\n{text}\n' in render({7: statement})


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("x + torch::ones({2});", Header.TYPES),
        ("torch::jit::load(path);", Header.SCRIPT),
        ("torch::autograd::grad({y}, {x});", Header.SCRIPT),
        ("torch::nn::Linear m(2, 2);", Header.TORCH),
        ("torch::optim::SGD o(p, 0.1);", Header.TORCH),
        ("torch::data::make_data_loader(d);", Header.TORCH),
        ("py::list l;", Header.PYTHON),
    ],
)
def test_names_in_the_text_decide(text: str, header: Header) -> None:
    assert header_for(CppStatement(text)) is header
    assert header_for(CppStatement("", text)) is header


@pytest.mark.parametrize(
    "message",
    [
        "'Thing' is not a member of 'torch'",
        "'torch::Thing' has not been declared",
        "no member named 'Thing' in namespace 'torch'",
        "variable 'at::Thing x' has initializer but incomplete type 'at::Thing'",
    ],
)
def test_a_larger_header_is_tried_for_a_name_that_torch_has(message: str, tmp_path: Path) -> None:
    problems = [Problem("stmt", 1, message)]
    assert larger_header(Header.TYPES, problems, [tmp_path]) is None
    (tmp_path / "nn.h").write_text("struct Thing;")
    assert larger_header(Header.TYPES, problems, [tmp_path]) is Header.TORCH
    assert larger_header(Header.TORCH, problems, [tmp_path]) is None


def test_no_header_helps_against_other_mistakes(tmp_path: Path) -> None:
    (tmp_path / "nn.h").write_text("int x;")
    problems = [Problem("stmt", 1, "'x' was not declared in this scope")]
    assert larger_header(Header.TYPES, problems, [tmp_path]) is None

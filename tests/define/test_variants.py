"""Blocks of one benchmark a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.define.grouped import GroupedVariants
from torchmark.errors import DefinitionError


def test_each_line_is_a_benchmark_and_labels_of_both_languages_are_merged() -> None:
    variants = GroupedVariants(
        py_block="""
            # @Setup
            x = torch.ones(4)
            # kept: it is part of the setup

            # @add
            x + 1
            x + x

            # @only Python
            x.tolist()
        """,
        cpp_block="""
            // @Global_Setup
            #include <vector>

            // @Setup
            auto x = torch::ones({4});

            // @add
            x + 1;
            x + x;

            // @only C++
            x.data_ptr();
        """,
        num_threads=(1, 2),
    )
    statements = {label: (b.py_fwd_stmt, b.cpp_fwd_stmt) for label, b in variants.items()}
    assert statements == {
        ("add", "Case:  0"): ("x + 1", "x + 1;"),
        ("add", "Case:  1"): ("x + x", "x + x;"),
        ("only Python",): ("x.tolist()", None),
        ("only C++",): (None, "x.data_ptr();"),
    }
    for benchmark in variants.values():
        assert benchmark.setup.py_setup.startswith("x = torch.ones(4)\n")
        assert benchmark.setup.cpp_setup == "auto x = torch::ones({4});"
        assert benchmark.setup.global_setup == "#include <vector>"
        assert benchmark.num_threads == (1, 2)


def test_an_empty_line_or_a_comment_holds_a_place() -> None:
    variants = GroupedVariants("# @a\n1\n# no Python\n3", "// @a\n\n2;\n3;")
    assert [(b.py_fwd_stmt, b.cpp_fwd_stmt) for b in variants.values()] == [
        ("1", None),
        (None, "2;"),
        ("3", "3;"),
    ]


def test_lines_need_no_label() -> None:
    assert list(GroupedVariants("x + 1")) == [()]
    assert list(GroupedVariants("x + 1\nx + 2")) == [("Case:  0",), ("Case:  1",)]


@pytest.mark.parametrize("spelling", ["Setup", "setup", "SETUP"])
def test_reserved_labels_may_be_spelt_in_capitals(spelling: str) -> None:
    (benchmark,) = GroupedVariants(f"# @{spelling}\nx = 1\n# @a\nx").values()
    assert benchmark.setup.py_setup == "x = 1"


def test_a_setup_over_several_lines_keeps_its_indent() -> None:
    block = """
        # @Setup
        def f():
            return 1

        # @a
        f()
    """
    (benchmark,) = GroupedVariants(block).values()
    assert benchmark.setup.py_setup == "def f():\n    return 1"


@pytest.mark.parametrize(
    ("py_block", "cpp_block", "says"),
    [
        ("", "", "no statement"),
        ("# @Setup\nx = 1", "", "no statement"),
        ("# @Global Setup\nimport os\n# @a\n1", "", "for C\\+\\+"),
        ("# @\n1", "", "is empty"),
    ],
)
def test_a_block_that_means_nothing_is_refused(py_block: str, cpp_block: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        GroupedVariants(py_block, cpp_block)


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5), min_size=1))
def test_there_are_as_many_benchmarks_as_lines(lines: dict[str, int]) -> None:
    block = "\n".join(f"# @{label}\n" + "x\n" * count for label, count in lines.items())
    assert len(GroupedVariants(block)) == sum(lines.values())
    assert len(GroupedVariants(block, block.replace("#", "//"))) == sum(lines.values())

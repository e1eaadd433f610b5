from __future__ import annotations

import pytest

from torchmark_probe.loops.snippets import PythonLoop, SnippetSyntaxError
from torchmark_probe.zygote.failures import described


def test_the_traceback_begins_at_the_users_own_line() -> None:
    with pytest.raises(KeyError) as caught:
        PythonLoop("x = {}\nx['a']").timeit(1)
    assert described(caught.value) == {
        "outcome": "raised",
        "type": "KeyError",
        "traceback": "  In the statement, line 2:\n    x['a']\nKeyError: 'a'",
    }


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_a_failed_allocation_is_told_apart(error: Exception) -> None:
    assert described(error)["outcome"] == "memory"


def test_a_syntax_error_keeps_line_column_and_text() -> None:
    with pytest.raises(SnippetSyntaxError) as caught:
        PythonLoop("pass", "a = 1\nx = = 1")
    told = described(caught.value)
    assert (told["outcome"], told["part"]) == ("syntax", "setup")
    assert (told["line"], told["column"], told["text"]) == (2, 5, "x = = 1\n")

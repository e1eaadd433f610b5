from __future__ import annotations

import pytest

from torchmark_probe.loops.snippets import PythonLoop, SnippetSyntaxError
from torchmark_probe.zygote.handlers import UnsupportedError, describe_error
from torchmark_probe.zygote.messages import Raised, SyntaxFailed, Unsupported


def test_the_traceback_begins_at_the_users_own_line() -> None:
    with pytest.raises(KeyError) as caught:
        PythonLoop("x = {}\nx['a']").timeit(1)
    told = "  In the statement, line 2:\n    x['a']\nKeyError: 'a'"
    assert describe_error(caught.value) == Raised(told, is_memory=False)


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_a_failed_allocation_is_told_apart(error: Exception) -> None:
    told = describe_error(error)
    assert isinstance(told, Raised)
    assert told.is_memory


def test_what_cannot_be_done_here_is_told_by_its_sentence_alone() -> None:
    assert describe_error(UnsupportedError("ONNX has no such type")) == Unsupported(
        "ONNX has no such type"
    )


def test_a_syntax_error_keeps_line_column_and_text() -> None:
    with pytest.raises(SnippetSyntaxError) as caught:
        PythonLoop("pass", "a = 1\nx = = 1")
    told = describe_error(caught.value)
    assert isinstance(told, SyntaxFailed)
    assert told.part == "setup"
    assert told.details[:3] == [2, 5, "x = = 1\n"]

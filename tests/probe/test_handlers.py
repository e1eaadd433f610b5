from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from torchmark_probe.loops.snippets import PythonLoop, SnippetSyntaxError
from torchmark_probe.zygote.handlers import UnsupportedError, describe_error, headline_of
from torchmark_probe.zygote.messages import Raised, SyntaxFailed, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable


def failure(stmt: str, setup: str = "pass") -> Raised:
    with pytest.raises(BaseException) as caught:  # whatever the statement raises
        PythonLoop(stmt, setup, globals={"torch": torch}).timeit(1)
    told = describe_error(caught.value)
    assert isinstance(told, Raised)
    return told


def test_the_traceback_begins_at_the_users_own_line() -> None:
    assert failure("x = {}\nx['a']") == Raised(
        headline="KeyError: 'a'",
        frames="  In the statement, line 2:\n    x['a']",
        text="KeyError: 'a'",
        builtin="KeyError",
    )


def test_the_traceback_follows_the_users_code_from_part_to_part() -> None:
    told = failure("x = 1\nf(x)", "def f(n):\n    return n / 0")
    assert told.frames.splitlines() == [
        "  In the statement, line 2:",
        "    f(x)",
        "  In the setup, line 2:",
        "    return n / 0",
    ]


def test_frames_of_libraries_are_kept() -> None:
    told = failure("torch.nn.Linear(2, 3)(torch.ones(5))")
    assert "linear.py" in told.frames
    assert "torchmark" not in told.frames
    assert told.builtin == "RuntimeError"


def test_an_endless_recursion_has_few_lines() -> None:
    told = failure("f()", "def f(): return f()")
    assert told.headline.startswith("RecursionError: ")
    assert len(told.frames.splitlines()) < 30
    assert "lines left out" in told.frames


def test_a_message_of_many_lines_is_told_by_its_type_and_first_line() -> None:
    told = failure("raise RuntimeError('CUDA error: bad\\nCUDA kernel errors might be late\\nx')")
    assert told.headline == "RuntimeError: CUDA error: bad"
    assert told.text.splitlines()[-1] == "x"


@pytest.mark.parametrize(
    ("error", "headline"),
    [
        (ValueError("y" * 10_000_000), "ValueError: " + "y" * 187 + "…"),
        (ValueError("these are wrong:\n  a\n  b"), "ValueError: these are wrong: a"),
        (ValueError("\n\nat last"), "ValueError: at last"),
        (ValueError(), "ValueError"),
        (SyntaxError("invalid", ("<string>", 1, 5, "x = = 1", 1, 6)), "SyntaxError: invalid"),
    ],
)
def test_the_headline_is_one_line_that_is_not_too_long(error: Exception, headline: str) -> None:
    assert headline_of(error) == headline


def _multiply(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, y)


def _trace_multiply() -> Callable[..., Any]:
    square = torch.ones(2, 2)
    traced: Any = torch.jit.trace(_multiply, (square, square))  # type: ignore[no-untyped-call]
    return traced  # type: ignore[no-any-return]


def _refuse(x: torch.Tensor) -> torch.Tensor:
    if x.dim() > 0:
        raise ValueError("not this one\nnote: that is all")
    return x


def _compile_product() -> None:
    torch.compile(torch.mm, fullgraph=True)(torch.ones(2, 3), torch.ones(2, 3))


def _compile_print() -> None:
    torch.compile(lambda x: print(x.sum()), fullgraph=True)(torch.ones(2))


MISFIT = "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"


@pytest.mark.parametrize(
    ("run", "headline"),
    [
        pytest.param(
            lambda: torch.ones(2, 2).to_sparse().sigmoid_(),
            "NotImplementedError: Could not run 'aten::sigmoid_' with arguments from the "
            "'SparseCPU' backend.",
            id="no kernel",
        ),
        pytest.param(
            lambda: torch.jit.script(_multiply)(torch.ones(2, 3), torch.ones(2, 3)),
            f"RuntimeError: {MISFIT}",
            id="TorchScript",
        ),
        pytest.param(
            lambda: _trace_multiply()(torch.ones(2, 3), torch.ones(2, 3)),
            f"RuntimeError: {MISFIT}",
            id="traced",
        ),
        pytest.param(
            lambda: torch.jit.script(_refuse)(torch.ones(2)),
            "ValueError: not this one",
            id="raised there",
        ),
        pytest.param(
            lambda: torch.nn.Linear(2, 3).load_state_dict({}),
            "RuntimeError: Error(s) in loading state_dict for Linear: Missing key(s)",
            id="announced",
        ),
        pytest.param(
            _compile_product,
            "torch._dynamo.exc.TorchRuntimeError: RuntimeError when making fake tensor call: "
            "RuntimeError('a and b must have same reduction dim",
            id="compiled",
        ),
        pytest.param(
            _compile_print,
            "torch._dynamo.exc.Unsupported: Failed to trace builtin operator: Dynamo does not "
            "know how to trace builtin operator `print`",
            id="graph break",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")  # TorchScript is deprecated
def test_the_headline_of_torchs_own_errors_says_what_happened(
    run: Callable[[], Any], headline: str
) -> None:
    with pytest.raises(Exception) as raised:
        run()
    assert len(str(raised.value).splitlines()) > 1, "else any rule would do"
    assert headline_of(raised.value).startswith(headline)


def test_a_huge_message_is_cut() -> None:
    told = describe_error(ValueError("y" * 10_000_000))
    assert isinstance(told, Raised)
    assert len(told.text) < 40_000
    assert told.text.endswith("characters left out]")


def test_causes_are_told_below_the_exception() -> None:
    told = failure("raise KeyError('a') from OSError('b\\nc')")
    assert told.headline == "KeyError: 'a'"
    assert told.text == "KeyError: 'a'\ncaused by OSError: b\nc"
    told = failure("try: {}['a']\nexcept KeyError: 1 / 0")
    assert told.text == "ZeroDivisionError: division by zero\nraised while handling KeyError: 'a'"


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

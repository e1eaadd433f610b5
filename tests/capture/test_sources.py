"""The user's line of each call, and the names of files without what is true on one machine."""

from __future__ import annotations

import os
import site
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch._inductor import config as inductor

import torchmark
from torchmark.capture.sources import show_file
from torchmark.capture.traces.loading import load_trace

if TYPE_CHECKING:
    from torchmark.model.trace import Trace

HERE = Path(__file__).name


def line_of(text: str) -> int:
    """The number of the only line of this file that ends so."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return number


class Residual(nn.Module):
    """The same addition, with the same arguments, in two lines."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.one(x)  # first
        return torch.add(x, self.two(x))  # second


def train(steps: int) -> Trace:
    model = Residual()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torchmark.Capture() as trace:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.ones(2, 4)).sum()  # loss
            loss.backward()  # backward
            optimizer.step()  # optimizer
    return trace.trace()


def lines(trace: Trace, op: str, phase: str) -> dict[int | None, int]:
    """How often the operator was called in this phase, by its line."""
    found: dict[int | None, int] = {}
    for (call, number), count in trace.counts.items():
        place = trace.places[number]
        if (trace.calls[call].op, place.phase) == (op, phase):
            file, _, line = (place.source or "").rpartition(":")
            assert not file or Path(file).name == HERE
            found[int(line) if line else None] = found.get(int(line) if line else None, 0) + count
    return found


def test_a_call_has_the_line_of_the_user_that_made_it() -> None:
    trace = train(2)
    first, second = line_of("first"), line_of("second")
    assert lines(trace, "aten.add.Tensor", "forward") == {first: 2, second: 2}
    assert lines(trace, "aten.addmm.default", "forward") == {first: 2, second: 2}
    assert lines(trace, "aten.sum.default", "forward") == {line_of("loss"): 2}
    assert lines(trace, "aten.add_.Tensor", "optimizer") == {line_of("optimizer"): 8}


def test_a_backward_call_has_the_line_of_its_forward() -> None:
    trace = train(2)
    assert lines(trace, "aten.expand.default", "backward") == {line_of("loss"): 2}
    assert lines(trace, "aten.ones_like.default", "backward") == {line_of("backward"): 2}
    found = lines(trace, "aten.sum.dim_IntList", "backward")
    assert found == {line_of("first"): 2, line_of("second"): 2}


def test_steps_after_those_that_are_asked_are_the_same_steps() -> None:
    trace = train(8)
    assert lines(trace, "aten.add.Tensor", "forward") == {
        line_of("first"): 8,
        line_of("second"): 8,
    }
    assert trace.steps[-1].repeats >= 7


def test_calls_that_only_a_key_tells_apart_keep_their_lines() -> None:
    x = torch.ones(2)
    with torchmark.Capture() as trace:
        for _ in range(6):
            torch.cat([x, x])  # joined
            torch.cat([x, x])  # once more
            torch.nonzero(x)  # by content
            trace.step()
    record = trace.trace()
    assert lines(record, "aten.cat.default", "forward") == {
        line_of("joined"): 6,
        line_of("once more"): 6,
    }
    # A line is of the place: it does not make two calls of one.
    assert [call.op for call in record.calls] == ["aten.cat.default", "aten.nonzero.default"]
    assert lines(record, "aten.nonzero.default", "forward") == {line_of("by content"): 6}
    assert [step.repeats for step in record.steps] == [6]


def test_an_optimizer_of_the_user_has_the_line_that_called_it() -> None:
    class Own(torch.optim.SGD):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            with torch.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    parameter.mul_(0.5)

    optimizer = Own([nn.Parameter(torch.ones(3))])
    with torchmark.Capture() as trace:
        for _ in range(5):
            optimizer.step()  # own
    assert lines(trace.trace(), "aten.mul_.Tensor", "optimizer") == {line_of("own"): 5}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of modules that inductor imports
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of torch.compile
def test_a_compiled_graph_has_a_line_of_the_function_that_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: x.sin().sum())  # compiled
    # More threads than one would leave one behind.
    with inductor.patch(compile_threads=1), torchmark.Capture() as trace:
        for _ in range(5):
            y = x * 2
            loss = compiled(y)
            loss.backward()
            x.grad = None
            trace.step()
    record = trace.trace()
    assert lines(record, "aten.sin.default", "forward") == {line_of("compiled"): 5}
    assert sum(lines(record, "aten.cos.default", "backward").values()) == 5
    assert [step.repeats for step in record.steps] == [5]


def test_the_line_of_a_script_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "model.py").write_text("def double(x):\n    return x * 2\n")
    (tmp_path / "train.py").write_text(
        textwrap.dedent("""
            import torch
            from own.model import double
            double(torch.ones(2))
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with torchmark.Capture(tmp_path / "trace.jsonl"):
        exec(compile(Path("train.py").read_text(), str(tmp_path / "train.py"), "exec"), {})
    trace = load_trace(tmp_path / "trace.jsonl")
    sources = {trace.calls[call].op: trace.places[place].source for call, place in trace.counts}
    assert sources == {"aten.ones.default": "train.py:4", "aten.mul.Tensor": "own/model.py:2"}


def test_files_are_named_without_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = Path(site.getsitepackages()[0])
    assert show_file(str(packages / "timm" / "layers" / "mlp.py")) == "timm/layers/mlp.py"
    assert show_file(str(Path.cwd() / "scripts" / "train.py")) == "scripts/train.py"
    monkeypatch.setattr(sys, "path", ["", "/src", "/src/far", "relative"])
    assert show_file("/src/far/lib/nn.py") == "lib/nn.py"
    assert show_file("/elsewhere/deep/train.py") == "train.py"
    assert show_file("<stdin>") == "<stdin>"


def test_torch_torchmark_and_the_standard_library_are_not_the_users() -> None:
    for module in (torch, nn.functional, torchmark, os, textwrap):
        assert show_file(str(module.__file__)) is None
    assert show_file("<frozen runpy>") is None

"""The sweeps under examples/ run in PyTorch and ONNX Runtime, and say how to run them."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchmark
from torchmark.analyse.sweep import RowStatus
from torchmark.define.suites.loading import run_file
from torchmark.define.sweep.spec import NAMES, read_spec

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "sweeps"
EXAMPLES = sorted(FOLDER.glob("*.py"))
TOLERANCE = 4e-3
"""Of sums of a few dozen numbers of about one in fp16, rounded in other orders."""


def test_all_six_are_there() -> None:
    assert [file.stem for file in EXAMPLES] == [
        "attention",
        "convolution",
        "embedding_bag",
        "layer_norm",
        "linear",
        "softmax",
    ]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_has_all_backends_in_both_dtypes(file: Path) -> None:
    spec = read_spec(file)
    assert {(config.backend, config.dtype) for config in spec.configs} == {
        (backend, dtype) for backend in ("pt", "compile", "ort") for dtype in ("fp32", "fp16")
    }
    assert f"torchmark sweep examples/sweeps/{file.name}" in file.read_text()


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_onnx_runtime_agrees_with_eager(file: Path) -> None:
    """At the smallest sizes and in fp16, where it is hardest; exporting takes seconds each."""
    found = vars(run_file(file))
    given = {name: found[name] for name in NAMES}
    given["input_scales"] = {name: min(sizes) for name, sizes in found["input_scales"].items()}
    rows = torchmark.Sweep(**given).run(where="backend != 'compile' and dtype == 'fp16'")
    assert [row.backend for row in rows] == ["pt", "ort"]
    for row in rows:
        assert (row.status, row.reason) == (RowStatus.MEASURED, "")
        assert row.max_error is not None
        assert row.max_error <= TOLERANCE

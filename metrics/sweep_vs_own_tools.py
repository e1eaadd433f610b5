"""Is what a sweep tells of eager and of ONNX Runtime what a bare loop around them shows?

Beside each case of a sweep stands a loop that anybody would write: `time.perf_counter` around calls
of the model, and around `run_with_iobinding` of an ONNX Runtime session of its own. Both are taken
in turns in one process, and the ratio of their medians is formed turn by turn.

    python metrics/sweep_vs_own_tools.py [turns]

Wanted: every ratio within 3 %.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import onnxruntime  # type: ignore[import-untyped]
import torch

from torchmark.run.pace import process_metronome
from torchmark.run.private_directories import discard, private_directory
from torchmark.sweep.points import Choice, all_cases
from torchmark.sweep.rows import filled_in
from torchmark.sweep.spec import spec_of
from torchmark.sweep.workers import _order
from torchmark_probe.sweep_worker import Sweeper

if TYPE_CHECKING:
    from pathlib import Path

WANTED = 0.03
TURNS = 15
BLOCK_SECONDS = 300e-6
BLOCKS = 200


class Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


SPECS: dict[str, dict[str, Any]] = {
    "linear": {
        "model": torch.nn.Linear,
        "model_init_params": ["features", "out"],
        "input_params": [["batch", "features"]],
        "input_scales": {"batch": [1, 64], "features": [64], "out": [64]},
    },
    "layer norm": {
        "model": torch.nn.LayerNorm,
        "model_init_params": ["features"],
        "input_params": [["batch", "features"]],
        "input_scales": {"batch": [4, 256], "features": [256]},
    },
    "softmax": {
        "model": Softmax,
        "input_params": [["batch", "classes"]],
        "input_scales": {"batch": [1, 128], "classes": [1000]},
    },
}


def bare_loop(function: Any, argument: Any) -> float:
    """Median seconds of a call, from blocks between two readings of the clock."""
    for _ in range(10):
        function(argument)
    start = time.perf_counter()
    for _ in range(10):
        function(argument)
    number = max(1, round(10 * BLOCK_SECONDS / (time.perf_counter() - start)))
    blocks = []
    for _ in range(BLOCKS):
        start = time.perf_counter()
        for _ in range(number):
            function(argument)
        blocks.append((time.perf_counter() - start) / number)
    return statistics.median(blocks)


def bound_session(model: torch.nn.Module, x: torch.Tensor, folder: Path) -> tuple[Any, Any]:
    """ONNX Runtime as its documentation shows it: a session, memory bound once."""
    file = folder / "model.onnx"
    torch.onnx.export(model, (x,), str(file), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input(session.get_inputs()[0].name, x.numpy())
    out = torch.empty_like(model(x))
    binding.bind_output(session.get_outputs()[0].name, "cpu", 0, 1, list(out.shape), out.data_ptr())
    binding.kept = out  # it has the address alone
    return session.run_with_iobinding, binding


def ratios_of(name: str, turns: int, folder: Path) -> list[tuple[str, float]]:
    spec = spec_of(**SPECS[name], job_configs=["pt fp32", "ort fp32"])
    cases = all_cases(spec, Choice())
    order = _order(spec, cases, folder, kernels=False)
    sweeper = Sweeper(spec.model, order, process_metronome())
    found = []
    for case, described in zip(cases, order["cases"], strict=True):
        sizes = dict(case.dims)
        torch.manual_seed(0)
        model = spec.model(*(sizes[each] for each in spec.init)).eval()
        x = torch.randn(spec.inputs[0].shape(sizes))
        function, argument = (
            (model, x) if case.row.backend == "pt" else bound_session(model, x, folder)
        )
        pairs = []
        for _ in range(turns):
            row = filled_in(case.row, sweeper.measured(described), "")
            assert row.median_s is not None, row.reason
            pairs.append(row.median_s / bare_loop(function, argument))
        sizes_text = " ".join(f"{name}={size}" for name, size in case.dims)
        found.append((f"{name}, {case.row.backend}, {sizes_text}", statistics.median(pairs)))
    return found


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    folder = private_directory()
    try:
        ratios = [pair for name in SPECS for pair in ratios_of(name, turns, folder)]
    finally:
        discard(folder)
    for name, ratio in ratios:
        print(f"{name:50} {ratio:.4f}")
    worst = max(abs(ratio - 1) for _, ratio in ratios)
    print(f"largest difference {worst:.1%} (wanted: within {WANTED:.0%})")
    sys.exit(worst > WANTED)


if __name__ == "__main__":
    main()

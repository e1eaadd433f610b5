"""Is what a sweep tells of eager and of ONNX Runtime what a bare loop around them shows?

Beside each case of a sweep stands a loop that anybody would write: `time.perf_counter` around calls
of the model, and around `run_with_iobinding` of an ONNX Runtime session of its own.

    python metrics/sweep_vs_own_tools.py [turns]

A sweep's median leaves out blocks during which the machine slowed the core, as its
reference loop tells.
A median that has them in would be another quantity, so both sides are judged under one condition:
after every block that the sweep times, a block of the bare loop is timed, within a millisecond, and
the reference loop runs before, between and after the two. What is compared is the median of the
blocks that the rows' `median_s` are of with the median of the bare blocks that stand beside them,
over all turns. Whether a pair counts depends on these runs alone, never on the time of either
block; the median of a single turn could be of few blocks, for one that the machine interrupts may
use up its time. A cost that the sweep put around a run would be in its blocks alone, and so in the
ratio.

Wanted: every ratio within 3 %; the exit status is 1 where one is not.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import onnxruntime  # type: ignore[import-untyped]
import torch

from torchmark.analyse.sweep import rows_of
from torchmark.define.sweep.points import all_cases
from torchmark.define.sweep.spec import spec_of
from torchmark.engine.files import discard, make_private_directory
from torchmark.engine.pace import process_reference_loop
from torchmark.engine.sweeping import WantedCase, order_of, results_of
from torchmark.model.result import Metric, PlannedResult
from torchmark.model.run import Run, RunKind
from torchmark.model.run_settings import dims_text, sizes_setting
from torchmark_probe.loops.sampling import ReferenceLoop
from torchmark_probe.sweep import worker
from torchmark_probe.sweep.worker import Sweeper

if TYPE_CHECKING:
    from pathlib import Path

    from torchmark_probe.zygote.messages import Swept

WANTED = 0.03
TURNS = 25
BLOCK_SECONDS = 300e-6
MOST_SECONDS = 0.5
"""Of a turn on a machine that is not steady: longer than a sweep's, since it is the sweep's blocks
alone that use it up, and with few of them the long ones that end a turn would weigh."""


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


class BareBeside(ReferenceLoop):
    """The reference loop of the sweep, which times a block of the bare loop before it goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet_pace = process_reference_loop().quiet_pace
        self.seconds: list[float] = []
        """Of one bare call, by block; the first stands before the sweep's first block."""

    def take(self, function: Any, argument: Any) -> None:
        """Go on with blocks of this function."""
        self.seconds = []
        self._function, self._argument = function, argument
        self._number = max(1, round(BLOCK_SECONDS / min(self._block(10) for _ in range(10))))

    def run(self) -> float:
        """The slower of the runs around the bare block: the sweep's block has both beside it."""
        before = super().run()
        self.seconds.append(self._block(self._number))
        return max(before, super().run())

    def _block(self, number: int) -> float:
        function, argument = self._function, self._argument
        start = time.perf_counter()
        for _ in range(number):
            function(argument)
        return (time.perf_counter() - start) / number


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


class Pairs:
    """The seconds of a run in the sweep's blocks that count, and in the bare blocks beside them."""

    def __init__(self) -> None:
        self.swept: list[float] = []
        self.bare: list[float] = []

    @property
    def ratio(self) -> float:
        return statistics.median(self.swept) / statistics.median(self.bare)

    def add_turn(
        self, wanted: WantedCase, described: Any, sweeper: Sweeper, beside: BareBeside
    ) -> None:
        told = sweeper.measure(described)
        sampling = told.sampling
        assert sampling is not None, told.reason
        swept = [sampling.wall[index] / sampling.number for index in sampling.counted()]
        median = median_in_row(wanted, told)
        assert math.isclose(median, statistics.median(swept)), "the row is of other blocks"
        self.swept += swept
        self.bare += [beside.seconds[1 + index] for index in sampling.counted()]


def median_in_row(wanted: WantedCase, told: Swept) -> float:
    """What the row of this result says."""
    run = Run(
        id="",
        kind=RunKind.SWEEP,
        started="",
        plan=(PlannedResult(case=wanted.case, metric=Metric.TIME),),
        settings=sizes_setting([(wanted.case, wanted.point)]),
        results=tuple(results_of(wanted, told, 0.0)),
    )
    (row,) = rows_of(run)
    assert row.median_s is not None, row.reason
    return row.median_s


def pairs_of(name: str, turns: int, folder: Path) -> list[tuple[str, Pairs]]:
    spec = spec_of(**SPECS[name], job_configs=["pt fp32", "ort fp32"])
    wanted = [WantedCase(*each, frozenset({Metric.TIME})) for each in all_cases(spec)]
    order = order_of(spec, wanted, folder)
    beside = BareBeside()
    sweeper = Sweeper(spec.model, order, beside)
    found = []
    for each, described in zip(wanted, order.cases, strict=True):
        sizes, backend = dict(each.point.dims), each.point.backend
        torch.manual_seed(0)
        model = spec.model(*(sizes[dim] for dim in spec.init)).eval()
        x = torch.randn([sizes[str(dim)] for dim in spec.inputs[0].dims])
        function, argument = (model, x) if backend == "pt" else bound_session(model, x, folder)
        pairs = Pairs()
        for _ in range(turns):
            beside.take(function, argument)
            pairs.add_turn(each, described, sweeper, beside)
        found.append((f"{name}, {backend}, {dims_text(each.point.dims)}", pairs))
    return found


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    torch.set_num_threads(1)
    worker._MOST_SECONDS = MOST_SECONDS
    torch.set_grad_enabled(False)
    folder = make_private_directory()
    try:
        found = [pair for name in SPECS for pair in pairs_of(name, turns, folder)]
    finally:
        discard(folder)
    for name, pairs in found:
        print(f"{name:50} {pairs.ratio:.4f} ({len(pairs.swept)} pairs of blocks)")
    worst = max(abs(pairs.ratio - 1) for _, pairs in found)
    print(f"largest difference {worst:.1%} (wanted: within {WANTED:.0%})")
    sys.exit(worst > WANTED)


if __name__ == "__main__":
    main()

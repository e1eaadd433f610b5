"""How much longer does a training step take under capture? Beside a mode that does nothing.

    python metrics/capture_overhead.py [--rounds N] [--steps N] [--count]

Steps of about 1.3 and 10 ms have a limit, shorter and longer ones are for interest: the batch is
chosen here so that a plain step takes about that long. How much a mode costs hangs on how many
calls a step of that length has, so there are two models: convolutions, and an encoder with twice as
many calls, which on a slow machine takes longer than 1.3 ms even at batch 1.

Plain steps, steps under an empty TorchDispatchMode, and steps under `torchmark.Capture` take turns
in one process, in random order; the ratios are of tenth percentiles, in which a neighbour on
the core is not. A capture's first steps describe every distinct call, so they are given by
themselves, as a ratio of the slowest of them.
"""

from __future__ import annotations

import argparse
import contextlib
import platform
import random
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import torchmark
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.report.formats.markdown import pipe_table

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP = 12
"""Steps before those that are timed: more than the kinds of changing floats that are kept."""

LIMITS = {1.3: 3.5, 10.0: 1.5}
"""Most that a step under capture may take, over a plain one, by its length in milliseconds."""


class Empty(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class Counting(Empty):  # type: ignore[no-untyped-call]
    calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


@dataclass
class Times:
    """Seconds of single steps."""

    plain: list[float] = field(default_factory=list)
    empty: list[float] = field(default_factory=list)
    captured: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)


def perceptron(batch: int) -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    return training_step(model, torch.randn(batch, 16))


def convolutions(batch: int) -> Callable[[], None]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return training_step(model, torch.randn(batch, 3, 16, 16))


def encoder(batch: int) -> Callable[[], None]:
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return training_step(model, torch.randn(batch, 16, 64))


def training_step(model: nn.Module, inputs: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def undisturbed(times: list[float]) -> float:
    return statistics.quantiles(times, n=10)[0]


STEPS = (
    (perceptron, 0.4),
    (convolutions, 1.3),
    (encoder, 1.3),
    (convolutions, 10.0),
    (encoder, 10.0),
    (encoder, 40.0),
)
"""Models, and milliseconds that a step of each is to take."""


def of_length(
    make: Callable[[int], Callable[[], None]], milliseconds: float
) -> tuple[Callable[[], None], str]:
    """A step of about this length, and its name."""
    found: list[tuple[float, int]] = []
    batch = 1
    while not found or (batch <= 4096 and found[-1][0] < milliseconds / 1000):
        step = make(batch)
        found.append((undisturbed([seconds(step) for _ in range(20)]), batch))
        batch = max(batch + 1, batch * 5 // 4)
    _, batch = min(found, key=lambda pair: abs(pair[0] - milliseconds / 1000))
    return make(batch), f"{make.__name__}, batch {batch}"


def measured(step: Callable[[], None], rounds: int, steps: int) -> Times:
    times = Times()

    def plain() -> None:
        times.plain += [seconds(step) for _ in range(steps)]

    def empty() -> None:
        with Empty():  # type: ignore[no-untyped-call]
            step()
            times.empty += [seconds(step) for _ in range(steps)]

    def captured() -> None:
        with torchmark.Capture():
            times.first.append(max(seconds(step) for _ in range(WARM_UP)))
            times.captured += [seconds(step) for _ in range(steps)]

    turns = [plain, empty, captured]
    for _ in range(rounds):
        random.shuffle(turns)
        for turn in turns:
            turn()
    return times


def row(
    make: Callable[[int], Callable[[], None]], milliseconds: float, rounds: int, steps: int
) -> list[str]:
    step, name = of_length(make, milliseconds)
    with contextlib.ExitStack() as stack:
        counting = stack.enter_context(Counting())  # type: ignore[no-untyped-call]
        step()
    times = measured(step, rounds, steps)
    plain = undisturbed(times.plain)
    empty, captured, first = (
        undisturbed(values) / plain for values in (times.empty, times.captured, times.first)
    )
    limit = LIMITS.get(milliseconds)
    verdict = "" if limit is None else ("kept" if captured <= limit else "EXCEEDED")
    return [
        name,
        str(counting.calls),
        f"{plain * 1e3:.2f} ms",
        f"{empty:.2f}×",
        f"{captured:.2f}×",
        "" if limit is None else f"{limit}×",
        verdict,
        f"{first:.0f}×",
    ]


COUNTED = 5
"""Steps of which the instructions are counted."""

MODES = {"plain": "contextlib.nullcontext", "empty mode": "Empty", "capture": "torchmark.Capture"}


def instructions(zygote: Zygote, make: Callable[[int], Callable[[], None]], mode: str) -> float:
    """Of a step at batch 1, which takes as many in every run."""
    setup = f"""
import contextlib, torch, torchmark
from capture_overhead import Empty, {make.__name__}
step = {make.__name__}(1)
mode = {MODES[mode]}()
mode.__enter__()
for _ in range({WARM_UP}):
    step()
"""
    count = zygote.count(PythonCase(stmt="step()", setup=setup), number=COUNTED)
    totals = [line for line in count.out_file.read_text().splitlines() if line[:7] == "totals:"]
    return int(totals[-1].split()[1]) / COUNTED


def counted(make: Callable[[int], Callable[[], None]]) -> list[str]:
    with Zygote(Launch(under_callgrind=True)) as zygote:
        plain, *others = (instructions(zygote, make, mode) for mode in MODES)
    ratios = [f"{other / plain:.2f}×" for other in others]
    return [f"{make.__name__}, batch 1", f"{plain / 1e6:.2f} million", *ratios]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each kind a round")
    parser.add_argument("--count", action="store_true", help="count instructions too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    random.seed(0)
    rows = [
        row(make, milliseconds, arguments.rounds, arguments.steps) for make, milliseconds in STEPS
    ]
    print(f"torch {torch.__version__}, Python {platform.python_version()}, one thread")
    head = ["model", "calls", "step", "empty mode", "capture", "limit", "", "first step"]
    print(pipe_table(head, rows))
    if arguments.count:
        head = ["instructions", *MODES]
        print(pipe_table(head, [counted(make) for make in (convolutions, encoder)]))


if __name__ == "__main__":
    main()

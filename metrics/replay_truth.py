"""Is a replay true? Records that run, with outputs as recorded, and the time of a step in order.

    python metrics/replay_truth.py [--seeds 20] [--samples 40] [--scale 16] [--rounds 5]

1. All records of the ten models of examples/models, made again and run in forked children.
2. Records of PyTorch's own operator samples (OpInfo), likewise, once for every seed. No rule of
   torchmark names these operators, but for those that are counted apart.
3. Operators that work in place, after thousands of runs on their own results: do they still take
   the time of the first ones?
4. A step of each model, uninstrumented, and its calls replayed in order: in turns, each in a child
   of the same zygote. The ratio of the two is meant for models whose operators take 20 µs or
   more, so the share of the time that is spent in such operators stands beside it.

Exit status 1: a record of a model fails, or more than one in a hundred of the samples, or a step
whose operators take that long is replayed in a time that differs by more than 20 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torchmark
from examples.models import MODELS
from tests.operator_samples import captured, operators
from tests.record_checks import failures
from torchmark.define.recorded import call_text
from torchmark.engine.replaying_in_order import replay_in_order
from torchmark.engine.under_test import SETUP_MODULES
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark.report.formats.markdown import pipe_table
from torchmark_probe.loops.sampling import Limits, Sampling

ROOT = Path(__file__).resolve().parent.parent
LIMITS = Limits(precision=0.02, min_run_time=0.5, max_run_time=3.0)
WARM_UP = 2
"""Steps before the captured one, so that optimizers have made their state."""

RULED = ("nonzero", "unique", "cholesky")
"""Words in the names of operators that rules of the probe name."""

LONG = 20e-6
"""Seconds of an operator that is work."""

WORKING = 0.9
"""Share of the time in such operators above which a model is one "whose ops take 20 µs or more"."""


def op_of(text: str) -> str:
    return text.partition('"op":')[2].partition('"')[2].partition('"')[0]


def check_models(zygote: Zygote) -> bool:
    rows, is_good = [], True
    for name in MODELS:
        texts, _ = captured_step(name, 1)
        bad = failures(zygote, texts)
        is_good &= not bad
        rows.append([name, str(len(texts)), f"{1 - len(bad) / len(texts):.1%}"])
        for number, reason in bad.items():
            print(f"{name}: {op_of(texts[number])}: {reason}")
    print(pipe_table(["model", "records", "run as recorded"], rows))
    return is_good


def captured_step(name: str, scale: int) -> tuple[list[str], list[int]]:
    """The calls of one step, and their order."""
    step = MODELS[name](scale)
    for _ in range(WARM_UP):
        step()
    with torchmark.Capture() as capture:
        step()
    trace = capture.trace()
    order = [number for part in trace.steps for number in part.calls * part.repeats]
    return [call_text(call) for call in trace.calls], order


def check_samples(zygote: Zygote, seeds: int, most: int) -> bool:
    texts = captured(operators(), most)
    is_ruled = [any(word in op_of(text) for word in RULED) for text in texts]
    unruled = is_ruled.count(False)
    print(f"{len(texts)} records of operator samples, {unruled} of operators without a rule")
    reasons: Counter[str] = Counter()
    shares = []
    for seed in range(seeds):
        bad = failures(zygote, texts, seed)
        shares.append(1 - sum(not is_ruled[number] for number in bad) / unruled)
        reasons.update(f"{op_of(texts[number])}: {reason[:120]}" for number, reason in bad.items())
        print(f"seed {seed}: {1 - len(bad) / len(texts):.2%} run as recorded, "
              f"{shares[-1]:.2%} of those without a rule", flush=True)  # fmt: skip
    for reason, count in reasons.most_common():
        print(f"{count:6}  {reason}")
    return min(shares) >= 0.99


def median_run(sampling: Sampling) -> float:
    """Seconds of one run, of the blocks that count."""
    return statistics.median(sampling.wall[at] for at in sampling.counted()) / sampling.number


def check_order(zygote: Zygote, scale: int, rounds: int) -> bool:
    rows, is_good = [], True
    for name in MODELS:
        texts, order = captured_step(name, scale)
        step = PythonCase(
            stmt="step()",
            setup=f"from examples.models import MODELS; step = MODELS[{name!r}]({scale}); step()",
        )
        ratios, sums = [], []
        for _ in range(rounds):
            uninstrumented = median_run(zygote.sample(step, limits=LIMITS).sampling)
            replay = replay_in_order(zygote, texts, order, limits=LIMITS)
            ratios.append(median_run(replay.sampling) / uninstrumented)
            sums.append(sum(replay.seconds) / uninstrumented)
        long = sum(seconds for seconds in replay.seconds if seconds >= LONG) / sum(replay.seconds)
        ratio, sum_ratio = statistics.median(ratios), statistics.median(sums)
        is_good &= long < WORKING or (0.8 <= ratio <= 1.2 and 0.8 <= sum_ratio <= 1.2)
        rows.append(
            [name, str(len(order)), f"{uninstrumented * 1e3:.1f} ms", f"{long:.0%}",
             f"{ratio:.2f}", f"{min(ratios):.2f}–{max(ratios):.2f}", f"{sum_ratio:.2f}",
             str(len(replay.left_out))]
        )  # fmt: skip
        print(f"{name}: {ratio:.2f}, sum of the calls {sum_ratio:.2f}", flush=True)
    head = ["model", "calls", "step", "in ops ≥ 20 µs", "in order/step", "rounds", "sum/step",
            "left out"]  # fmt: skip
    print(pipe_table(head, rows))
    return is_good


DRIFT = """
import time
from torchmark_probe.replay.calls import rebuild, settle
settle()
operator, args, kwargs = rebuild(text)

def block(runs=20):
    start = time.perf_counter()
    for _ in range(runs):
        operator(*args, **kwargs)
    return time.perf_counter() - start

def drift():
    first = min(block() for _ in range(10))
    later = [min(block() for _ in range(20)) for _ in range(150)]
    print(max(later) / first, later[-1] / first)
"""


def tensor(low: float = -1.0, size: int = 4096) -> dict[str, Any]:
    values = {"min": low, "max": 1.0}
    return {"tensor": {"shape": [size], "dtype": "float32", "values": values}}


def tensors(low: float = -1.0) -> list[Any]:
    return [tensor(low), tensor(low)]


IN_PLACE: dict[str, list[Any]] = {
    "aten.mul_.Tensor": [tensor(), 0.9],
    "aten.addcdiv_.default": [tensor(), tensor(), tensor(0.1)],
    "aten.lerp_.Scalar": [tensor(), tensor(), 0.1],
    "aten.sqrt_.default": [tensor(0.0)],
    "aten.exp_.default": [tensor()],
    "aten._foreach_mul_.Scalar": [tensors(), 0.9],
    "aten._foreach_addcdiv_.Scalar": [tensors(), tensors(), tensors(0.1), -1e-3],
    "aten._foreach_lerp_.Scalar": [tensors(), tensors(), 0.1],
    "aten._foreach_sqrt_.default": [tensors(0.0)],
}


def show_drift(zygote: Zygote) -> None:
    rows = []
    for op, args in IN_PLACE.items():
        text = json.dumps({"op": op, "args": args, "kwargs": {}})
        recipe = {"text": {"kind": "json", "value": text}}
        case = PythonCase(stmt="drift()", global_setup=DRIFT, globals=recipe)
        slowest, last = zygote.run(case).stdout.split()
        rows.append([op, f"{float(slowest):.2f}", f"{float(last):.2f}"])
    print(pipe_table(["60,000 runs in place", "slowest/first", "last/first"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=40, help="of each operator and dtype")
    parser.add_argument("--scale", type=int, default=16, help="of the models, for the third part")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with Zygote(Launch(path=(str(ROOT),), modules=SETUP_MODULES)) as zygote:
        show_drift(zygote)
        results = [
            check_models(zygote),
            check_order(zygote, options.scale, options.rounds),
            check_samples(zygote, options.seeds, options.samples),
        ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

"""What recorded A/A process pairs say of the constants of paired timing.

    python metrics/tune_pairs.py [FILE ...]

Without files it reads what is kept in `metrics/pairs/` (see `metrics/record_pairs.py`). It prints,
for every recorded op:

- how far crossovers spread by the estimate in use and by others, each as a ratio to it;
- how much of the spread of a process pair is noise of its rounds (by halves of them): the rest
  belongs to the pair, and longer pairs would not help;
- how `within` and `between` of the model (`torchmark.analyse.mixed_model`) are distributed, by
  expectation maximisation over all ops of all files;
- how often intervals of few replicates hold the truth, and how often they call a change: the
  recorded replicates are drawn at random, with the sides swapped at random.

Never validate on these files: `metrics/ab_truth.py --ops-from SEED` draws other ops.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from record_pairs import RecordedPair, read_pairs

from torchmark.analyse import mixed_model
from torchmark.analyse.pairs import judge_alone
from torchmark.engine.paired import pairing
from torchmark.model.result import Crossover, PairedTiming

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Logs: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.float64]]"
"""A row for each round: the logs of A's and of B's time."""

Estimate: TypeAlias = "Callable[[Logs], float]"
Replicates: TypeAlias = list[list[Crossover]]

KEPT = Path(__file__).parent / "pairs"
_SETTLING = 0.06
"""The share of the rounds that stands for the first 10 ms of 0.15 s."""

_WITHIN = (0.1, 0.3, 0.6, 1.0, 1.6, 2.5)
_BETWEEN = (0.0, 0.3, 1.0, 3.0, 10.0, 100.0)


def lowest(share: float) -> Estimate:
    """The ratio of the means of the fastest blocks of each side."""

    def estimate(logs: Logs) -> float:
        count = max(1, int(share * len(logs)))
        a, b = np.sort(logs, axis=0)[:count].mean(axis=0)
        return float(b - a)

    return estimate


def middle(logs: Logs) -> float:
    """The median ratio of the rounds."""
    return float(np.median(logs[:, 1] - logs[:, 0]))


def in_use(logs: Logs) -> float:
    return pairing._estimate([(a, b) for a, b in np.exp(logs)])


ESTIMATES: dict[str, Estimate] = {
    "in use": in_use,
    "median": middle,
    "fastest 40 %": lowest(0.4),
    "fastest 20 %": lowest(0.2),
    "fastest 10 %": lowest(0.1),
    "fastest 5 %": lowest(0.05),
}


def settled(pair: RecordedPair) -> Logs:
    logs: Logs = np.log(np.array(pair.rounds))
    return logs[max(1, int(_SETTLING * len(logs))) :]


def crossovers_by(pairs: Sequence[RecordedPair], estimate: Estimate) -> Replicates:
    found: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for pair in pairs:
        found[pair.replicate][pair.crossover][pair.first] = estimate(settled(pair))
    return [
        [(of[0], of[1]) for of in crossovers.values() if len(of) == 2]
        for crossovers in found.values()
    ]


def spread(values: Sequence[float]) -> float:
    """The root mean square around nothing, with what lies far out moved in."""
    logs = np.array(values)
    fence = 3.5 * 1.4826 * float(np.median(np.abs(logs)))
    return float(np.sqrt(np.mean(np.clip(logs, -fence, fence) ** 2))) if fence else 0.0


def noise_share(pairs: Sequence[RecordedPair]) -> float:
    """Of the variance of a pair, what two halves of its rounds disagree by."""
    whole, halves = [], []
    for pair in pairs:
        logs = settled(pair)
        part = np.arange(len(logs)) * 8 // len(logs) % 2
        whole.append(in_use(logs))
        halves.append((in_use(logs[part == 0]) - in_use(logs[part == 1])) / 2)
    return min(1.0, (spread(halves) / spread(whole)) ** 2)


def print_spreads(ops: Mapping[str, Sequence[RecordedPair]]) -> None:
    others = [name for name in ESTIMATES if name != "in use"]
    print(f"{'op':<32} {'run':>9} {'rounds':>6} {'noise':>6} {'spread':>7} ", end="")
    print(" ".join(f"{name:>12}" for name in others))
    ratios: dict[str, list[float]] = defaultdict(list)
    for name, pairs in ops.items():
        spreads = {
            each: spread([sum(one) / 2 for of in crossovers_by(pairs, estimate) for one in of])
            for each, estimate in ESTIMATES.items()
        }
        run = float(np.median([a for pair in pairs for a, _ in pair.rounds]))
        rounds = int(np.median([len(pair.rounds) for pair in pairs]))
        print(
            f"{name[:32]:<32} {run * 1e6:7.1f}us {rounds:6} {noise_share(pairs):6.0%} "
            f"{spreads['in use']:7.2%} "
            + " ".join(f"{spreads[each] / spreads['in use']:12.2f}" for each in others)
        )
        for each in others:
            ratios[each].append(math.log(spreads[each] / spreads["in use"]))
    means = " ".join(f"{math.exp(np.mean(ratios[each])):12.2f}" for each in others)
    print(f"{'geometric mean':<65}{means}")


def print_weights(recorded: Sequence[Replicates]) -> None:
    """By expectation maximisation: how often the two parameters have which values."""
    grid = [(within, between) for within in _WITHIN for between in _BETWEEN]
    rows = []
    for replicates in recorded:
        means, noise = mixed_model._means_and_noise(mixed_model._within_a_fence(replicates))
        logs = np.array(
            [
                mixed_model._least_squares(means, noise, within=within, between=between)[0]
                for within, between in grid
            ]
        )
        rows.append(np.exp(logs - logs.max()))
    likelihoods = np.array(rows)
    weights = np.full(len(grid), 1 / len(grid))
    for _ in range(100):
        shares = likelihoods * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    table = weights.reshape(len(_WITHIN), len(_BETWEEN))
    print("\nwithin :", dict(zip(_WITHIN, table.sum(axis=1).round(3).tolist(), strict=True)))
    print("between:", dict(zip(_BETWEEN, table.sum(axis=0).round(3).tolist(), strict=True)))


def print_coverage(recorded: Sequence[Replicates], trials: int) -> None:
    rng = random.Random(0)
    for count, crossovers, share in ((5, 1, 0.25), (5, 2, 0.25), (8, 2, 0.5)):
        held = called = taken = 0
        for replicates in recorded:
            for _ in range(trials if len(replicates) >= count else 0):
                drawn = [_swapped(of[:crossovers], rng) for of in rng.sample(replicates, count)]
                effect = judge_alone(
                    PairedTiming(a_seconds=1.0, replicates=tuple(drawn), alpha_share=share)
                )
                held += effect.interval_95.low <= 1 <= effect.interval_95.high
                called += effect.verdict.is_change
                taken += 1
        print(
            f"{count} replicates of {crossovers}: {held / taken:.1%} of 95 % intervals hold the "
            f"truth, {called / taken:.2%} called a change ({taken} draws)"
        )


def _swapped(crossovers: Sequence[Crossover], rng: random.Random) -> tuple[Crossover, ...]:
    if rng.random() < 0.5:
        return tuple(crossovers)
    return tuple((-other, -one) for one, other in crossovers)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--trials", type=int, default=50, help="draws for each op")
    options = parser.parse_args()
    recorded = []
    for file in options.files or sorted(KEPT.glob("*.xz")):
        facts, pairs = read_pairs(file)
        print(f"\n{file.name}: {facts}")
        ops: dict[str, list[RecordedPair]] = defaultdict(list)
        for pair in pairs:
            ops[pair.op].append(pair)
        print_spreads(ops)
        recorded += [crossovers_by(each, in_use) for each in ops.values()]
    print_weights(recorded)
    print_coverage(recorded, options.trials)


if __name__ == "__main__":
    main()

"""Can the gate of `torchmark check` be trusted? Simulated pull requests in recorded noise.

    python metrics/gate_truth.py [NOISE ...] [--pull-requests 1000] [--seed 0] [--scale 1]

Each pull request has a suite of 100 cases, a baseline of 30 runs and one new run. It is judged once
as it is (clean), and once with 2 % more in one case. The noise of a case is a stretch of successive
runs of one statement (`metrics/record_noise.py`; without files, all in `metrics/noise/`), from a
random start, so runs that follow each other are as alike as they were. It is scaled by a random
factor from a half to two.

Every pull request goes through what `check` does: the history, then its doubtful times again,

- *alone*: the median of the three runs that follow. What has changed since the baseline stays;
- *paired*: recorded process pairs of one program with itself (`metrics/pairs/`), ten replicates at
  random with their sides exchanged at random, two looks, judged together as `ab` does.

Beside it stand the history without a second measurement, and today's practice: a failure if one
new value is 2 % above one old value. `metrics/gate_runs.py` does the same with real runs.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from record_noise import read_noise
from record_pairs import read_pairs
from tune_pairs import KEPT, _swapped, crossovers_by, in_use

from torchmark.analyse import pairs as judging
from torchmark.analyse.ab import TimeRow
from torchmark.analyse.gate import (
    DEFAULT_LIMIT,
    GateRow,
    Outcome,
    agree,
    judge_point,
    judge_time_row,
)
from torchmark.analyse.history import History, history_of
from torchmark.analyse.pairs import FALSE_DISCOVERIES, Effect, is_decided
from torchmark.commands.check_again import REPEATS
from torchmark.model.case import Case
from torchmark.model.result import PairedTiming
from torchmark.model.run import Environment, RunKind
from torchmark.model.series import Origin, Point, Quantity, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.result import Crossover

NOISE = Path(__file__).parent / "noise"
CASES = 100
BASELINE = 30
MORE = math.log1p(0.02)
TODAY = math.log1p(0.02)
_LENGTH = BASELINE + 1 + REPEATS
_LOOK, _LOOK_SHARE = 5, 1 / 4
_REPLICATES, _LAST_SHARE = 10, 3 / 4
"""Two crossovers in each of ten replicates fill the budget of 10 s of a case in `ab`; these are its
looks, with the shares of alpha that they may spend."""

_DRAWS = 40
"""Draws from each recorded op that are judged once and used again and again."""

DOUBTFUL = (Outcome.NEAR, Outcome.WARN, Outcome.FAIL, Outcome.BETTER)
QUIET, LOUD = 0.003, 0.01
"""Borders between quiet, usual and noisy cases: the spread from run to run."""

WAYS = ("history alone", "again, alone", "again, paired", "±2 %, single values")


class Drawn(NamedTuple):
    """The noise of one case, as logarithms: of its baseline, its new run, and the runs after it."""

    before: tuple[float, ...]
    now: float
    again: float


class Pair(NamedTuple):
    """One comparison of a program with itself, or with more of it."""

    timing: PairedTiming
    p: float


@dataclass
class Bank:
    """Comparisons that are drawn once: fitting one takes tens of milliseconds."""

    replicates: list[list[list[Crossover]]]
    """By op: the crossovers of each recorded replicate."""

    rng: random.Random
    kept: dict[tuple[int, int], Pair] = field(default_factory=dict)

    def draw(self, more: float = 0.0) -> Pair:
        op, number = self.rng.randrange(len(self.replicates)), self.rng.randrange(_DRAWS)
        if more:
            return self._compare(op, more)
        if (op, number) not in self.kept:
            self.kept[op, number] = self._compare(op, 0.0)
        return self.kept[op, number]

    def _compare(self, op: int, more: float) -> Pair:
        chosen = self.rng.sample(self.replicates[op], _REPLICATES)
        drawn = [
            tuple((one + more, other + more) for one, other in _swapped(of, self.rng))
            for of in chosen
        ]
        early = _timing(drawn[:_LOOK], _LOOK_SHARE)
        p = _p_of(early)
        if p <= FALSE_DISCOVERIES and is_decided(early, cases=CASES):
            return Pair(early, p)
        late = _timing(drawn, _LAST_SHARE)
        return Pair(late, _p_of(late))


def _p_of(timing: PairedTiming) -> float:
    return judging._p_value(judging._fit(timing), timing)


def _timing(replicates: Sequence[tuple[Crossover, ...]], share: float) -> PairedTiming:
    # The code of two branches lies in other files.
    return PairedTiming(
        a_seconds=1.0, replicates=tuple(replicates), alpha_share=share, same_files=False
    )


@dataclass
class Tally:
    """What came of the pull requests."""

    failed: Counter[str] = field(default_factory=Counter)
    """Pull requests that failed, by way."""

    found: Counter[str] = field(default_factory=Counter)
    """Regressed cases that failed, by way."""

    by_noise: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    doubtful: list[int] = field(default_factory=list)


def read_series(files: Sequence[Path]) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The logarithms of the medians of each statement of each file."""
    found = []
    for file in files:
        runs = read_noise(file)
        print(f"{file.name}: {len(runs)} runs, {runs[0]['cpu']}, load {runs[0]['load']} and on")
        names = set.intersection(*(set(run["medians"]) for run in runs))
        if len(runs) >= _LENGTH:
            found += [np.log([run["medians"][name] for run in runs]) for name in sorted(names)]
    return found


def read_bank(rng: random.Random) -> Bank:
    replicates = []
    for file in sorted(KEPT.glob("*.xz")):
        ops = defaultdict(list)
        for pair in read_pairs(file)[1]:
            ops[pair.op].append(pair)
        recorded = [crossovers_by(pairs, in_use) for pairs in ops.values()]
        replicates += [each for each in recorded if len(each) >= _REPLICATES]
    return Bank(replicates, rng)


def draw_suite(
    recorded: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]],
    rng: random.Random,
    scale: float = 1.0,
) -> list[Drawn]:
    suite = []
    for _ in range(CASES):
        series = rng.choice(recorded)
        start = rng.randrange(len(series) - _LENGTH + 1)
        stretch = series[start : start + _LENGTH]
        logs = ((stretch - np.median(stretch)) * scale * 2 ** rng.uniform(-1, 1)).tolist()
        again = float(np.median(logs[BASELINE + 1 :]))
        suite.append(Drawn(tuple(logs[:BASELINE]), logs[BASELINE], again))
    return suite


CASE = Case(label=("case",), stmt="pass")
ORIGINS = [
    Origin(
        run=f"run-{number:02d}",
        started=f"2026-01-{number + 1:02d}T00:00:00Z",
        kind=RunKind.RUN,
        suite="",
        environment=Environment(),
    )
    for number in range(BASELINE + 1)
]


def history_before(drawn: Drawn) -> History:
    points = tuple(
        Point(origin=origin, value=math.exp(log))
        for origin, log in zip(ORIGINS, drawn.before, strict=False)
    )
    return history_of(
        Series(case_id=CASE.id, case=CASE, quantity=Quantity.TIME, machine="one", points=points)
    )


def judge_value(log: float, history: History) -> GateRow:
    point = Point(origin=ORIGINS[-1], value=math.exp(log))
    return judge_point(CASE, Quantity.TIME, point, history, DEFAULT_LIMIT, cases=CASES)


class Judged(NamedTuple):
    """What each way says of one case: whether it fails."""

    first: GateRow
    again: GateRow
    pair: Pair | None
    today: bool

    @property
    def is_doubtful(self) -> bool:
        return self.first.outcome in DOUBTFUL


def judge_case(drawn: Drawn, history: History, bank: Bank, more: float = 0.0) -> Judged:
    first = judge_value(drawn.now + more, history)
    doubtful = first.outcome in DOUBTFUL
    again = agree(first, judge_value(drawn.again + more, history)) if doubtful else first
    return Judged(
        first=first,
        again=again,
        pair=bank.draw(more) if doubtful else None,
        today=drawn.now + more - drawn.before[-1] > TODAY,
    )


def paired_failures(judged: Sequence[Judged]) -> set[int]:
    """Positions of the cases that fail when the doubtful ones are measured again in pairs.

    These are the steps of `judge_times`, without the intervals of cases that have not changed.
    """
    places = [place for place, each in enumerate(judged) if each.pair is not None]
    pairs = [each.pair for each in judged if each.pair is not None]
    alarms = judging._discovery_limit([each.p for each in pairs])
    found = set()
    for place, pair in zip(places, pairs, strict=True):
        if pair.p > 1.2 * alarms:  # it cannot be called a change; the margin is for rounding
            continue
        effect = judging._effect(judging._fit(pair.timing), pair.timing, alarms, pair.p)
        if _row_of(effect).outcome is Outcome.FAIL:
            found.add(place)
    return found


def _row_of(effect: Effect) -> GateRow:
    row = TimeRow(case=CASE, other=None, a_seconds=1.0, effect=effect, python_calls=())
    return judge_time_row(row, DEFAULT_LIMIT)


def failures(judged: Sequence[Judged]) -> dict[str, set[int]]:
    fail = Outcome.FAIL
    return {
        "history alone": {p for p, each in enumerate(judged) if each.first.outcome is fail},
        "again, alone": {p for p, each in enumerate(judged) if each.again.outcome is fail},
        "again, paired": paired_failures(judged),
        "±2 %, single values": {p for p, each in enumerate(judged) if each.today},
    }


def class_of(drawn: Drawn) -> str:
    logs = np.array(drawn.before)
    spread = float(np.median(np.abs(logs - np.median(logs)))) / 0.6745
    return "quiet" if spread < QUIET else "noisy" if spread > LOUD else "usual"


def simulate(
    recorded: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]],
    bank: Bank,
    count: int,
    rng: random.Random,
    scale: float,
) -> tuple[Tally, Tally]:
    """Judge so many pull requests, each clean and with one case that takes 2 % more."""
    clean, regressed = Tally(), Tally()
    begun = time.monotonic()
    for number in range(1, count + 1):
        suite = draw_suite(recorded, rng, scale)
        histories = [history_before(drawn) for drawn in suite]
        judged = [
            judge_case(drawn, history, bank)
            for drawn, history in zip(suite, histories, strict=True)
        ]
        _add(clean, judged, suite, None)
        slow = rng.randrange(CASES)
        judged[slow] = judge_case(suite[slow], histories[slow], bank, MORE)
        _add(regressed, judged, suite, slow)
        if number % 50 == 0:
            seconds = time.monotonic() - begun
            print(f"{number} of {count}, {seconds:.0f} s: {dict(clean.failed)} failed clean, "
                  f"{dict(regressed.failed)} regressed", flush=True)  # fmt: skip
    return clean, regressed


def _add(tally: Tally, judged: Sequence[Judged], suite: Sequence[Drawn], slow: int | None) -> None:
    tally.doubtful.append(sum(each.is_doubtful for each in judged))
    if slow is not None:
        tally.by_noise[class_of(suite[slow])]["cases"] += 1
    for way, places in failures(judged).items():
        tally.failed[way] += bool(places)
        if slow is not None and slow in places:
            tally.found[way] += 1
            tally.by_noise[class_of(suite[slow])][way] += 1


def print_table(clean: Tally, regressed: Tally, count: int) -> None:
    print(f"\n{'':<22}{'clean fails':>12}{'regressed fails':>17}{'its case fails':>16}", end="")
    print("".join(f"{name:>10}" for name in ("quiet", "usual", "noisy")))
    for way in WAYS:
        classes = [regressed.by_noise[name] for name in ("quiet", "usual", "noisy")]
        shares = [each[way] / max(1, each["cases"]) for each in classes]
        print(
            f"{way:<22}{clean.failed[way] / count:12.1%}{regressed.failed[way] / count:17.1%}"
            f"{regressed.found[way] / count:16.1%}" + "".join(f"{each:10.0%}" for each in shares)
        )
    sizes = [regressed.by_noise[name]["cases"] for name in ("quiet", "usual", "noisy")]
    print(f"{'regressed cases':<67}" + "".join(f"{size:10}" for size in sizes))
    print(
        f"measured again: {np.mean(clean.doubtful):.1f} of {CASES} cases of a clean pull request "
        f"(median {np.median(clean.doubtful):.0f}, nine in ten at most "
        f"{np.quantile(clean.doubtful, 0.9):.0f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--pull-requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the recorded noise: 0.2 is a quiet machine"
    )
    options = parser.parse_args()
    rng = random.Random(options.seed)
    recorded = read_series(options.files or sorted(NOISE.glob("*.xz")))
    bank = read_bank(rng)
    print(f"{len(recorded)} series of noise, {len(bank.replicates)} ops with process pairs")
    spreads = [
        class_of(drawn) for _ in range(20) for drawn in draw_suite(recorded, rng, options.scale)
    ]
    print("cases:", dict(Counter(spreads)))
    clean, regressed = simulate(recorded, bank, options.pull_requests, rng, options.scale)
    print_table(clean, regressed, options.pull_requests)


if __name__ == "__main__":
    main()

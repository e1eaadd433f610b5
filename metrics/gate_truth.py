"""Can the gate of `torchmark check` be trusted? Simulated pull requests in recorded noise.

    python metrics/gate_truth.py [NOISE ...] [--pull-requests 1000] [--seed 0] [--scales 1 0.2]

Each pull request has a suite of 100 cases, a baseline of 30 runs and one new run. It is judged once
as it is (clean), and once with 2 % more in one case. The noise of a case is a stretch of successive
runs of one statement (`metrics/record_noise.py`; without files, all in `metrics/noise/`), from any
start, so runs that follow each other are as alike as they were. It is multiplied by a factor from a
half to two, and by the scale: 1 is the machine as it was recorded, less is a quieter one.

Every pull request goes through what `check` does: the history, then its doubtful times again,

- *alone*: the median of the three runs that follow. What has changed since the baseline stays;
- *paired*: recorded process pairs of one program with itself (`metrics/pairs/`). Replicates are
  drawn with their sides exchanged at random, as many as make a change of 1.5 % detectable or fill
  the budget, and all cases are judged together as `ab` does.

Beside it stand the history without a second measurement, and today's practice: a failure if one
new value is 2 % above one old value. `metrics/gate_runs.py` does the same with real runs.
"""

from __future__ import annotations

import argparse
import math
import random
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
from torchmark.analyse.pairs import (
    FALSE_DISCOVERIES,
    Effect,
    detectable_among,
    forecast,
    is_decided,
)
from torchmark.commands.ab import DETECT_BUDGET
from torchmark.commands.check_again import REPEATS, _wanted
from torchmark.model.case import Case
from torchmark.model.result import PairedTiming
from torchmark.model.run import FEWEST_REPLICATES, Environment, RunKind
from torchmark.model.series import Origin, Point, Quantity, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchmark.model.result import Crossover

NOISE = Path(__file__).parent / "noise"
CASES = 100
BASELINE = 30
MORE = math.log1p(0.02)
TODAY = math.log1p(0.02)
_LENGTH = BASELINE + 1 + REPEATS
_FACTORS = tuple(2**power for power in (-1, -0.5, 0, 0.5, 1))
_LOOKS = {5: 1 / 4, 10: 1 / 12, 20: 1 / 12, 40: 1 / 12}
"""The looks of `ab` by replicates, and the shares of alpha that they may spend."""

_WANTED = _wanted([DEFAULT_LIMIT.hard])
_MOST = round(DETECT_BUDGET / 0.5)
"""Crossovers that fit into the budget of a case; one takes half a second."""

_FEWEST_RECORDED = 10
_DRAWS = 25
"""Draws from each recorded op that are judged once and used again and again."""

DOUBTFUL = (Outcome.NEAR, Outcome.WARN, Outcome.FAIL, Outcome.BETTER)
QUIET, LOUD = 0.003, 0.01
"""Borders between quiet, usual and noisy cases: the spread from run to run."""

CLASSES = ("quiet", "usual", "noisy")
WAYS = ("history alone", "again, alone", "again, paired", "±2 %, single values")


class Drawn(NamedTuple):
    """The noise of one case, as logarithms: of its baseline, its new run, and the runs after it."""

    before: tuple[float, ...]
    now: float
    again: float


class Judged(NamedTuple):
    """What the ways that need no pairs say of one case: whether it fails."""

    is_doubtful: bool
    first: bool
    again: bool
    today: bool


class Simulated(NamedTuple):
    """One case as it is, and with more work."""

    noise: str
    clean: Judged
    regressed: Judged


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
    needed: dict[int, int] = field(default_factory=dict)
    """By op: replicates that should make the wanted change detectable, or fill the budget."""

    def draw(self, more: float = 0.0) -> Pair:
        op, number = self.rng.randrange(len(self.replicates)), self.rng.randrange(_DRAWS)
        if more:
            return self._compare(op, more)
        if (op, number) not in self.kept:
            self.kept[op, number] = self._compare(op, 0.0)
        return self.kept[op, number]

    def _compare(self, op: int, more: float) -> Pair:
        most = _MOST // len(self.replicates[op][0])
        drawn = [
            tuple((one + more, other + more) for one, other in _swapped(of, self.rng))
            for of in self.rng.choices(self.replicates[op], k=most)
        ]
        early = _timing(drawn[:FEWEST_REPLICATES], _LOOKS[FEWEST_REPLICATES])
        p = _p_of(early)
        if p <= FALSE_DISCOVERIES and is_decided(early, cases=CASES, gives_up=False):
            return Pair(early, p)
        count = self._replicates_of(op)
        while True:
            spent = sum(share for look, share in _LOOKS.items() if look < max(count, 6))
            late = _timing(drawn[:count], 1 - spent)
            if count >= most or detectable_among(late, CASES) <= _WANTED:
                return Pair(late, _p_of(late))
            count = min(most, math.ceil(1.2 * count))

    def _replicates_of(self, op: int) -> int:
        if op not in self.needed:
            pilot = _timing([tuple(each) for each in self.replicates[op]], 3 / 4)
            told = forecast(pilot, _WANTED, cases=CASES, most=_MOST)
            per_replicate = len(self.replicates[op][0])
            self.needed[op] = max(FEWEST_REPLICATES, math.ceil(told.crossovers / per_replicate))
        return self.needed[op]


def _timing(replicates: Sequence[tuple[Crossover, ...]], share: float) -> PairedTiming:
    # The code of two branches lies in other files.
    return PairedTiming(
        a_seconds=1.0, replicates=tuple(replicates), alpha_share=share, same_files=False
    )


def _p_of(timing: PairedTiming) -> float:
    return judging._p_value(judging._fit(timing), timing)


@dataclass
class Tally:
    """What came of the pull requests."""

    failed: Counter[str] = field(default_factory=Counter)
    """Pull requests that failed, by way."""

    found: Counter[str] = field(default_factory=Counter)
    """Regressed cases that failed, by way."""

    by_noise: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    doubtful: list[int] = field(default_factory=list)


def read_series(files: Sequence[Path]) -> list[list[float]]:
    """The logarithms of the medians of each statement of each file."""
    found = []
    for file in files:
        runs = read_noise(file)
        loads = sorted(run["load"] for run in runs)
        print(f"{file.name}: {len(runs)} runs, {runs[0]['cpu']}, load {loads[len(loads) // 2]}")
        names = set.intersection(*(set(run["medians"]) for run in runs))
        found += [[math.log(run["medians"][name]) for run in runs] for name in sorted(names)]
    return [each for each in found if len(each) >= _LENGTH]


def read_bank(rng: random.Random) -> Bank:
    replicates = []
    for file in sorted(KEPT.glob("*.xz")):
        ops = defaultdict(list)
        for pair in read_pairs(file)[1]:
            ops[pair.op].append(pair)
        recorded = [crossovers_by(pairs, in_use) for pairs in ops.values()]
        replicates += [each for each in recorded if len(each) >= _FEWEST_RECORDED]
    return Bank(replicates, rng)


def all_stretches(recorded: Sequence[list[float]], scale: float) -> Iterator[Drawn]:
    """Every stretch of every series, with each factor."""
    for series in recorded:
        for start in range(len(series) - _LENGTH + 1):
            stretch = np.array(series[start : start + _LENGTH])
            for factor in _FACTORS:
                logs = ((stretch - np.median(stretch)) * scale * factor).tolist()
                again = float(np.median(logs[BASELINE + 1 :]))
                yield Drawn(tuple(logs[:BASELINE]), logs[BASELINE], again)


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


def simulate_case(drawn: Drawn) -> Simulated:
    points = tuple(
        Point(origin=origin, value=math.exp(log))
        for origin, log in zip(ORIGINS, drawn.before, strict=False)
    )
    history = history_of(
        Series(case_id=CASE.id, case=CASE, quantity=Quantity.TIME, machine="one", points=points)
    )
    clean, regressed = (judge_case(drawn, history, more) for more in (0.0, MORE))
    return Simulated(class_of(drawn), clean, regressed)


def class_of(drawn: Drawn) -> str:
    logs = np.array(drawn.before)
    spread = float(np.median(np.abs(logs - np.median(logs)))) / 0.6745
    return "quiet" if spread < QUIET else "noisy" if spread > LOUD else "usual"


def judge_case(drawn: Drawn, history: History, more: float) -> Judged:
    first = judge_value(drawn.now + more, history)
    doubtful = first.outcome in DOUBTFUL
    again = agree(first, judge_value(drawn.again + more, history)) if doubtful else first
    return Judged(
        is_doubtful=doubtful,
        first=first.outcome is Outcome.FAIL,
        again=again.outcome is Outcome.FAIL,
        today=drawn.now + more - drawn.before[-1] > TODAY,
    )


def judge_value(log: float, history: History) -> GateRow:
    point = Point(origin=ORIGINS[-1], value=math.exp(log))
    return judge_point(CASE, Quantity.TIME, point, history, DEFAULT_LIMIT, cases=CASES)


def paired_failures(pairs: Mapping[int, Pair]) -> set[int]:
    """Positions of the cases that fail when the doubtful ones are measured again in pairs.

    These are the steps of `judge_times`, without the intervals of cases that have not changed.
    """
    alarms = judging._discovery_limit([each.p for each in pairs.values()])
    found = set()
    for place, pair in pairs.items():
        if pair.p > 1.2 * alarms:  # it cannot be called a change; the margin is for rounding
            continue
        effect = judging._effect(judging._fit(pair.timing), pair.timing, alarms, pair.p)
        if _row_of(effect).outcome is Outcome.FAIL:
            found.add(place)
    return found


def _row_of(effect: Effect) -> GateRow:
    row = TimeRow(case=CASE, other=None, a_seconds=1.0, effect=effect, python_calls=())
    return judge_time_row(row, DEFAULT_LIMIT)


def simulate(
    cases: Sequence[Simulated], bank: Bank, count: int, rng: random.Random
) -> tuple[Tally, Tally]:
    """Judge so many pull requests, each clean and with one case that takes 2 % more."""
    clean, regressed = Tally(), Tally()
    for number in range(1, count + 1):
        suite = rng.choices(cases, k=CASES)
        judged = [each.clean for each in suite]
        pairs = {place: bank.draw() for place, each in enumerate(judged) if each.is_doubtful}
        _add(clean, judged, pairs)
        slow = rng.randrange(CASES)
        judged[slow] = suite[slow].regressed
        pairs.pop(slow, None)
        if judged[slow].is_doubtful:
            pairs[slow] = bank.draw(MORE)
        _add(regressed, judged, pairs, slow, suite[slow].noise)
        if number % 100 == 0:
            print(f"{number} of {count}: {dict(clean.failed)} clean, {dict(regressed.found)} "
                  "regressed", flush=True)  # fmt: skip
    return clean, regressed


def _add(
    tally: Tally,
    judged: Sequence[Judged],
    pairs: Mapping[int, Pair],
    slow: int | None = None,
    noise: str = "",
) -> None:
    tally.doubtful.append(len(pairs))
    tally.by_noise[noise]["cases"] += 1
    failures = {
        "history alone": {place for place, each in enumerate(judged) if each.first},
        "again, alone": {place for place, each in enumerate(judged) if each.again},
        "again, paired": paired_failures(pairs),
        "±2 %, single values": {place for place, each in enumerate(judged) if each.today},
    }
    for way, places in failures.items():
        tally.failed[way] += bool(places)
        if slow in places:
            tally.found[way] += 1
            tally.by_noise[noise][way] += 1


def print_table(clean: Tally, regressed: Tally, count: int) -> None:
    print(f"{'':<22}{'clean fails':>12}{'regressed fails':>17}{'its case fails':>16}", end="")
    print("".join(f"{name:>10}" for name in CLASSES))
    classes = [regressed.by_noise[name] for name in CLASSES]
    for way in WAYS:
        shares = [each[way] / max(1, each["cases"]) for each in classes]
        print(
            f"{way:<22}{clean.failed[way] / count:12.1%}{regressed.failed[way] / count:17.1%}"
            f"{regressed.found[way] / count:16.1%}" + "".join(f"{each:10.0%}" for each in shares)
        )
    print(f"{'regressed cases':<67}" + "".join(f"{each['cases']:10}" for each in classes))
    print(
        f"measured again: {np.mean(clean.doubtful):.1f} of {CASES} cases of a clean pull request "
        f"(nine in ten at most {np.quantile(clean.doubtful, 0.9):.0f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--pull-requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scales", type=float, nargs="+", default=[1.0, 0.2], help="of the recorded noise"
    )
    options = parser.parse_args()
    rng = random.Random(options.seed)
    recorded = read_series(options.files or sorted(NOISE.glob("*.xz")))
    bank = read_bank(rng)
    print(f"{len(recorded)} series of noise, {len(bank.replicates)} ops with process pairs")
    for scale in options.scales:
        cases = [simulate_case(drawn) for drawn in all_stretches(recorded, scale)]
        print(f"\nscale {scale:g}: {len(cases)} cases, {dict(Counter(c.noise for c in cases))}")
        clean, regressed = simulate(cases, bank, options.pull_requests, rng)
        print_table(clean, regressed, options.pull_requests)


if __name__ == "__main__":
    main()

"""Are changes found in histories, and only changes? Compared with ruptures and Apache Otava.

    python metrics/change_points.py [--noise FILE ...] [--series 200] [--stationary 500] [--seed 1]
        [--statements even|odd|all] [--no-peers]

Series are made of recorded noise (`metrics/record_noise.py`): pieces of eight successive runs of a
statement, in random order, so that neighbours are as alike as they were, and nothing else is. Half
of the statements are for tuning ("odd"), the others for the judgement ("even").

*Changed* series have one to three steps of 0.5, 1, 2 or 5 %; a quarter of them drifts slowly, a
quarter has outliers, and a quarter gaps. A step is found if a change is reported at most five runs
from it; each report counts for one step. Drifts and outliers are not changes. F1 is the harmonic
mean of precision and recall over all series.

*Stationary* series have no change, a quarter of them outliers.

ruptures and otava run in a virtual environment of their own, made in build/peers: otava pins an old
numpy. Each is run with the settings in `change_points_of_peers.py`, and the setting with the best
F1 on these very series is shown.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import subprocess
import time
import venv
from pathlib import Path
from typing import NamedTuple

from record_noise import read_noise

from torchmark.analyse.change_points import find_changes
from torchmark.engine.machine import cpu_model
from torchmark.report.formats.markdown import pipe_table

HERE = Path(__file__).parent
NOISE = HERE / "noise"
PEERS = HERE.parent / "build" / "peers"
PACKAGES = ("ruptures==1.1.10", "numpy==2.2.0", "scipy==1.16.3")
OTAVA = "apache-otava==0.8.0"

SIZES = (0.005, 0.01, 0.02, 0.05)
PIECE = 8
"""Successive runs that stay together."""

NEAR = 5
APART = 15
"""Fewest runs between two steps, and between a step and an end."""


class Made(NamedTuple):
    """A series with its true changes."""

    values: list[float]
    steps: tuple[int, ...]
    sizes: tuple[float, ...]
    kind: str


class Score(NamedTuple):
    """How many steps were found, missed, and reported for nothing."""

    found: int
    missed: int
    wrong: int

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wrong)

    @property
    def recall(self) -> float:
        return self.found / max(1, self.found + self.missed)

    @property
    def f1(self) -> float:
        return 2 * self.found / max(1, 2 * self.found + self.missed + self.wrong)


def recorded(files: list[Path], which: str) -> list[list[float]]:
    """The logarithms of the medians of each statement, session after session, around zero."""
    parts: list[list[float]] = []
    for file in files:
        runs = read_noise(file)
        names = sorted(runs[0]["medians"])
        for place, name in enumerate(names):
            if which != "all" and place % 2 != (which == "odd"):
                continue
            logs = [math.log(run["medians"][name]) for run in runs if name in run["medians"]]
            middle = sorted(logs)[len(logs) // 2]
            parts.append([value - middle for value in logs])
    return parts


def draw_noise(parts: list[list[float]], count: int, draw: random.Random) -> list[float]:
    part = draw.choice(parts)
    noise: list[float] = []
    while len(noise) < count:
        start = draw.randrange(max(1, len(part) - PIECE))
        noise += part[start : start + PIECE]
    return noise[:count]


def add_outliers(logs: list[float], draw: random.Random) -> None:
    for at in range(len(logs)):
        if draw.random() < 0.04:
            logs[at] += math.log(draw.uniform(1.1, 2.0))


def make_changed(parts: list[list[float]], draw: random.Random) -> Made:
    count = draw.randint(60, 300)
    logs = draw_noise(parts, count, draw)
    wanted = min(draw.randint(1, 3), count // APART - 2)
    steps: list[int] = []
    while len(steps) < wanted:
        steps = sorted(draw.sample(range(APART, count - APART), wanted))
        if any(b - a < APART for a, b in itertools.pairwise(steps)):
            steps = []
    sizes = [draw.choice(SIZES) for _ in steps]
    for at, size in zip(steps, sizes, strict=True):
        change = math.log1p(size) * draw.choice((1, -1))
        for place in range(at, count):
            logs[place] += change
    kind = draw.choice(("plain", "drift", "outliers", "gaps"))
    if kind == "drift":
        total = draw.uniform(0.01, 0.03) * draw.choice((1, -1))
        logs = [value + total * at / count for at, value in enumerate(logs)]
    elif kind == "outliers":
        add_outliers(logs, draw)
    elif kind == "gaps":
        kept = [at for at in range(count) if draw.random() > 0.2]
        logs = [logs[at] for at in kept]
        steps = [sum(at < step for at in kept) for step in steps]
    return Made([1e-6 * math.exp(value) for value in logs], tuple(steps), tuple(sizes), kind)


def make_stationary(parts: list[list[float]], draw: random.Random) -> Made:
    logs = draw_noise(parts, draw.randint(60, 300), draw)
    kind = draw.choice(("plain", "plain", "plain", "outliers"))
    if kind == "outliers":
        add_outliers(logs, draw)
    return Made([1e-6 * math.exp(value) for value in logs], (), (), kind)


def match(steps: tuple[int, ...], found: list[int]) -> list[int | None]:
    """The report for each step, the nearest pairs first; a report counts once."""
    pairs = sorted((abs(a - b), a, b) for a in steps for b in found if abs(a - b) <= NEAR)
    of_step: dict[int, int] = {}
    for _, step, report in pairs:
        if step not in of_step and report not in of_step.values():
            of_step[step] = report
    return [of_step.get(step) for step in steps]


def score(series: list[Made], found: list[list[int]]) -> Score:
    hits = misses = wrong = 0
    for made, reports in zip(series, found, strict=True):
        matched = [each for each in match(made.steps, reports) if each is not None]
        hits += len(matched)
        misses += len(made.steps) - len(matched)
        wrong += len(set(reports)) - len(matched)
    return Score(hits, misses, wrong)


def ours(series: list[Made]) -> list[list[int]]:
    return [[each.index for each in find_changes(made.values).points] for made in series]


def peers(series: list[Made], settings: list[str] | None = None) -> dict[str, list[list[int]]]:
    """What each setting of each peer finds, by its name; None means all settings."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        print("installing the peers …", flush=True)
        venv.create(PEERS, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*install, *PACKAGES], check=True)
        # Its other requirements are for databases and chat programs.
        subprocess.run([*install, "--no-deps", OTAVA], check=True)
    given = {"series": [made.values for made in series], "settings": settings}
    done = subprocess.run(
        [str(python), str(HERE / "change_points_of_peers.py")],
        input=json.dumps(given), capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, list[list[int]]] = json.loads(done.stdout)
    return found


def best_of_peers(changed: list[Made], steady: list[Made]) -> dict[str, list[list[int]]]:
    """For each peer, what its setting with the best F1 on the changed series finds in all."""
    best: dict[str, tuple[float, str, list[list[int]]]] = {}
    for name, found in peers(changed).items():
        peer, _, _ = name.partition(":")
        f1 = score(changed, found).f1
        if peer not in best or f1 > best[peer][0]:
            best[peer] = f1, name, found
    others = peers(steady, [name for _, name, _ in best.values()])
    return {name: [*found, *others[name]] for _, name, found in best.values()}


def by_size(series: list[Made], found: list[list[int]]) -> list[str]:
    hits = dict.fromkeys(SIZES, 0)
    totals = dict.fromkeys(SIZES, 0)
    for made, reports in zip(series, found, strict=True):
        for size, report in zip(made.sizes, match(made.steps, reports), strict=True):
            totals[size] += 1
            hits[size] += report is not None
    return [f"{hits[size] / max(1, totals[size]):.0%}" for size in SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--noise", type=Path, nargs="+", help="recorded noise")
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--stationary", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--statements", choices=("even", "odd", "all"), default="even")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    files = options.noise or sorted(NOISE.glob("*.xz"))
    parts = recorded(files, options.statements)
    draw = random.Random(options.seed)
    changed = [make_changed(parts, draw) for _ in range(options.series)]
    steady = [make_stationary(parts, draw) for _ in range(options.stationary)]
    print(f"{time.strftime('%Y-%m-%d')}, {cpu_model()}, {len(parts)} recorded statements, "
          f"{sum(map(len, parts))} runs")  # fmt: skip
    both = [*changed, *steady]
    start = time.process_time()
    results = {"torchmark": ours(both)}
    print(f"torchmark: {(time.process_time() - start) / len(both) * 1e3:.1f} ms of CPU a series")
    if not options.no_peers:
        results |= best_of_peers(changed, steady)
    rows = []
    for name, found in results.items():
        reached = score(changed, found[: len(changed)])
        alarms = sum(bool(each) for each in found[len(changed) :])
        rows.append(
            [name, f"{reached.f1:.3f}", f"{reached.precision:.2f}", f"{reached.recall:.2f}",
             *by_size(changed, found[: len(changed)]), f"{alarms} of {len(steady)}"]
        )  # fmt: skip
    sizes = [f"{size * 100:g} % found" for size in SIZES]
    heads = ["method", "F1", "precision", "recall", *sizes, "stationary with a change"]
    print(pipe_table(heads, rows))
    for kind in ("plain", "drift", "outliers", "gaps"):
        chosen = [at for at, made in enumerate(changed) if made.kind == kind]
        found = [results["torchmark"][at] for at in chosen]
        print(f"{kind}: F1 {score([changed[at] for at in chosen], found).f1:.3f}")


if __name__ == "__main__":
    main()

"""Record data on this machine and draw the pictures of docs/method/index.md.

    python docs/make_pictures.py [FOLDER]

It writes noise.svg, blocks.svg and replicates.svg to FOLDER (docs/method/pictures unless given) and
takes two to three minutes. Run it on a machine that does nothing else: the first two pictures need
neighbours, and the script starts them. Every figure in a picture comes from this recording. Drawing
needs `pip install 'torchmark[report]'`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.benchmark

import torchmark
from torchmark.analyse.pairs import judge_alone
from torchmark.files import write_whole
from torchmark.model.result import PairedTiming
from torchmark.report.figures import seconds_text
from torchmark.report.formats.vega import svg_of
from torchmark.report.view import Chart
from torchmark.report.views.charts import SECONDS_LABEL, log_axis
from torchmark_probe.loops.intervals import median, quantile_of_sorted
from torchmark_probe.loops.sampling import QUIET_PACE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchmark.model.result import Crossover

FOLDER = Path(__file__).parent / "method" / "pictures"

STATEMENT = "x + y"
SETUP = "x, y = torch.ones(64, 64), torch.ones(64, 64)"

NEIGHBOURS = 3
NEIGHBOUR = """
import random, sys, time
draw, ones = random.Random(int(sys.argv[1])), (1,) * 100000
while True:
    stop = time.perf_counter() + draw.uniform(0.02, 0.5)
    while time.perf_counter() < stop:
        sum(ones)
    time.sleep(draw.uniform(0.02, 0.5))
"""
"""Busy for 20 to 500 ms, idle for 20 to 500 ms, and so on."""

RESULTS = 60
"""Of each kind in the first picture."""

SECONDS = 0.2
"""Of measured blocks for each of them: what both take unless told otherwise."""

MOST_BLOCKS = 600
"""In the second picture: more could not be told apart, and would make the file large."""

RUNS = 50
"""Runs of the statement in A, in the third picture; B has one more in one of the panels."""


@contextlib.contextmanager
def neighbours() -> Iterator[None]:
    """Other processes that come and go, wherever the system puts them."""
    workers = [
        subprocess.Popen([sys.executable, "-c", NEIGHBOUR, str(seed)])  # noqa: S603 - no shell
        for seed in range(NEIGHBOURS)
    ]
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def timer_arguments() -> dict[str, Any]:
    """The same tensors for every timer: where they lie in memory is part of a time."""
    names: dict[str, Any] = {"torch": torch}
    exec(SETUP, names)  # noqa: S102 - a setup of our own
    return {"stmt": STATEMENT, "globals": names}


def record_results() -> dict[str, list[float]]:
    """Medians of many results of one statement, by two ways to measure it, in turns."""
    arguments = timer_arguments()
    ours, theirs = torchmark.Timer(**arguments), torch.utils.benchmark.Timer(**arguments)
    ways = {
        "blocked_autorange (torch)": lambda: theirs.blocked_autorange(min_run_time=SECONDS).median,
        "measure (torchmark)": lambda: (
            ours.measure(min_run_time=SECONDS, max_run_time=SECONDS).median
        ),
    }
    ours.measure()  # learns the pace of this machine while nothing else runs
    medians: dict[str, list[float]] = {name: [] for name in ways}
    order = list(ways)
    with neighbours():
        for _ in range(RESULTS):
            random.shuffle(order)
            for name in order:
                medians[name].append(ways[name]())
    return medians


def draw_noise(medians: dict[str, list[float]]) -> Chart:
    rows = [
        {"result": number, "seconds": seconds, "series": name}
        for name, results in medians.items()
        for number, seconds in enumerate(results, start=1)
    ]
    halves = [
        f"{name}: {seconds_text(quantile_of_sorted(sorted(results), 0.25))} to "
        f"{seconds_text(quantile_of_sorted(sorted(results), 0.75))}"
        for name, results in medians.items()
    ]
    return Chart(
        id="noise",
        title=f"{RESULTS} results of the same statement, while other processes come and go",
        description="Medians of results of one statement by torch and by torchmark.",
        note=f"{STATEMENT} with 64×64 tensors, {SECONDS:g} s for each result. "
        f"Middle half of the results: {'; '.join(halves)}.",
        spec={
            "data": {"values": rows},
            "height": 260,
            "mark": {"type": "point"},
            "encoding": {
                "x": {"field": "result", "type": "quantitative", "title": "result"},
                "y": time_axis("seconds", "median of one run", [row["seconds"] for row in rows]),
                "color": series_channel(tuple(medians), ("var(--plot-2)", "var(--plot-1)")),
            },
        },
    )


def record_blocks() -> torchmark.Measurement:
    """One result with all its blocks, those that are left out too."""
    timer = torchmark.Timer(**timer_arguments())
    timer.measure()
    with neighbours():
        return timer.measure(min_run_time=1.0, max_run_time=1.0)


def draw_blocks(measurement: torchmark.Measurement) -> Chart:
    sampling = measurement.sampling
    assert sampling is not None
    counted = set(sampling.counted())
    kept, left_out = "counts", "left out"
    ends = itertools.accumulate(sampling.wall)
    every = math.ceil(len(sampling.wall) / MOST_BLOCKS)
    rows = [
        {
            "at": end,
            "run": wall / sampling.number,
            "pace": pace,
            "series": kept if index in counted else left_out,
        }
        for index, (end, wall, pace) in enumerate(
            zip(ends, sampling.wall, sampling.pace, strict=True)
        )
    ][::every]
    colour = series_channel((kept, left_out), ("var(--plot-1)", "var(--rule)"))
    limit = QUIET_PACE * sampling.quiet_pace
    all_blocks = median([wall / sampling.number for wall in sampling.wall])

    def panel(field: str, title: str, line: float) -> dict[str, Any]:
        values = [row[field] for row in rows]
        y = time_axis(field, None, [*values, line])
        x = {"field": "at", "type": "quantitative", "title": "seconds of measured blocks"}
        return {
            "width": 560,
            "height": 170,
            "title": {"text": title},
            "layer": [
                {
                    "mark": {"type": "point", "size": 14},
                    "encoding": {"x": x, "y": y, "color": colour},
                },
                {
                    "data": {"values": [{field: line}]},
                    "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--ink)"},
                    "encoding": {"y": y},
                },
            ],
        }

    return Chart(
        id="blocks",
        title="The blocks of one result, and the reference loop next to them",
        description="Times of blocks above, times of the reference loop below, both over time.",
        note=f"{len(counted):,} of {len(sampling.wall):,} blocks count"
        f"{f' (one in {every} is drawn)' if every > 1 else ''}. "
        f"Median of the blocks that count: {seconds_text(measurement.median)}; "
        f"of all blocks: {seconds_text(all_blocks)}.",
        spec={
            "data": {"values": rows},
            "columns": 1,
            "concat": [
                panel("run", "one run in each block; line: the result", measurement.median),
                panel(
                    "pace",
                    f"the reference loop; line: {QUIET_PACE:g} times its best time",
                    limit,
                ),
            ],
        },
    )


def record_replicates() -> dict[str, PairedTiming]:
    """What `torchmark ab` measures of a statement and itself, and of one that does 2 % more."""
    comparisons = {
        "A vs. A: the same statement on both sides": RUNS,
        f"A vs. B: {RUNS} runs of the statement in A, {RUNS + 1} in B": RUNS + 1,
    }
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for title, runs in comparisons.items():
            run = torchmark.ab(
                a_stmt=loop_of(RUNS),
                b_stmt=loop_of(runs),
                setup=SETUP,
                metrics=[torchmark.Metric.TIME],
                budget=30,
                store=f"{folder}/store.db",
            )
            (timing,) = (
                each.payload for each in run.results if each.metric is torchmark.Metric.TIME
            )
            assert isinstance(timing, PairedTiming)
            found[title] = timing
    return found


def loop_of(runs: int) -> str:
    return f"for _ in range({runs}): {STATEMENT}"


A_FIRST, B_FIRST, MEAN, RESULT = "started A-first", "started B-first", "crossover", "result"


def draw_replicates(timings: dict[str, PairedTiming]) -> Chart:
    """A panel for each comparison, both with the same axis of changes."""
    names = (A_FIRST, B_FIRST, MEAN, RESULT)
    channels = {
        "color": series_channel(
            names, ("var(--plot-2)", "var(--plot-3)", "var(--plot-1)", "var(--ink)")
        ),
        "shape": series_channel(names, ("triangle-up", "triangle-down", "circle", "diamond")),
    }
    rows: list[dict[str, Any]] = []
    panels = []
    for number, (title, timing) in enumerate(timings.items()):
        effect = judge_alone(timing)
        last = len(timing.replicates) + 1
        low, high = (per_cent(end) for end in effect.interval)
        rows += [{"panel": number, **row} for row in rows_of(timing.replicates)]
        rows.append(
            {
                "panel": number,
                "at": last,
                "change": per_cent(effect.ratio),
                "low": low,
                "high": high,
                "series": RESULT,
            }
        )
        told = (
            f"{effect.verdict.value}: {per_cent(effect.ratio):+.2f} % [{low:+.2f}, {high:+.2f}] "
            f"after {len(timing.replicates)} replicates"
        )
        x = {
            "field": "at",
            "type": "quantitative",
            "title": "replicate",
            "scale": {"domain": [0.4, last + 0.6], "nice": False},
            "axis": {
                "values": list(range(1, last + 1)),
                "tickCount": last,
                "labelExpr": f"datum.value == {last} ? 'all' : format(datum.value, 'd')",
                "grid": False,
            },
        }
        y = {
            "field": "change",
            "type": "quantitative",
            "title": "B compared with A, %",
            "scale": {"zero": True},
        }
        own = [{"filter": f"datum.panel === {number}"}]
        panels.append(
            {
                "width": 560,
                "height": 190,
                "title": {"text": title, "subtitle": told},
                "layer": [
                    {
                        "data": {"values": [{"change": 0}]},
                        "mark": {"type": "rule", "strokeDash": [4, 3]},
                        "encoding": {"y": y},
                    },
                    {
                        "transform": [*own, {"filter": f"datum.series === '{RESULT}'"}],
                        "mark": {"type": "rule", "strokeWidth": 2, "color": "var(--ink)"},
                        "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
                    },
                    {
                        "transform": own,
                        "mark": {"type": "point"},
                        "encoding": {"x": x, "y": y, **channels},
                    },
                ],
            }
        )
    return Chart(
        id="replicates",
        title="Two comparisons by torchmark ab, with everything that was measured",
        description="Changes that process pairs, crossovers and the whole comparison show.",
        note="A triangle is a process pair, a dot the mean of the two pairs of a crossover. The "
        "diamond is the result, with the interval that the verdict follows from.",
        spec={"data": {"values": rows}, "columns": 1, "concat": panels},
    )


def rows_of(replicates: Sequence[Sequence[Crossover]]) -> Iterator[dict[str, Any]]:
    """A mark for each process pair and for each crossover, side by side within a replicate."""
    for number, crossovers in enumerate(replicates, start=1):
        step = 0.7 / len(crossovers)
        for place, (a_first, b_first) in enumerate(crossovers):
            at = number + (place - (len(crossovers) - 1) / 2) * step
            logs = {A_FIRST: a_first, B_FIRST: b_first, MEAN: (a_first + b_first) / 2}
            for series, log in logs.items():
                yield {"at": at, "change": per_cent(math.exp(log)), "series": series}


def per_cent(ratio: float) -> float:
    return (ratio - 1) * 100


def time_axis(field: str, title: str | None, seconds: Sequence[float]) -> dict[str, Any]:
    axis = log_axis(seconds, SECONDS_LABEL)
    return {"field": field, "type": "quantitative", "title": title, **axis}


def series_channel(names: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """A colour or a shape for each name."""
    return {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(names), "range": list(values)},
        # Browsers may have a wider font than the one that the drawing program measures.
        "legend": {"orient": "bottom", "columnPadding": 30},
    }


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for chart in (
        draw_noise(record_results()),
        draw_blocks(record_blocks()),
        draw_replicates(record_replicates()),
    ):
        write_whole(folder / f"{chart.id}.svg", svg_of(chart).encode())


if __name__ == "__main__":
    main()

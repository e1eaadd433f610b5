"""Time the commands that read a store with a million results, and the site that is made of it.

    python metrics/big_store.py FOLDER [--cases 1000] [--runs 1000]

Makes the store FOLDER/big.db (about 2 GB, some minutes) unless it is there, in its own format but
with rows inserted in bulk: a time of each case in each run, with the noise of a quiet machine, and
steps of 1 to 10 % in one case of five. Then it times the commands as processes, the median of three
where they are quick, adds one run and publishes again. FOLDER keeps the store and the site.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import math
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import insert

from torchmark.model.case import Autograd, Case, Runtime
from torchmark.model.codec import encode_result
from torchmark.model.result import Metric, PlannedResult, Result, Status, Timing
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.store import open_store, schema
from torchmark.store.database import make_engine, url_of, write_transaction
from torchmark.store.figures import figures_of
from torchmark.store.store import columns_of, compress_record, keep_case
from torchmark_probe.loops.sampling import Sampling

SAMPLES = 15
SPREAD = 0.01
"""Standard deviation of a result from run to run."""

STEPPING = 5
"""One case of so many has a step."""

QUICK = 3
"""Times that a quick command is called."""

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)

CONFIG = "\n".join(f"  - line {number} of what torch says of its build" for number in range(25))


def make_case(number: int) -> Case:
    group = f"group {number % 40:02}"
    return Case(
        label=(group, f"operator {number:04}"),
        stmt=f"f{number}(x, y)",
        setup="x, y = torch.ones(64, 64), torch.ones(64, 64)",
        runtime=Runtime.EAGER,
        autograd=Autograd.FORWARD,
    )


@cache
def all_cases(count: int) -> list[Case]:
    return [make_case(number) for number in range(count)]


def seconds_of(number: int, day: int, runs: int) -> float:
    """The time of a case in a run; each case has a level and perhaps a step of its own."""
    own = random.Random(number)
    level = 1e-6 * 10 ** own.uniform(0, 3)
    if own.randrange(STEPPING) == 0 and day >= own.randrange(runs):
        level *= 1 + own.choice([-1, 1]) * own.uniform(0.01, 0.1)
    return level * math.exp(random.Random(f"{number} {day}").gauss(0, SPREAD))


def make_run(day: int, cases: Sequence[Case]) -> Run:
    at = START + datetime.timedelta(hours=12 * day)
    git = {
        "commit": hashlib.sha256(str(day).encode()).hexdigest()[:40],
        "committed": at.isoformat(),
        "branch": "main",
        "dirty": False,
    }
    machine = {"cpu": "AMD EPYC 9000", "cores": 8, "system": "Linux 6.1 x86_64", "host": "ci-1"}
    facts = {
        "machine": machine,
        "git": git,
        "torch": {"version": "2.13.0", "config": CONFIG},
        "python": "3.12.4",
    }
    return Run(
        id=f"{at:%Y%m%d-%H%M%S}-{day:06x}",
        kind=RunKind.RUN,
        started=at.isoformat(),
        plan=tuple(PlannedResult(case=each, metric=Metric.TIME) for each in cases),
        environments=(Environment(facts=facts),),
        settings={"suites": ["standard"]},
    )


def make_result(case: Case, seconds: float, when: str) -> Result:
    times = tuple(seconds * (1 + 0.01 * ((at * 7) % 11 / 5 - 1)) for at in range(SAMPLES))
    sampling = Sampling(1, times, times, (1e-6,) * SAMPLES, 1e-6, 1e-9)
    return Result(
        case=case,
        metric=Metric.TIME,
        status=Status.DONE,
        finished=when,
        seconds=2.0,
        payload=Timing(processes=(sampling,)),
    )


def make_rows(day: int, cases: int, runs: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a run, and those of its results."""
    every = all_cases(cases)
    run = make_run(day, every)
    rows = []
    for number, case in enumerate(every):
        result = make_result(case, seconds_of(number, day, runs), run.started)
        rows.append(
            {
                "run_id": run.id,
                "case_id": case.id,
                "metric": Metric.TIME.value,
                "environments": msgspec.json.encode(result.environments).decode(),
                "status": result.status.value,
                "record": compress_record(encode_result(result)),
                **msgspec.structs.asdict(figures_of(result)),
            }
        )
    return {"id": run.id, "state": RunState.FINISHED.value, **columns_of(run)}, rows


def make_store(place: Path, cases: int, runs: int) -> None:
    """Under another name until it is complete."""
    part = place.with_suffix(".part")
    part.unlink(missing_ok=True)
    open_store(part).close()
    add_runs(part, range(runs), cases, runs)
    part.rename(place)


def add_runs(place: Path, days: Sequence[int], cases: int, runs: int) -> None:
    engine = make_engine(url_of(place))
    with ProcessPoolExecutor() as pool:
        for run, rows in pool.map(partial(make_rows, cases=cases, runs=runs), days):
            with write_transaction(engine) as connection:
                connection.execute(insert(schema.runs).values(run))
                connection.execute(insert(schema.results), rows)
    with write_transaction(engine) as connection:
        for case in all_cases(cases):
            keep_case(connection, case)
    engine.dispose()


def measure(*arguments: str, times: int = 1) -> float:
    """Median wall seconds of a command, as a process."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "torchmark", *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
        found.append(time.perf_counter() - start)
        if done.returncode not in (0, 1):  # 1: `check` found a regression
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return statistics.median(found)


def measure_all(folder: Path, cases: int, runs: int) -> Iterator[tuple[str, float, float]]:
    """Name, limit and seconds of each command."""
    place, site = folder / "big.db", folder / "site"
    store = ("--store", str(place))
    page = str(folder / "report.html")
    yield "history CASE", 1, measure("history", all_cases(cases)[7].id, *store, times=QUICK)
    yield "check --no-again", 1, measure("check", "--no-again", *store, times=QUICK)
    yield "runs", 1, measure("runs", *store, times=QUICK)
    yield "report RUN", 3, measure("report", "latest", "-o", page, *store, times=QUICK)
    shutil.rmtree(site, ignore_errors=True)
    yield "publish, the first time", 600, measure("publish", str(site), *store)
    yield "publish, nothing new", 15, measure("publish", str(site), *store)
    with open_store(place) as opened:
        days = len(opened.runs())
    add_runs(place, [days], cases, runs)
    yield "publish, one new run", 15, measure("publish", str(site), *store)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    place = options.folder / "big.db"
    if not place.exists():
        make_store(place, options.cases, options.runs)
    results = options.cases * options.runs
    size = place.stat().st_size
    print(f"{results:,} results, {size / 1e6:,.0f} MB: {size / results:,.0f} bytes for each")
    print(f"{'command':<26}{'wanted':>10}{'wall':>10}")
    for name, limit, seconds in measure_all(options.folder, options.cases, options.runs):
        over = "" if seconds <= limit else "  over"
        print(f"{name:<26}{limit:>8} s{seconds:>8.2f} s{over}", flush=True)
    site = sum(file.stat().st_size for file in (options.folder / "site").rglob("*"))
    print(f"the site: {site / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()

"""A process that adds results to a run, for tests that run several or kill them.

`python writer.py STORE RUN NUMBER…` adds one result for each number and prints the number when
the store has it. torch is not imported, so that it starts quickly.
"""

from __future__ import annotations

import random
import sys

from torchmark.model.case import Case
from torchmark.model.result import Metric, PlannedResult, Result, Status
from torchmark.model.run import Run, RunKind
from torchmark.store import open_store


def case(number: int) -> Case:
    return Case(label=("made up", str(number)), stmt=f"x + {number}")


def result(number: int) -> Result:
    # Text that does not compress: a transaction of several pages can be cut in the middle.
    noise = random.Random(number).randbytes(20_000).hex()
    return Result(
        case=case(number), metric=Metric.TIME, status=Status.DONE, finished="now", stdout=noise
    )


def planned_run(run_id: str, count: int) -> Run:
    plan = tuple(PlannedResult(case=case(number), metric=Metric.TIME) for number in range(count))
    return Run(id=run_id, kind=RunKind.RUN, started="2026-11-15T22:15:30Z", plan=plan)


def main(place: str, run_id: str, *numbers: str) -> None:
    with open_store(place) as store:
        print("open", flush=True)
        sys.stdin.readline()  # so that several begin at the same time
        for number in map(int, numbers):
            assert store.add(run_id, result(number))
            print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

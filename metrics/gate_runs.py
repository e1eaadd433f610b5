"""Can the gate of `torchmark check` be trusted? With real runs of a small suite.

    python metrics/gate_runs.py FILE [--baseline 12] [--checks 20] [--more 0.02]

A suite of ten cases calls a module of which there are two versions: `base`, and `head`, which is a
copy (clean) or does a loop of 51 instead of 50 in one function (2 % more work). After a baseline of
twelve runs of `base`, it makes clean and regressed runs of `head` in turn, and checks each with

    torchmark check --A "export PYTHONPATH=base"

as a user would: the commands are processes of their own, with a store in a temporary folder. Each
check adds a line of JSON to FILE as soon as it is there; an existing file is continued. Beside each
verdict is what a threshold of ±2 % on single values says of the same two runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

STATEMENTS = {
    "add": ("x + x", "x = torch.ones(4, 4)"),
    "total": ("x.sum()", "x = torch.ones(1000)"),
    "matmul": ("x @ x", "x = torch.ones(64, 64)"),
    "linear": ("m(x)", "m = torch.nn.Linear(32, 32); x = torch.ones(8, 32)"),
    "backward": ("w.sum().backward()", "w = torch.ones(8, requires_grad=True)"),
    "softmax": ("torch.softmax(x, 1)", "x = torch.ones(32, 64)"),
    "select": ("x.index_select(0, i)", "x, i = torch.ones(256, 64), torch.arange(0, 256, 2)"),
    "cat": ("torch.cat((x, x))", "x = torch.ones(1000)"),
    "sort": ("x.sort()", "x = torch.arange(500) * 7919 % 503"),
    "conv": ("torch.conv1d(x, w)", "x, w = torch.ones(4, 8, 128), torch.ones(8, 8, 3)"),
}
RUNS = 50
TODAY = 0.02


def write_work(folder: Path, slow: str | None, more: float) -> None:
    """The module whose functions the suite calls; one of them may do more."""
    folder.mkdir(exist_ok=True)
    lines = ["import torch", ""]
    for name, (stmt, setup) in STATEMENTS.items():
        runs = RUNS + round(RUNS * more) if name == slow else RUNS
        lines += [
            f"def make_{name}():",
            f"    {setup}",
            "    def work():",
            f"        for _ in range({runs}):",
            f"            {stmt}",
            "    return work",
            "",
        ]
    (folder / "work_of_gate.py").write_text("\n".join(lines))


def write_suite(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    lines = ["from torchmark import TimerArgs", "", "SUITE = {"]
    lines += [
        f'    "{name}": TimerArgs("work()", "from work_of_gate import make_{name}; '
        f'work = make_{name}()"),'
        for name in STATEMENTS
    ]
    suite = folder / "bench_gate.py"
    suite.write_text("\n".join([*lines, "}", ""]))
    return suite


class Bench:
    """Calls torchmark with one of the two versions of the module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "marks.db"
        self.suite = write_suite(folder / "suite")
        self.own_path = os.environ.get("PYTHONPATH", "")

    def path(self, version: str) -> str:
        return os.pathsep.join(filter(None, [str(self.folder / version), self.own_path]))

    def call(self, version: str, *arguments: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "torchmark", *arguments, "--store", str(self.store), "--quiet"],
            env={**os.environ, "PYTHONPATH": self.path(version)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.returncode

    def run(self, version: str) -> None:
        # The store is made by the first run, in a folder without git: the runs are in one history.
        self.call(version, "run", str(self.suite), "--time", "--quick")

    def check(self) -> tuple[int, dict[str, Any]]:
        file = self.folder / "check.json"
        command = f"export PYTHONPATH={self.path('base')}"
        code = self.call("head", "check", "--A", command, "--json", str(file))
        return code, json.loads(file.read_text())

    def values(self) -> list[dict[str, float]]:
        """The medians of the two newest runs that are no repetitions, by case."""
        from torchmark.store import open_store  # noqa: PLC0415 - only this part is in-process

        with open_store(self.store) as store:
            origins = store.origins()[-2:]
            found = store.series(origins=origins)
        return [
            {each.case.name: p.value for each in found for p in each.points if p.origin == origin}
            for origin in origins
        ]

    def remove_latest(self) -> None:
        """Leave the baseline as it was: runs of `head` are no part of it."""
        from torchmark.store import open_store  # noqa: PLC0415

        with open_store(self.store) as store:
            store.remove(store.origins()[-1].run)


def take_check(bench: Bench, slow: str | None, more: float) -> dict[str, Any]:
    """Measure `head` and check it; the record says what came of it."""
    begun = time.monotonic()
    write_work(bench.folder / "head", slow, more)
    bench.run("head")
    old, new = bench.values()
    measured = time.monotonic()
    code, found = bench.check()
    rows = found["table"]
    record = {
        "at": round(time.time()),
        "load": round(os.getloadavg()[0], 1),
        "slow": slow,
        "code": code,
        "failed": [row["title"].partition(" ·")[0] for row in rows if row["outcome"] == "slower"],
        "again": sum(bool(row["paired"]) for row in rows),
        "ratios": {
            row["title"].partition(" ·")[0]: round(row["ratio"], 5) for row in rows if row["paired"]
        },
        "today": [name for name in new if new[name] / old[name] > 1 + TODAY],
        "run_seconds": round(measured - begun, 1),
        "check_seconds": round(time.monotonic() - measured, 1),
    }
    bench.remove_latest()
    return record


def print_table(records: list[dict[str, Any]]) -> None:
    clean = [each for each in records if each["slow"] is None]
    slower = [each for each in records if each["slow"] is not None]
    count = Counter(
        {
            "clean": sum(each["code"] == 1 for each in clean),
            "clean today": sum(bool(each["today"]) for each in clean),
            "slower": sum(each["slow"] in each["failed"] for each in slower),
            "others": sum(set(each["failed"]) - {each["slow"]} != set() for each in slower),
            "slower today": sum(each["slow"] in each["today"] for each in slower),
        }
    )
    print(f"check --A: {count['clean']} of {len(clean)} clean runs fail; the regressed case fails "
          f"in {count['slower']} of {len(slower)}, another case in {count['others']}")  # fmt: skip
    print(f"±2 %, single values: {count['clean today']} of {len(clean)} clean runs fail; the "
          f"regressed case fails in {count['slower today']} of {len(slower)}")  # fmt: skip
    again = sorted(each["again"] for each in records)
    seconds = sorted(each["check_seconds"] for each in records)
    middle = len(records) // 2
    print(f"measured again: {again[middle]} cases in the median; a check takes {seconds[middle]} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--baseline", type=int, default=12)
    parser.add_argument("--checks", type=int, default=20, help="clean ones, and as many regressed")
    parser.add_argument("--more", type=float, default=0.02)
    options = parser.parse_args()
    file: Path = options.file
    records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        write_work(bench.folder / "base", None, 0.0)
        for number in range(options.baseline if len(records) < 2 * options.checks else 0):
            bench.run("base")
            print(f"baseline {number + 1} of {options.baseline}", flush=True)
        names = list(STATEMENTS)
        while len(records) < 2 * options.checks:
            slow = names[len(records) // 2 % len(names)] if len(records) % 2 else None
            records.append(take_check(bench, slow, options.more))
            with file.open("a") as opened:
                opened.write(json.dumps(records[-1]) + "\n")
            print(f"{len(records)} of {2 * options.checks}: {records[-1]}", flush=True)
    print_table(records)


if __name__ == "__main__":
    main()

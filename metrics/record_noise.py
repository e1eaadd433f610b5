"""Record how the results of one unchanged suite vary from run to run: the noise of histories.

    python metrics/record_noise.py FILE [--runs 200] [--pause 0]

Runs twelve statements again and again with `torchmark.run`, each time in fresh processes, and keeps
the medians. `metrics/change_points.py` and `metrics/gate_truth.py` make their series of them. An
existing file is continued, so several sessions, idle and busy, can be in one file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import torchmark
from torchmark.analyse.estimates import time_of
from torchmark.engine.machine import cpu_model

STATEMENTS = {
    "add 4x4": ("x + x", "x = torch.ones(4, 4)"),
    "sum 1000": ("x.sum()", "x = torch.ones(1000)"),
    "mm 64": ("x @ x", "x = torch.ones(64, 64)"),
    "linear 32": ("m(x)", "m = torch.nn.Linear(32, 32); x = torch.ones(8, 32)"),
    "backward 8": ("w.sum().backward()", "w = torch.ones(8, requires_grad=True)"),
    "softmax 128x256": ("torch.softmax(x, 1)", "x = torch.ones(128, 256)"),
    "layer norm 2 MB": (
        "torch.nn.functional.layer_norm(x, (512,))",
        "x = torch.ones(1024, 512)",
    ),
    "copy 8 MB": ("y.copy_(x)", "x, y = torch.ones(1000, 1000), torch.ones(1000, 1000)"),
    "index select": (
        "x.index_select(0, i)",
        "x, i = torch.ones(4096, 64), torch.arange(0, 4096, 2)",
    ),
    "cat": ("torch.cat((x, x))", "x = torch.ones(1000)"),
    "sort 2000": ("x.sort()", "x = torch.arange(2000) * 7919 % 2003"),
    "conv1d": ("torch.conv1d(x, w)", "x, w = torch.ones(4, 8, 128), torch.ones(8, 8, 3)"),
}


def read_noise(path: Path) -> list[dict[str, Any]]:
    """The recorded runs: when, the load before it, and the median of each statement."""
    with lzma.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def write_suite(folder: Path) -> Path:
    """A suite file with the statements."""
    lines = ["from torchmark import TimerArgs", "", "SUITE = {"]
    lines += [
        f"    {name!r}: TimerArgs({stmt!r}, {setup!r}),"
        for name, (stmt, setup) in STATEMENTS.items()
    ]
    suite = folder / "bench_noise.py"
    suite.write_text("\n".join([*lines, "}", ""]))
    return suite


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two runs")
    options = parser.parse_args()
    runs = read_noise(options.file) if options.file.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        suite = write_suite(Path(folder))
        for number in range(options.runs):
            load = os.getloadavg()[0]
            run = torchmark.run(
                [str(suite)], metrics=["time"], quick=True, store=Path(folder) / f"{number}.db"
            )
            times = {each.case.name: time_of(each) for each in run.results}
            medians = {name: float(f"{t.median:.6g}") for name, t in times.items() if t is not None}
            runs.append({"at": round(time.time()), "load": round(load, 1), "cpu": cpu_model(),
                         "medians": medians})  # fmt: skip
            with lzma.open(options.file, "wt") as file:
                file.writelines(json.dumps(each) + "\n" for each in runs)
            print(f"{number + 1} of {options.runs}, load {load:.1f}", flush=True)
            time.sleep(options.pause)


if __name__ == "__main__":
    main()

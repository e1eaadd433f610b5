"""How long do a thousand cases of a tiny model take, and in how many processes?

    python metrics/sweep_speed.py

250 points with four configs each (pt and ort, fp32 and fp16), by the command line, into a CSV and a
store. Then the same with a fifth config, to see that it brings no process with it. Wanted: at most
300 s for the thousand, and as many processes with five configs as with four; the exit status is 1
if not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torchmark

WANTED_SECONDS = 300.0

SPEC = """
import os
import torch
class Tiny(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        with open({seen!r}, "a") as file:
            file.write(str(os.getpid()) + " ")
        self.linear = torch.nn.Linear(features, 4)
    def forward(self, x):
        return self.linear(x)
model = Tiny
model_init_params = ["features"]
input_params = [["batch", "features"]]
input_scales = {{"batch": range(1, 51), "features": [4, 8, 16, 32, 64]}}
job_configs = {configs!r}
"""


def swept(configs: list[str]) -> tuple[int, float, int]:
    """Rows, seconds, and processes that built the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = folder / "processes"
        (folder / "tiny.py").write_text(SPEC.format(seen=str(seen), configs=configs))
        start = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "torchmark", "sweep", "tiny.py", "--store", "s.db", "--quiet"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(torchmark.__file__).parents[1])},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.monotonic() - start
        rows = len((folder / "tiny.csv").read_text().splitlines()) - 1
        return rows, seconds, len(set(seen.read_text().split()))


def main() -> None:
    found = []
    configs = ["pt fp32", "ort fp32", "pt fp16", "ort fp16"]
    for each in (configs, [*configs, "pt bf16"]):
        rows, seconds, processes = swept(each)
        found.append((seconds, processes))
        print(
            f"{rows} cases of {len(each)} configs: {seconds:.0f} s, "
            f"{seconds / rows * 1000:.0f} ms each, {processes} process(es)"
        )
    print(f"wanted: at most {WANTED_SECONDS:.0f} s for 1000, one process whatever the configs")
    sys.exit(found[0][0] > WANTED_SECONDS or any(processes > 1 for _, processes in found))


if __name__ == "__main__":
    main()

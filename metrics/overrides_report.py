"""Does `torchmark overrides report` find a hundred nanoseconds in one case, and nothing else?

    python metrics/overrides_report.py [--runs 20] [--more 'len(args)']

The branch is the same torch, in which what `F.relu` calls below a TorchFunctionMode, and nothing
else in the suite, is a little slower: a function around it, that does `--more` first. What that
costs is measured first. The reports run one after the other, as a person would call them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.patched_torch import sitecustomize  # noqa: E402 - found by the line above

SLOWER_CASE = "overrides / F.relu / TorchFunctionMode"
MODULE, FUNCTION = "torch.overrides", "_pop_mode_temporarily"

WANTED_SHARE = 0.95
WANTED_SECONDS = 90.0


class Report(NamedTuple):
    """What one report said."""

    slower: list[str]
    others: list[str]
    """Cases that were called faster."""

    seconds: float

    @property
    def is_right(self) -> bool:
        return self.slower == [SLOWER_CASE] and not self.others


def extra_nanoseconds(more: str) -> float:
    """What the patch adds to a call; the fastest of many, so that the machine's noise is out."""
    original = "def original():\n    pass\n"
    patched = f"def patched(*args, **kwargs):\n    {more}\n    return original(*args, **kwargs)"
    plain, slower = (
        min(timeit.repeat(call, original + patched, number=10_000, repeat=200))
        for call in ("original()", "patched()")
    )
    return (slower - plain) / 10_000 * 1e9


def one_report(folder: Path) -> Report:
    commands = [f"export PYTHONPATH={folder / side}:$PYTHONPATH" for side in ("base", "branch")]
    data = folder / "data"
    output = folder / f"report-{time.monotonic_ns()}"
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "torchmark", "overrides", "report", "--quiet",
         "--base", commands[0], "--branch", commands[1], "-o", str(output)],
        check=True, capture_output=True, env=os.environ | {"XDG_DATA_HOME": str(data)},
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    (file,) = (data / "torchmark" / "ab").glob("*.json")
    results = json.loads(file.read_text())["comparisons"][0]["results"]
    file.unlink()
    names: dict[str, list[str]] = {"slower": [], "faster": []}
    for result in results:
        verdict = result["meaning"]["verdict"] if "meaning" in result else result["outcome"]
        names.setdefault(verdict, []).append(" / ".join(result["case"]["label"]))
    return Report(names["slower"], names["faster"], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--more", default="len(args)", help="a statement of one line")
    options = parser.parse_args()
    print(f"injected: {extra_nanoseconds(options.more):.0f} ns in {SLOWER_CASE}", flush=True)
    reports = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side in ("base", "branch"):
            (folder / side).mkdir()
        patch = sitecustomize(MODULE, FUNCTION, more=options.more)
        (folder / "base" / "sitecustomize.py").write_text("")
        (folder / "branch" / "sitecustomize.py").write_text(patch)
        for _ in range(options.runs):
            report = one_report(folder)
            reports.append(report)
            print(f"{report.seconds:5.0f} s  slower: {report.slower}  faster: {report.others}",
                  flush=True)  # fmt: skip
    right = sum(report.is_right for report in reports)
    longest = max(report.seconds for report in reports)
    print(f"right in {right} of {len(reports)} (wanted: {WANTED_SHARE:.0%})")
    print(f"longest {longest:.0f} s (wanted: {WANTED_SECONDS:.0f})")
    sys.exit(right < WANTED_SHARE * len(reports) or longest > WANTED_SECONDS)


if __name__ == "__main__":
    main()

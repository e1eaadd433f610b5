"""Does `torchmark overrides report` find a hundred nanoseconds in one case, and nothing else?

    python metrics/overrides_report.py [--runs 20] [--more 'len(args)']

The branch is the same torch, in which what `F.relu` calls below a TorchFunctionMode, and nothing
else in the suite, is a little slower: a function around it, that does `--more` first. What that
costs is measured first. The reports run one after the other, as a person would call them.
"""

from __future__ import annotations

import argparse
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
from torchmark.analyse.ab import judge  # noqa: E402
from torchmark.analyse.estimates import Verdict  # noqa: E402
from torchmark.commands.overrides import PAIR  # noqa: E402
from torchmark.store import open_store  # noqa: E402

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
    name = f"report-{time.monotonic_ns()}"
    store, output = folder / f"{name}.db", folder / name
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "torchmark", "overrides", "report", "--quiet", "--store", str(store),
         "--base", commands[0], "--branch", commands[1], "-o", str(output)],
        check=True, capture_output=True,
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    with open_store(store) as opened:
        judged = judge(opened.run("latest"), PAIR)
    names: dict[Verdict, list[str]] = {Verdict.SLOWER: [], Verdict.FASTER: []}
    for row in judged.times:
        names.setdefault(row.verdict, []).append(row.case.name)
    return Report(names[Verdict.SLOWER], names[Verdict.FASTER], seconds)


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

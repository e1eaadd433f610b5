"""Runs of every kind, killed at random moments and resumed: is anything lost, or there twice?

Each of `run`, `ab`, `replay`, `sweep` and `overrides report` is started, killed with SIGKILL (its
whole process group) at a random moment, resumed and killed again, five times, then resumed to its
end. After every kill the store must hold all that it held before, each result once; in the end
nothing of the plan may be missing and `torchmark show` must print the report. One more run of each
kind is interrupted by SIGINT in the middle: `show` must print what there is.

    python metrics/killed_runs.py [--kills 5] [--seed 0] [KIND ...]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from torchmark.model.result import Status
from torchmark.model.run import Run, RunState
from torchmark.store import open_store

ROOT = Path(__file__).resolve().parents[1]
SETUP = "x = torch.ones(64, 64)"
SUITE = """
from torchmark import TimerArgs
SUITE = {f"case {n}": TimerArgs("x + x", f"x = torch.ones({n + 1})") for n in range(40)}
"""


class Kind:
    """One command, with arguments that keep it busy for half a minute or so."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.store = folder / f"{name.replace(' ', '-')}.db"

    def arguments(self) -> list[str]:
        statements = ["x + x", "x.sum()", "x @ x", "torch.cat([x, x])", "x.t().contiguous()"]
        return {
            "run": ["run", "bench_killed.py", "--time", "--quick"],
            "ab": ["ab", "--B", "export TORCHMARK_KILLED=1", "--time", "--budget", "2",
                   "--setup", SETUP, *(part for each in statements for part in ("--stmt", each))],
            "replay": ["replay", "trace.jsonl.gz", "--mode", "hot", "--budget", "0.05"],
            "sweep": ["sweep", str(ROOT / "examples/sweeps/linear.py"), "--csv", "killed.csv",
                      "--set", "batch=1,2,4,8,16,32"],
            "overrides report": ["overrides", "report", "--base", "", "--branch",
                                 "export TORCHMARK_KILLED=1", "--output", "report"],
        }[self.name]  # fmt: skip

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        has_begun = self.run() is not None
        begin = [*self.name.split(), "--resume", "killed"] if has_begun else self.arguments()
        tag = [] if has_begun else ["--tag", "killed"]
        if self.name == "overrides report" and has_begun:
            begin += ["--output", "report"]
        return subprocess.Popen(
            [sys.executable, "-m", "torchmark", *begin, *tag, "--store", str(self.store), *more],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self) -> Run | None:
        if not self.store.exists():
            return None
        with open_store(self.store) as store:
            return store.run("killed") if store.runs() else None


def check_kept(before: Run | None, after: Run | None) -> str:
    """What was lost or is there twice; empty if nothing."""
    if before is None:
        return ""
    if after is None:
        return "the run is gone"
    keys = [result.key for result in after.results]
    if len(keys) != len(set(keys)):
        return "a result is there twice"
    held = {result.key for result in before.results if result.status is not Status.FAILED}
    return "" if held <= set(keys) else f"{len(held - set(keys))} results are lost"


def kill_and_resume(kind: Kind, kills: int, rng: random.Random) -> str:
    """Kill it so often, then let it finish; what went wrong, or nothing."""
    held: list[int] = []
    for _ in range(kills):
        before = kind.run()
        process = kind.start("--quiet")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(2.0, LATEST_KILL[kind.name]))
        was_over = process.poll() is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        after = kind.run()
        problem = check_kept(before, after)
        if problem:
            return problem
        held.append(len(after.results) if after is not None else 0)
        if was_over:
            break
    process = kind.start()
    out, err = process.communicate(timeout=1800)
    run = kind.run()
    print(f"  results held after each kill: {held}; in the end {len(run.results) if run else 0}")
    if run is None or run.missing() or run.state is not RunState.FINISHED:
        return f"not complete: exit {process.returncode}\n{err.decode()[-2000:]}"
    shown = subprocess.run(
        [sys.executable, "-m", "torchmark", "show", "killed", "--store", str(kind.store)],
        capture_output=True, check=False,
    )  # fmt: skip
    if shown.returncode or not shown.stdout:
        return f"show failed: {shown.stderr.decode()[-2000:]}"
    return "" if shown.stdout in out or kind.name == "overrides report" else "show differs"


def interrupt(kind: Kind) -> str:
    """Ctrl-C once the first result is there; what went wrong, or nothing."""
    kind.store = kind.store.with_suffix(".interrupted.db")
    (kind.folder / "killed.csv").unlink(missing_ok=True)  # files of the run in the other store
    shutil.rmtree(kind.folder / "report", ignore_errors=True)
    process = kind.start("--quiet")
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        run = kind.run()
        if run is not None and run.results:
            break
        time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=300)
    shown = subprocess.run(
        [sys.executable, "-m", "torchmark", "show", "killed", "--store", str(kind.store)],
        capture_output=True, check=False,
    )  # fmt: skip
    if process.returncode != 130:
        return f"exit {process.returncode} after Ctrl-C: {err.decode()[-1000:]}"
    is_shown = shown.returncode == 0 and shown.stdout
    return "" if is_shown else f"show failed: {shown.stderr.decode()[-1000:]}"


def make_inputs(folder: Path) -> None:
    (folder / "bench_killed.py").write_text(SUITE)
    subprocess.run(
        [sys.executable, "-m", "torchmark", "capture", "-o", str(folder / "trace.jsonl.gz"), "-m",
         "examples.models", "mlp"],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip


LATEST_KILL = {"run": 5.0, "ab": 20.0, "replay": 5.0, "sweep": 6.0, "overrides report": 60.0}
"""Seconds after the start: in most of them some results are there, and others are not."""

KINDS = tuple(LATEST_KILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # A shell that starts this in the background has SIGINT ignored for all that begins below it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    problems = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_inputs(folder)
        for kind in options.kinds or KINDS:
            print(kind)
            found = kill_and_resume(
                Kind(kind, folder), options.kills, random.Random(f"{options.seed} {kind}")
            )
            found = found or interrupt(Kind(kind, folder))
            problems += bool(found)
            print(f"  {found or 'nothing lost, nothing twice, complete; shown after Ctrl-C'}")
    sys.exit(problems)


if __name__ == "__main__":
    main()

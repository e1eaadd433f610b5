"""How much of a flame graph is the measured loop: ours, and that of the seed's command.

    python metrics/flame_share.py [--seconds 3]

Both record native frames of the same four statements. The seed's command starts the program under
py-spy, so that its picture has `import torch` in it; ours attaches when the statement is warm.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from torchmark.define.suites.loading import cases_of, load_suite
from torchmark.define.suites.overrides import SEED_KINDS
from torchmark.engine.sampling_profiler import is_in_loop, py_spy, record
from torchmark.engine.zygote.cases import PythonCase
from torchmark.engine.zygote.zygote import Zygote
from torchmark.flame.stacks import parse_stacks

WANTED_SHARE = 0.95
SEED = Path(__file__).resolve().parents[1] / "benchmarks" / "overrides_benchmark"


def our_share(zygote: Zygote, kind: str, seconds: int) -> float:
    case = next(
        case
        for case in cases_of([load_suite("overrides")])
        if case.label == ("overrides", "torch.add", kind)
    )
    torch_global = {"torch": {"kind": "import", "value": "torch"}}
    ready = PythonCase(stmt=case.stmt, setup=case.setup, globals=torch_global)
    return record(zygote, ready, seconds=seconds, native=True).share_inside


def share_of_seed(kind: str) -> float:
    """As it is written in the seed, but for the form of the file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        subprocess.run(
            [py_spy(), "record", "--format", "raw", "--output", str(file), "--native", "--",
             sys.executable, "pyspybench.py", kind],
            cwd=SEED, check=True, capture_output=True,
        )  # fmt: skip
        stacks = parse_stacks(file.read_text())
    inside = sum(stack.weight for stack in stacks if is_in_loop(stack))
    if not inside:  # py-spy ends well also when the program does not
        sys.exit(f"{SEED / 'pyspybench.py'} {kind} never came to its loop; run it by itself")
    return inside / sum(stack.weight for stack in stacks)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=3, help="how long ours looks at each")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, Python {platform.python_version()}")
    print(f"{'samples inside the loop':<24}{'ours':>9}{'seed':>9}")
    ours = []
    with Zygote() as zygote:
        for kind in SEED_KINDS:
            ours.append(our_share(zygote, kind, options.seconds))
            print(f"{kind:<24}{ours[-1]:>9.1%}{share_of_seed(kind):>9.1%}", flush=True)
    if min(ours) < WANTED_SHARE:
        sys.exit(f"fewer than {WANTED_SHARE:.0%} of our samples are inside the loop")


if __name__ == "__main__":
    main()

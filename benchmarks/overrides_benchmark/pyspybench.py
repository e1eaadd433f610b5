"""One kind of input in a loop, for a profiler, as in seed 002.

    cd benchmarks/overrides_benchmark
    py-spy record -o tensor.svg --native -- python pyspybench.py Tensor

The picture has `import torch` in it too; that of `torchmark flame` has the loop alone.
"""

from __future__ import annotations

import argparse

import torch
from bench import CALL, at_least_one

from torchmark.define.suites.overrides import SETUPS
from torchmark_probe.loops.snippets import PythonLoop

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Call torch.add again and again.")
    parser.add_argument("case", choices=SETUPS, metavar="CASE", help=", ".join(SETUPS))
    parser.add_argument("-n", "--nreps", type=at_least_one, default=1_000_000, metavar="N",
                        help="how often (default: 1000000)")  # fmt: skip
    chosen = parser.parse_args()
    PythonLoop(CALL, SETUPS[chosen.case], globals={"torch": torch}).timeit(chosen.nreps)

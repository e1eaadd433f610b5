"""From inputs to a coloured table: two implementations of an op on fuzzed inputs.

    python -m examples.end_to_end
    python -m examples.end_to_end --env A="source a/bin/activate" --env B="source b/bin/activate"

Without arguments two implementations of a row-wise normalisation are compared in this process, on
inputs drawn by the ready-made unary fuzzer. With `--env` one implementation is measured in several
environments: each is a shell command after which `python` imports torch and torchmark. The same
seed draws the same inputs in each of them, and the results travel as JSON.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import torchmark as benchmark

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

IMPLEMENTATIONS = {
    "by hand": "(x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()",
    "layer_norm": "torch.nn.functional.layer_norm(x, x.shape[-1:])",
}
TRIALS = 4
SEED = 3
LARGEST = 2**20
"""Elements; the fuzzer draws up to 32 Mi, which would take longer than an example should."""


def inputs() -> Iterable[tuple[str, torch.Tensor]]:
    """The same inputs in every environment, with a title for each."""
    taken = 0
    for tensors, properties, _ in benchmark.UnaryOpFuzzer(SEED).take(50):
        x = tensors["x"]
        if x.numel() > LARGEST:
            continue
        steps = "" if properties["x"]["is_contiguous"] else " strided"
        yield f"{tuple(x.shape)}{steps}".replace(" ", ""), x
        taken += 1
        if taken == TRIALS:
            return


def measure(names: Iterable[str], env: str | None) -> Iterable[benchmark.Measurement]:
    for title, x in inputs():
        timers = [
            benchmark.Timer(
                IMPLEMENTATIONS[name],
                globals={"x": x},
                label="normalise rows",
                sub_label=name,
                description=title,
                env=env,
            )
            for name in names
        ]
        yield from benchmark.measure_together(timers, min_run_time=0.1, max_run_time=0.5)
        print(".", end="", flush=True, file=sys.stderr)


def measure_in(name: str, source: str) -> list[benchmark.Measurement]:
    """The results of this very file, run after a shell command that the user gave."""
    command = f"{source}\nexec python -m examples.end_to_end --worker {shlex.quote(name)}"
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, text=True, check=True)
    return [benchmark.Measurement.from_json(line) for line in done.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--env", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--worker", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        for result in measure(["layer_norm"], options.worker):
            print(result.to_json())
        return
    results: list[benchmark.Measurement] = []
    for env in options.env:
        name, separator, source = env.partition("=")
        if not separator:
            parser.error(f"--env takes NAME=COMMAND, got {env!r}")
        results += measure_in(name, source)
    if not results:
        results = list(measure(IMPLEMENTATIONS, None))
    print(file=sys.stderr)
    compare = benchmark.Compare(results)
    compare.trim_significant_figures()
    compare.colorize()
    compare.print()


if __name__ == "__main__":
    main()

"""Record the rounds of A/A process pairs, the raw material of every constant of paired timing.

    python metrics/record_pairs.py FILE [--ops-from SEED ...] [--replicates 12] [--crossovers 2]
        [--seconds 0.15] [--busy]

Both sides run the same statement, each in an environment of its own, in the way of `torchmark ab`:
fresh launches at other addresses, process pairs in crossovers. All blocks of all process pairs are
kept, in the order taken. `metrics/tune_pairs.py` reads the file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import statistics
import struct
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ab_truth import OTHER, busy
from drawing.op import Op
from drawn_ops import draw_ops

from torchmark.commands.ab import activate
from torchmark.engine.cores import divide_cores, on_cores, usable_cores
from torchmark.engine.machine import cpu_model
from torchmark.engine.paired import pairing
from torchmark.engine.paired.pairing import Round, Side
from torchmark.engine.paired.timing import starter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class RecordedPair(NamedTuple):
    """All rounds of one process pair of one op with itself."""

    op: str
    replicate: int
    crossover: int
    first: int
    """Who was started first: 0 for A."""

    rounds: tuple[Round, ...]
    """Seconds of one run, those before the pair had settled too."""


_STEP = 1e-4
"""Of a logarithm: 0.01 %, far below the noise of a block."""


def write_pairs(path: Path, facts: dict[str, object], pairs: Sequence[RecordedPair]) -> None:
    """A line of JSON for the facts and for each pair, its blocks as steps from their median."""
    with lzma.open(path, "wb") as file:
        file.write(json.dumps(facts).encode() + b"\n")
        for pair in pairs:
            count = len(pair.rounds)
            middle = statistics.median(seconds for each in pair.rounds for seconds in each)
            head = {**pair._asdict(), "rounds": count, "median": middle}
            file.write(json.dumps(head).encode() + b"\n")
            for side in (0, 1):
                steps = (_step_of(each[side], middle) for each in pair.rounds)
                file.write(struct.pack(f"<{count}h", *steps))


def read_pairs(path: Path) -> tuple[dict[str, object], list[RecordedPair]]:
    """The facts and the pairs of a file."""
    pairs = []
    with lzma.open(path, "rb") as file:
        facts = json.loads(file.readline())
        while line := file.readline():
            head = json.loads(line)
            count = head["rounds"]
            middle = head.pop("median")
            a, b = (
                [middle * math.exp(_STEP * each) for each in struct.unpack(f"<{count}h", block)]
                for block in (file.read(2 * count), file.read(2 * count))
            )
            pairs.append(RecordedPair(**{**head, "rounds": tuple(zip(a, b, strict=True))}))
    return facts, pairs


def _step_of(seconds: float, middle: float) -> int:
    return max(-32767, min(32767, round(math.log(seconds / middle) / _STEP)))


def record(
    ops: Sequence[Op], *, replicates: int, crossovers: int, seconds: float, is_busy: bool
) -> Iterator[RecordedPair]:
    division = divide_cores(usable_cores(), 1)
    rng = random.Random()
    taken: list[list[Round]] = []

    def keep(rounds: Sequence[Round]) -> float:
        taken.append(list(rounds))
        return 0.0

    pairing._estimate = keep
    with (
        activate({"A": "", "B": OTHER}) as (a, b),
        on_cores(division.others),
        busy(division.others if is_busy else ()),
    ):
        make = starter(a, b, threads=1, everywhere=division.everything)
        for replicate in range(replicates):
            zygotes = make(replicate)
            zygotes.start()
            with closing(zygotes):
                zygotes.run_on(division.everything)
                for op in ops:
                    one, other = op.pair(0.0)
                    for crossover in range(crossovers):
                        taken.clear()
                        order = rng.random() < 0.5
                        fixed = random.Random(rng.getrandbits(32))
                        begun = time.perf_counter()
                        pairing.take_crossover(
                            Side(zygotes.a, one),
                            Side(zygotes.b, other),
                            _FirstDraw(order, fixed),
                            division.lanes[0],
                            time_limit=60.0,
                            seconds=seconds,
                        )
                        took = time.perf_counter() - begun
                        for place, rounds in enumerate(taken):
                            first = place if order else 1 - place
                            yield RecordedPair(op.name, replicate, crossover, first, tuple(rounds))
                        print(f"{replicate} {op.name:<40} {took:.2f} s", flush=True)


class _FirstDraw(random.Random):
    """Draws who is started first as told."""

    def __init__(self, a_first: bool, rest: random.Random) -> None:
        super().__init__(rest.getrandbits(32))
        self._told: list[float] = [0.25 if a_first else 0.75]

    def random(self) -> float:
        return self._told.pop() if self._told else super().random()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--ops-from", type=int, nargs="*", default=[])
    parser.add_argument("--replicates", type=int, default=12)
    parser.add_argument("--crossovers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--busy", action="store_true", help="with the other cores busy")
    options = parser.parse_args()
    pairing._SETTLING = 0.0  # the first rounds are wanted too
    with tempfile.TemporaryDirectory() as folder:
        if options.ops_from:
            ops = [op for seed in options.ops_from for op in draw_ops(seed, folder=Path(folder))]
        else:
            ops = list(TUNING_OPS)
        pairs = []
        try:
            for pair in record(
                ops,
                replicates=options.replicates,
                crossovers=options.crossovers,
                seconds=options.seconds,
                is_busy=options.busy,
            ):
                pairs.append(pair)
        finally:
            facts = {
                "date": time.strftime("%Y-%m-%d %H:%M"),
                "cpu": cpu_model(),
                "state": "busy" if options.busy else "idle",
                "ops_from": options.ops_from,
                "seconds": options.seconds,
            }
            write_pairs(options.file, facts, pairs)


TUNING_OPS = (
    Op("add 4x4", "x + x", "x = torch.ones((4, 4))"),
    Op("sum 4x4", "x.sum()", "x = torch.ones((4, 4))"),
    Op("Linear 8", "m(x)", "m = torch.nn.Linear(8, 8); x = torch.ones((4, 8))"),
    Op("backward 8", "w.sum().backward()", "w = torch.ones(8, requires_grad=True)"),
    Op("mm 64", "x @ x", "x = torch.ones((64, 64))"),
    Op(
        "add 4 MB", "torch.add(x, y, out=z)", "x, y, z = (torch.ones((700, 512)) for _ in range(3))"
    ),
    Op("copy 16 MB", "y.copy_(x)", "x, y = (torch.ones((2000, 1000)) for _ in range(2))"),
    Op("exp 16 MB", "torch.exp(x, out=y)", "x, y = (torch.ones((2000, 1000)) for _ in range(2))"),
    Op("tanh 24 MB", "torch.tanh(x, out=y)", "x, y = (torch.ones((3000, 1000)) for _ in range(2))"),
    Op(
        "many small autograd calls 6 ms",
        "for _ in range(120): (w * x + w).relu().sum().backward()",
        "w = torch.ones(64, requires_grad=True); x = torch.ones(64)",
    ),
    Op(
        "gather 1 M",
        "x.gather(0, i)",
        "torch.manual_seed(0); x = torch.rand(1 << 20); i = torch.randint(1 << 20, (1 << 20,))",
    ),
    Op("layer_norm 8 MB", "torch.nn.functional.layer_norm(x, (512,))", "x = torch.rand(4096, 512)"),
    Op("bmm 256 x 16", "torch.bmm(x, x)", "x = torch.rand(256, 16, 16)"),
    Op("softmax 1 MB", "x.softmax(1)", "x = torch.rand(512, 512)"),
    Op(
        "conv2d 32",
        "m(x)",
        "m = torch.nn.Conv2d(8, 16, 3); x = torch.rand(4, 8, 32, 32)",
    ),
    Op("sort 16 K", "x.sort()", "torch.manual_seed(0); x = torch.rand(1 << 14)"),
    Op(
        "encoder layer",
        "m(x)",
        "torch.manual_seed(0); m = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True); "
        "x = torch.rand(4, 16, 64)",
    ),
    Op("cat 100", "torch.cat(xs)", "xs = [torch.ones(64) for _ in range(100)]"),
    Op("mm 512", "torch.mm(x, x)", "x = torch.rand(512, 512)"),
    Op(
        "embedding backward",
        "m(i).sum().backward()",
        "torch.manual_seed(0); m = torch.nn.Embedding(10000, 64); i = torch.randint(10000, (256,))",
    ),
)
"""From 1 us to 10 ms: the ops of metrics/ab_truth.py, and what moves memory at random, makes many
small calls, or works in caches."""


if __name__ == "__main__":
    main()

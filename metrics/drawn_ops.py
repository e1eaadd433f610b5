"""Operators drawn at random, each a pair of statements where B does a known share of work more.

    python metrics/drawn_ops.py [--check] [SEED ...]

What `metrics/ab_truth.py --ops-from SEED` compares: operators that nobody chose, so no constant of
torchmark was tuned on them. Half of a draw are PyTorch's own operator samples (OpInfo), some with a
backward pass; half are calls of the ten captured models. Their durations are spread evenly over the
logarithm from 1 us to 10 ms: one in each twelfth. Each op says how B gets its work (`drawing/
fitting.py` has the ways) and whether the truth of that is exactly known.

The same seed draws the same operators and samples in the same order; which of them are refused, and
so what remains, depends on the times that this machine takes.

`--check` compares B, with 1 % of work more, with A by plain loops in ten processes, roughly.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from drawing.children import run_in_child
from drawing.comparing import compare
from drawing.fitting import CHILD_SECONDS, REFUSALS, fit, told_seconds
from drawing.sources import capture_models, draw_sample, family_of, operators

if TYPE_CHECKING:
    from collections.abc import Callable

    from drawing.op import Op
    from drawing.sources import Call

SHORTEST, LONGEST = 1e-6, 9e-3
"""Seconds of the statements; B takes 1 % more, and a little is left for the fit."""

BACKWARD = 2
"""Operators of a draw that are run with their backward pass."""

BACKWARD_SECONDS = ((40e-6, 300e-6), (3e-3, 5e-3))
"""Where they can be: a forward and backward pass of anything takes about 25 us, so a loop of 100
takes 3 ms. In between only rows would do, but the time of few of them is proportional to the rows,
since most get their results in fresh pages from some size on."""

MOST_TRIES = 40
"""Calls that are tried for one place of a draw, from each of the two sources."""

SHORTER = (1.0, 0.6, 0.36, 0.2)
"""Where nothing fits a place, its duration is multiplied by the next of these: to copy memory for
6 ms a faster machine needs more of it than a setup can fill."""


class Place(NamedTuple):
    """What is to be drawn."""

    seconds: float
    is_sample: bool
    """An operator sample; else a call of a model."""

    is_backward: bool


class Drawn(NamedTuple):
    """What is tried for a place."""

    family: str
    make: Callable[[], Call]
    """Gives the call; for a forked child, since it may run anything."""


class Pool(NamedTuple):
    """What is drawn from."""

    infos: list[Any]
    calls: list[Call]

    def draw(self, rng: random.Random, place: Place, path: Path) -> Drawn:
        if place.is_sample:
            return draw_info(rng, self.infos, path, is_backward=place.is_backward)
        return draw_call(rng, self.calls)


def draw_ops(seed: int, count: int = 12, *, folder: Path) -> list[Op]:
    """Different operators, by ascending duration; their inputs are files of the folder."""
    pool = make_pool()
    ops: list[Op] = []
    families: set[str] = set()
    for number, place in enumerate(draw_places(random.Random(seed), count)):
        family, op = draw_op(pool, place, families, folder, f"{seed}-{number}")
        families.add(family)
        ops.append(op._replace(name=f"{seed}: {op.name}"))
    return sorted(ops, key=lambda op: op.seconds)


@cache
def make_pool() -> Pool:
    return Pool(operators(), run_in_child(capture_models, 120.0))


def draw_places(rng: random.Random, count: int) -> list[Place]:
    """One duration in each of `count` parts of the logarithm; half of them samples."""
    ratio = (LONGEST / SHORTEST) ** (1 / count)
    durations = [SHORTEST * ratio ** (part + rng.random()) for part in range(count)]
    rng.shuffle(durations)
    durations.sort(key=suits_backward, reverse=True)
    suited = sum(map(suits_backward, durations[:BACKWARD]))
    others = durations[suited:]
    rng.shuffle(others)
    return [
        Place(seconds, number < (count + 1) // 2, number < suited)
        for number, seconds in enumerate([*durations[:suited], *others])
    ]


def suits_backward(seconds: float) -> bool:
    return any(low < seconds < high for low, high in BACKWARD_SECONDS)


def draw_op(
    pool: Pool, place: Place, families: set[str], folder: Path, stem: str
) -> tuple[str, Op]:
    """An op that fits the place and its family, which is none of those that are there already.

    Where nothing of the place's source fits, the other source gives it: few operators of the
    models take only 1 us. Where nothing of that fits either, a shorter statement takes the place.
    """
    rng = random.Random(stem)
    refusals: Counter[str] = Counter()
    tries = (
        place._replace(seconds=place.seconds * shorter, is_sample=is_sample)
        for shorter in SHORTER
        for is_sample in (place.is_sample, not place.is_sample)
        for _ in range(MOST_TRIES)
    )
    for tried, meant in enumerate(tries):
        path = folder / f"{stem}-{tried}.pt"
        drawn = pool.draw(rng, meant, path)
        if drawn.family in families:
            continue
        try:
            op = fit(run_in_child(drawn.make, CHILD_SECONDS), meant.seconds)
        except REFUSALS as error:
            refusals[str(error)] += 1
            path.unlink(missing_ok=True)
        else:
            return drawn.family, op
    raise RuntimeError(f"no operator fits {place}; most refusals: {refusals.most_common(3)}")


def draw_info(rng: random.Random, infos: list[Any], path: Path, *, is_backward: bool) -> Drawn:
    info = rng.choice([each for each in infos if each.supports_autograd or not is_backward])
    make = partial(draw_sample, info, rng.getrandbits(32), path, is_backward=is_backward)
    return Drawn(family_of(info.name), make)


def draw_call(rng: random.Random, calls: list[Call]) -> Drawn:
    """Of a model, then of an operator of it, then of that one's calls: the large have no more."""
    source = rng.choice(sorted({call.source for call in calls}))
    of_model = [call for call in calls if call.source == source]
    operator = rng.choice(sorted({call.operator for call in of_model}))
    call = rng.choice([call for call in of_model if call.operator == operator])
    return Drawn(call.family, lambda: call)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seeds", type=int, nargs="*", default=[0], metavar="SEED")
    parser.add_argument("--check", action="store_true", help="compare each B with its A, roughly")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            start = time.perf_counter()
            ops = draw_ops(seed, folder=Path(folder))
            print(f"seed {seed}, drawn in {time.perf_counter() - start:.0f} s", flush=True)
            for op in ops:
                if options.check:
                    ratio, error = compare(op, 0.01, 2.0)
                    print(f"B/A {ratio:.4f} ± {error:.4f}  ", end="")
                print(row(op), flush=True)


def row(op: Op) -> str:
    truth = op.truth(0.01)
    told = "calibrated" if truth is None else f"{truth:.4f}"
    lines = op.setup.splitlines()
    setup = " ⏎ ".join(line if len(line) < 50 else line[:47] + "…" for line in lines)
    return (
        f"{op.name:<40} {op.source:<20} {op.way:<11} {told:<10} {told_seconds(op.seconds):>7}  "
        f"{op.stmt} | {setup[:160]}"
    )


if __name__ == "__main__":
    main()

"""Does capture see every operator call? Beside PyTorch's own observer and the method of seed 003.

    python metrics/capture_coverage.py [MODEL ...]

Four times the same step of the same seeded model: counted by torch's execution trace with nothing
else on; by that observer while a mode listens that does nothing; by torchmark.Capture; and by the
hooks and wrapped functions of the seed. operator_calls/ says what counts as a call, and why.

The third count must equal the second, operator by operator and phase by phase: no call missing,
none too many. The first and the second differ where torch itself makes a call in another way as
soon as anybody listens (an addition into a gradient in place becomes one into a new tensor): each
difference must be one of those known, and is printed; it is the same for every tool that listens.

Exit status 1: a call is missing or too many, or a difference is not understood.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # the observer announces itself
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from operator_calls.execution_trace import Calls, count, count_listened
from operator_calls.seeds_method import count_seen

import torchmark
from examples.models import MODELS
from torchmark.report.formats.markdown import pipe_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.models import Step

PHASES = ("forward", "backward", "optimizer")
WARM_UP = 2
"""Steps before the counted one, so that optimizers have made their state."""

OTHERWISE_WHILE_LISTENED = (
    ("aten::add_.Tensor", "aten::add.Tensor"),
    ("aten::mul_.Tensor", "aten::mul.Tensor"),
    ("aten::sub_.Tensor", "aten::sub.Tensor"),
    ("aten::_index_put_impl_", "aten::index_put"),
    ("aten::scatter_.src", "aten::scatter.src"),
    ("aten::scatter_add_", "aten::scatter_add"),
    ("aten::zeros", "aten::new_zeros"),
    ("aten::_reshape_alias", "aten::view"),
    (
        "aten::_indices aten::_values aten::_values aten::_sparse_coo_tensor_with_dims_and_tensors",
        "aten::clone",
    ),
)
"""What torch's C++ calls alone, and in its place while a mode is on.

Formulas of backward passes and the adding up of gradients write in place only where no tensor can
be a subclass and nobody listens; a reshape is then a view; and a sparse gradient is copied where
it is otherwise taken apart.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of one step of one model."""

    alone: Calls
    """By torch's observer, with nothing else on."""

    listened: Calls
    """By torch's observer, under a mode that does nothing."""

    captured: Calls
    """By torchmark."""

    seed: Calls
    """By the seed's method."""


def main(names: list[str]) -> int:
    counts = {name: counts_of(MODELS[name]) for name in names or MODELS}
    print(pipe_table(HEADER, [row(name, of) for name, of in counts.items()]))
    print(f"\nall models: {total(counts)}")
    faults = [f"{name}: {fault}" for name, of in counts.items() for fault in faults_of(of)]
    for name, of in counts.items():
        changes, _ = changes_while_listened(of)
        if changes:
            print(f"{name}: torch itself, while listened to: {', '.join(changes)}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


def counts_of(make: Callable[[int], Step]) -> Counts:
    return Counts(
        alone=count(warm(make)),
        listened=count_listened(warm(make)),
        captured=count_captured(warm(make)),
        seed=count_seen(lambda: make(1), WARM_UP),
    )


def warm(make: Callable[[int], Step]) -> Step:
    step = make(1)
    for _ in range(WARM_UP):
        step()
    return step


def count_captured(step: Callable[[], object]) -> Calls:
    with tempfile.TemporaryDirectory() as folder:
        with torchmark.Capture(Path(folder) / "trace.jsonl.gz") as capture:
            step()
        trace = capture.trace()
    calls: Calls = Counter()
    for (call, place), times in trace.counts.items():
        namespace, name, overload = trace.calls[call].op.split(".")
        operator = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        phase = trace.places[place].phase
        # Between the passes (clipping of gradients, the scaler) torch's marks have no phase either.
        calls["forward" if phase == "unknown" else phase, operator] += times
    return calls


def faults_of(of: Counts) -> Iterator[str]:
    """Calls that capture lacks or has too many, and differences that nobody has explained."""
    for (phase, operator), times in (of.listened - of.captured).items():
        yield f"missing in {phase}: {times} × {operator}"
    for (phase, operator), times in (of.captured - of.listened).items():
        yield f"too many in {phase}: {times} × {operator}"
    for operator, times in changes_while_listened(of)[1].items():
        yield f"not understood: {times:+} × {operator} while a mode listens"


def changes_while_listened(of: Counts) -> tuple[list[str], dict[str, int]]:
    """Those of the table above as text, and what it does not explain."""
    difference = by_operator(of.listened)
    difference.subtract(by_operator(of.alone))
    known = []
    for alone, listened in OTHERWISE_WHILE_LISTENED:
        gone = Counter(alone.split())
        times = min(difference[listened], *(-difference[name] // gone[name] for name in gone))
        if times > 0:
            difference[listened] -= times
            difference.update({name: times * often for name, often in gone.items()})
            known.append(f"{times} × {listened} for {' + '.join(alone.split())}")
    return known, {operator: times for operator, times in difference.items() if times}


def by_operator(calls: Calls) -> Counter[str]:
    total: Counter[str] = Counter()
    for (_, operator), times in calls.items():
        total[operator] += times
    return total


HEADER = (
    "model", "calls alone", "listened to",
    *(f"{phase}: {who}" for phase in PHASES for who in ("calls", "torchmark", "seed")),
)  # fmt: skip


def row(name: str, of: Counts) -> list[str]:
    cells = [name, str(of.alone.total()), str(of.listened.total())]
    for phase in PHASES:
        there = in_phase(of.listened, phase)
        cells += [
            str(there.total()),
            share(in_phase(of.captured, phase), there),
            share(in_phase(of.seed, phase), there),
        ]
    return cells


def in_phase(calls: Calls, phase: str) -> Calls:
    return Counter({key: times for key, times in calls.items() if key[0] == phase})


def share(seen: Calls, there: Calls) -> str:
    """Of the calls that are there; one too many does not make up for one that is missing."""
    if not there:
        return "–"
    found = (seen & there).total() / there.total()
    return "100 %" if found == 1 else f"{100 * found:.1f} %"


def total(counts: dict[str, Counts]) -> str:
    there = sum(of.listened.total() for of in counts.values())
    captured = sum((of.captured & of.listened).total() for of in counts.values())
    seed = sum((of.seed & of.listened).total() for of in counts.values())
    return (
        f"{there} calls; torchmark sees {captured} ({100 * captured / there:.1f} %), "
        f"the seed's method {seed} ({100 * seed / there:.1f} %)"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

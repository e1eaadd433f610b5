"""Summarise a trace: its operators, phases and dtypes, and its calls as a tree.

The tree has the modules of the model, and the operators below the module that calls them. If the
trace does not have modules, the operators are at the top of the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchmark.analyse.call_costs import tensors_in
from torchmark.capture.traces.signatures import signature_of
from torchmark.model.trace import PHASES, RecordedCall, Trace
from torchmark.model.units import collect

_DEEPEST = 24
"""Maximum levels of modules; the rest of a longer path is one name."""

OUTSIDE = "(outside of modules)"
OUTERMOST = "(the model itself)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSummary:
    """One operator, with all of its calls."""

    op: str
    calls: int
    share: float
    distinct: int
    """Number of distinct calls."""

    dtypes: tuple[str, ...]
    """The dtypes of its tensors, the most frequent first."""


@dataclass(slots=True)
class Branch:
    """A node of the tree: a module, an operator or a signature."""

    name: str
    kind: str
    """"module", "operator" or "signature"."""

    calls: Counter[str] = field(default_factory=Counter)
    """Calls by phase, including those of nodes below."""

    branches: dict[tuple[str, str], Branch] = field(default_factory=dict)
    """Nodes below, by kind and name, in the order of their first call."""

    def below(self, kind: str, name: str) -> Branch:
        return self.branches.setdefault((kind, name), Branch(name, kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """The summary of a trace."""

    trace: Trace
    calls: int
    """Number of calls, including repeats."""

    steps: int
    """Number of steps, including repeats; 0 if the source does not know the order."""

    phases: dict[str, int]
    """Number of calls in each phase that occurs."""

    dtypes: dict[str, int]
    """Number of calls with a tensor of each dtype, the most frequent first."""

    operators: tuple[OperatorSummary, ...]
    """The most frequent first."""

    compiled: int
    """Number of calls in graphs that torch.compile compiled to kernels."""

    threads: int
    tree: Branch


def summarise_trace(trace: Trace) -> TraceSummary:
    by_call = trace.counts_by_call()
    phases = trace.counts_by_phase()
    dtypes: Counter[str] = Counter()
    for number, count in by_call.items():
        dtypes.update(dict.fromkeys(_dtypes_in(trace.calls[number]), count))
    used = {place for _, place in trace.counts}
    return TraceSummary(
        trace=trace,
        calls=by_call.total(),
        steps=sum(step.repeats for step in trace.steps),
        phases={phase: phases[phase] for phase in PHASES if phases[phase]},
        dtypes=dict(dtypes.most_common()),
        operators=_operators(trace, by_call),
        compiled=sum(
            count for (_, place), count in trace.counts.items() if trace.places[place].compiled
        ),
        threads=len({trace.places[place].thread for place in used}),
        tree=_tree(trace),
    )


def _operators(trace: Trace, by_call: Counter[int]) -> tuple[OperatorSummary, ...]:
    total = by_call.total()
    numbers = collect((trace.calls[number].op, number) for number in by_call)
    found = []
    for op, same in numbers.items():
        calls = sum(by_call[number] for number in same)
        dtypes: Counter[str] = Counter()
        for number in same:
            dtypes.update(_dtypes_in(trace.calls[number]))
        found.append(
            OperatorSummary(
                op=op,
                calls=calls,
                share=calls / total,
                distinct=len(same),
                dtypes=tuple(dtype for dtype, _ in dtypes.most_common()),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.calls, each.op)))


def _tree(trace: Trace) -> Branch:
    root = Branch("", "module")
    has_modules = any(trace.places[place].module is not None for _, place in trace.counts)
    signatures = {number: signature_of(trace.calls[number]) for number, _ in trace.counts}
    for (number, place_number), count in trace.counts.items():
        place = trace.places[place_number]
        path = _path(place.module) if has_modules else ()
        branches = [root]
        for name in path:
            branches.append(branches[-1].below("module", name))
        branches.append(branches[-1].below("operator", trace.calls[number].op))
        branches.append(branches[-1].below("signature", signatures[number]))
        for branch in branches:
            branch.calls[place.phase] += count
    outside = root.branches.pop(("module", OUTSIDE), None)
    if outside is not None:
        root.branches["module", OUTSIDE] = outside  # at the end, after the model
    return root


def _path(module: str | None) -> tuple[str, ...]:
    if module is None:
        return (OUTSIDE,)
    return tuple(module.split(".", _DEEPEST)) if module else (OUTERMOST,)


def _dtypes_in(call: RecordedCall) -> Iterator[str]:
    """The dtypes of the tensors among the arguments."""
    for tensor in tensors_in([*call.args, *call.kwargs.values()]):
        yield tensor["dtype"]

"""A trace at a glance: what was called, how often, and from where."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from torchmark.report.figures import share_text
from torchmark.report.view import Cell, Column, ColumnKind, Row, Section, Table, View
from torchmark.report.views.common import value_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchmark.analyse.trace_summary import Branch, TraceSummary
    from torchmark.model.trace import Trace

VERSION = 1
"""Of the JSON."""

_MOST_OPERATORS = 20
"""In the text; the JSON has all."""

_MOST_SIGNATURES = 6
"""Of one operator in one module."""

_DEEPEST = 12
"""Levels that are indented; what is deeper stands below the last of them."""

_SOURCES = {
    "capture": "captured",
    "cnt": "imported from cnt: text",
    "chakra": "imported from an execution trace",
    "samples": "made from operator samples",
}


def make_view(summary: TraceSummary, name: str) -> View:
    """`name` is what the file is called."""
    sections = [_operators(summary), _tree(summary)]
    if summary.trace.unseen:
        sections.append(Section(id="unseen", title="Unseen", listing=summary.trace.unseen))
    return View(
        title=f"{name}: {_origin(summary.trace)}",
        lead=tuple(_totals(summary)),
        summary=(
            f"{_number(summary.calls, 'call')} of {_number(len(summary.operators), 'operator')}, "
            f"{len(summary.trace.calls):,} distinct; {_steps(summary)}."
        ),
        sections=tuple(sections),
        data=Table(
            columns=tuple(Column(name=each) for each in ("op", "calls", "share", "distinct")),
            rows=tuple(
                value_row((each.op, each.calls, each.share, each.distinct))
                for each in summary.operators
            ),
        ),
    )


def make_record(summary: TraceSummary, name: str) -> dict[str, Any]:
    """All operators and the whole tree, for JSON."""
    trace = summary.trace
    return {
        "torchmark": "trace summary",
        "version": VERSION,
        "file": name,
        "source": trace.source,
        "torch": trace.torch,
        "python": trace.python,
        "command": trace.command,
        "calls": summary.calls,
        "distinct": len(trace.calls),
        "steps": summary.steps,
        "phases": summary.phases,
        "dtypes": summary.dtypes,
        "compiled": summary.compiled,
        "threads": summary.threads,
        "operators": [dataclasses.asdict(each) for each in summary.operators],
        "tree": [_branch_record(each) for each in summary.tree.branches.values()],
        "unseen": trace.unseen,
    }


def _branch_record(branch: Branch) -> dict[str, Any]:
    record: dict[str, Any] = {branch.kind: branch.name, "calls": dict(branch.calls)}
    if branch.branches:
        record["within"] = [_branch_record(each) for each in branch.branches.values()]
    return record


def _origin(trace: Trace) -> str:
    facts = [
        _SOURCES[trace.source],
        f"torch {trace.torch}" if trace.torch else "",
        f"Python {trace.python}" if trace.python else "",
        " ".join(trace.command) if trace.command else "",
    ]
    return ", ".join(filter(None, facts))


def _totals(summary: TraceSummary) -> Iterator[str]:
    if summary.phases.keys() - {"unknown"}:
        yield "phases: " + _shares(summary.phases, summary.calls)
    if summary.dtypes:
        yield "dtypes: " + _shares(summary.dtypes, summary.calls)
    if summary.compiled:
        yield f"{_number(summary.compiled, 'call')} in graphs that torch.compile made kernels of"
    if summary.threads > 1:
        yield f"{summary.threads} threads"


def _steps(summary: TraceSummary) -> str:
    if not summary.steps:
        return "in no known order"
    distinct = len({(step.calls, step.places) for step in summary.trace.steps})
    return f"{_number(summary.steps, 'step')}, {distinct:,} distinct"


def _shares(counts: Mapping[str, int], total: int) -> str:
    return ", ".join(
        f"{name} {_number(count, 'call')} ({share_text(count / total)})"
        for name, count in counts.items()
    )


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _operators(summary: TraceSummary) -> Section:
    rest = summary.operators[_MOST_OPERATORS:]
    calls = sum(each.calls for each in rest)
    more = (
        f"{_number(len(rest), 'more operator')}: {_number(calls, 'call')} "
        f"({share_text(calls / summary.calls)}); --json has them."
        if rest
        else ""
    )
    return Section(
        id="operators",
        title="By operator",
        table=Table(
            columns=(
                Column(name="operator"),
                Column(name="calls", kind=ColumnKind.INTEGER),
                Column(name="share", kind=ColumnKind.SHARE, hint="Of all calls"),
                Column(name="distinct", kind=ColumnKind.INTEGER, hint="Calls that differ"),
            ),
            rows=tuple(
                value_row((each.op, each.calls, each.share, each.distinct))
                for each in summary.operators[:_MOST_OPERATORS]
            ),
        ),
        footnotes=(more,) if more else (),
    )


def _tree(summary: TraceSummary) -> Section:
    phases = list(summary.phases)
    has_modules = any(kind == "module" for kind, _ in summary.tree.branches)
    headings = ["calls" if phase == "unknown" else phase for phase in phases]
    return Section(
        id="tree",
        title="Calls by module" if has_modules else "Calls by operator",
        table=Table(
            columns=(
                Column(name="module" if has_modules else "operator"),
                *(Column(name=heading, kind=ColumnKind.INTEGER) for heading in headings),
            ),
            rows=tuple(
                Row(
                    cells=(
                        Cell(value=text),
                        *(Cell(value=calls.get(phase) or None) for phase in phases),
                    ),
                    depth=min(depth, _DEEPEST),
                )
                for depth, text, calls in _rows(summary.tree, 0)
            ),
        ),
    )


def _rows(branch: Branch, depth: int) -> Iterator[tuple[int, str, Mapping[str, int]]]:
    """A line for each module, operator and signature; modules that are alike share theirs."""
    operators = [each for each in branch.branches.values() if each.kind == "operator"]
    for operator in operators:
        signatures = list(operator.branches.values())
        if len(signatures) == 1:
            yield depth, f"{operator.name}  {signatures[0].name}", operator.calls
            continue
        yield depth, operator.name, operator.calls
        for signature in signatures[:_MOST_SIGNATURES]:
            yield depth + 1, signature.name or "()", signature.calls
        if len(signatures) > _MOST_SIGNATURES:
            rest = signatures[_MOST_SIGNATURES:]
            yield depth + 1, f"… {len(rest):,} more", _sum(rest)
    for alike in _alike([each for each in branch.branches.values() if each.kind == "module"]):
        name = alike[0].name
        if len(alike) > 1:
            name += f" … {alike[-1].name}: {len(alike)} alike, each"
        yield depth, name, alike[0].calls
        yield from _rows(alike[0], depth + 1)


def _alike(modules: Sequence[Branch]) -> Iterator[list[Branch]]:
    """Neighbours whose calls are the same."""
    group: list[Branch] = []
    for module in modules:
        if group and _content(module) != _content(group[0]):
            yield group
            group = []
        group.append(module)
    if group:
        yield group


def _content(branch: Branch) -> tuple[object, ...]:
    """All that is shown of a branch but its name."""
    return (
        dict(branch.calls),
        [(key, _content(each)) for key, each in branch.branches.items()],
    )


def _sum(branches: Sequence[Branch]) -> dict[str, int]:
    phases = {phase for branch in branches for phase in branch.calls}
    return {phase: sum(branch.calls[phase] for branch in branches) for phase in phases}

"""The summary of a trace: what was called, how often, and from where."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from torchmark.analyse.trace_summary import Branch, OperatorSummary, TraceSummary
from torchmark.model.trace import Trace
from torchmark.report.figures import number_text, share_text
from torchmark.report.view import Field, Kind, Row, Section, View, data_table, field, make_table

if TYPE_CHECKING:
    _Line = tuple[int, str, Mapping[str, int]]
    """Its depth, its name, and its calls by phase."""

VERSION = 1
"""Version of the JSON."""

_MOST_OPERATORS = 20
"""Maximum number of operators in text; the JSON has all."""

_MOST_SIGNATURES = 6
"""Maximum number of signatures of one operator in one module."""

_DEEPEST = 12
"""Maximum number of indented levels; deeper ones have the same indentation."""

_SOURCES = {
    "capture": "captured",
    "cnt": "imported from cnt: text",
    "chakra": "imported from an execution trace",
    "samples": "made from operator samples",
}


def make_view(summary: TraceSummary, name: str) -> View:
    """The view of a trace; `name` is the name of the file."""
    unseen = Section("unseen", "Not captured", listing=summary.trace.unseen)
    operators = number_text(len(summary.operators), "operator")
    return View(
        title=f"{name}: {_origin(summary.trace)}",
        lead=tuple(_totals(summary)),
        summary=(
            f"{number_text(summary.calls, 'call')} of {operators}, "
            f"{len(summary.trace.calls):,} distinct; {_steps(summary)}."
        ),
        sections=(_operators(summary), _tree(summary), unseen),
        data=data_table(
            ("op", "calls", "share", "distinct"), map(dataclasses.asdict, summary.operators)
        ),
    )


def make_record(summary: TraceSummary, name: str) -> dict[str, Any]:
    """The JSON record, with all operators and the whole tree."""
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
        calls = number_text(summary.compiled, "call")
        yield f"{calls} in graphs that torch.compile compiled"
    if summary.threads > 1:
        yield f"{summary.threads} threads"


def _steps(summary: TraceSummary) -> str:
    if not summary.steps:
        return "order not known"
    distinct = len({(step.calls, step.places) for step in summary.trace.steps})
    return f"{number_text(summary.steps, 'step')}, {distinct:,} distinct"


def _shares(counts: Mapping[str, int], total: int) -> str:
    return ", ".join(
        f"{name} {number_text(count, 'call')} ({share_text(count / total)})"
        for name, count in counts.items()
    )


def _operators(summary: TraceSummary) -> Section:
    rest = summary.operators[_MOST_OPERATORS:]
    calls = sum(each.calls for each in rest)
    more = (
        f"{number_text(len(rest), 'more operator')}: {number_text(calls, 'call')} "
        f"({share_text(calls / summary.calls)}); see --json."
        if rest
        else ""
    )
    fields: list[Field[OperatorSummary]] = [
        field("operator", lambda each: each.op),
        field("calls", lambda each: each.calls, Kind.INTEGER),
        field("share", lambda each: each.share, Kind.SHARE, "Share of all calls"),
        field("distinct", lambda each: each.distinct, Kind.INTEGER, "Number of distinct calls"),
    ]
    table = make_table(summary.operators[:_MOST_OPERATORS], fields)
    return Section("operators", "By operator", table=table, footnotes=(more,) if more else ())


def _tree(summary: TraceSummary) -> Section:
    def show_calls(phase: str, line: _Line) -> int | None:
        return line[2].get(phase) or None

    what = "module" if any(kind == "module" for kind, _ in summary.tree.branches) else "operator"
    fields: list[Field[_Line]] = [field(what, lambda line: line[1])]
    for phase in summary.phases:
        name = "calls" if phase == "unknown" else phase
        fields.append(field(name, partial(show_calls, phase), Kind.INTEGER))
    table = make_table(
        _lines(summary.tree, 0), fields, lambda line: Row(depth=min(line[0], _DEEPEST))
    )
    return Section("tree", f"Calls by {what}", table=table)


def _lines(branch: Branch, depth: int) -> Iterator[_Line]:
    """A line for each module, operator and signature; consecutive equal modules share lines."""
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
            calls = sum((each.calls for each in rest), Counter[str]())
            yield depth + 1, f"… {len(rest):,} more", calls
    modules = [each for each in branch.branches.values() if each.kind == "module"]
    for _, neighbours in groupby(modules, _content):
        first, *alike = neighbours
        name = first.name
        if alike:
            name += f" … {alike[-1].name} ({len(alike) + 1} equal modules, each)"
        yield depth, name, first.calls
        yield from _lines(first, depth + 1)


def _content(branch: Branch) -> tuple[object, ...]:
    """Everything that is shown of a branch except its name."""
    return (
        dict(branch.calls),
        [(key, _content(each)) for key, each in branch.branches.items()],
    )

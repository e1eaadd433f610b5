"""A trace at a glance, for a terminal or a pipe: what was called, how often, and from where."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

from torchmark.report.columns import lined_up
from torchmark.report.figures import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchmark.analyse.trace_summary import Branch, OperatorSummary, TraceSummary
    from torchmark.model.trace import Trace

_MOST_OPERATORS = 20
"""In the table; the tree and --json have all."""

_MOST_SIGNATURES = 6
"""Of one operator in one module."""

_NARROWEST = 24
"""Columns for a name in the tree, however many figures there are."""

_INDENT = "  "
_SIZES = re.compile(r"\[[^\[\]]*\]|\([^()]*\)")
_KEPT = "\u00a0"
"""A blank at which no line ends, so that the sizes of a tensor stay together."""

_SOURCES = {
    "capture": "captured",
    "cnt": "imported from cnt: text",
    "chakra": "imported from an execution trace",
    "samples": "made from operator samples",
}


def render(summary: TraceSummary, name: str, *, width: int = 80) -> str:
    """The text, without escapes, in lines of at most `width` where words allow."""
    parts = [
        _wrapped([f"{name}: {_origin(summary.trace)}", *_totals(summary)], width),
        _operators(summary.operators, summary.calls, width),
        _tree(summary, width),
        _wrapped([f"UNSEEN {text}" for text in summary.trace.unseen], width),
    ]
    return printable("\n\n".join("\n".join(part) for part in parts if part)) + "\n"


def _origin(trace: Trace) -> str:
    facts = [
        _SOURCES[trace.source],
        f"torch {trace.torch}" if trace.torch else "",
        f"Python {trace.python}" if trace.python else "",
        " ".join(trace.command) if trace.command else "",
    ]
    return ", ".join(filter(None, facts))


def _totals(summary: TraceSummary) -> Iterator[str]:
    trace = summary.trace
    yield (
        f"{_number(summary.calls, 'call')} of {_number(len(summary.operators), 'operator')}, "
        f"{len(trace.calls):,} distinct; {_steps(summary)}"
    )
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
        f"{name} {_number(count, 'call')} ({_percent(count / total)})"
        for name, count in counts.items()
    )


def _operators(operators: Sequence[OperatorSummary], total: int, width: int) -> list[str]:
    if not operators:
        return []
    rows = [
        (each.op, [f"{each.calls:,}", _percent(each.share), f"{each.distinct:,}"])
        for each in operators[:_MOST_OPERATORS]
    ]
    lines = lined_up(["calls", "share", "distinct"], [("operator", rows)], width)
    rest = operators[_MOST_OPERATORS:]
    if rest:
        calls = sum(each.calls for each in rest)
        lines.append(
            f"{_INDENT}… {_number(len(rest), 'more operator')}, {_number(calls, 'call')} "
            f"({_percent(calls / total)})"
        )
    return lines


def _tree(summary: TraceSummary, width: int) -> list[str]:
    phases = list(summary.phases)
    if not phases:
        return []
    rows = list(_rows(summary.tree, 1))
    has_modules = any(kind == "module" for kind, _ in summary.tree.branches)
    title = "calls by module" if has_modules else "calls by operator"
    headings = [phase if phase != "unknown" else "calls" for phase in phases]
    cells = [
        [f"{branch_calls[phase]:,}" if branch_calls.get(phase) else "" for phase in phases]
        for _, _, branch_calls in rows
    ]
    widths = [
        max(len(heading), *(len(row[column]) for row in cells))
        for column, heading in enumerate(headings)
    ]
    room = max(_NARROWEST, width - sum(widths) - len(_INDENT) * len(widths))
    lines = _line(title, 0, headings, widths, room)
    for (depth, text, _), row in zip(rows, cells, strict=True):
        lines += _line(text, depth, row, widths, room)
    return lines


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


def _line(
    text: str, depth: int, cells: Sequence[str], widths: Sequence[int], room: int
) -> list[str]:
    """A name at its depth and figures at the right; a long name goes on below, further in."""
    indent = _INDENT * min(depth, 12)
    lines = textwrap.wrap(
        _SIZES.sub(lambda match: match[0].replace(" ", _KEPT), text),
        room,
        initial_indent=indent,
        subsequent_indent=indent + 2 * _INDENT,
        break_on_hyphens=False,
    )
    first, *rest = [line.replace(_KEPT, " ") for line in lines or [indent]]
    figures = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    return [_INDENT.join([first.ljust(room), *figures]).rstrip(), *rest]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _wrapped(texts: Sequence[str], width: int) -> list[str]:
    lines = []
    for text in texts:
        lines += textwrap.wrap(printable(text), width, subsequent_indent="  ")
    return lines

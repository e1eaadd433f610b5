"""A trace at a glance as JSON: all operators, and the whole tree."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchmark.analyse.trace_summary import Branch, TraceSummary

VERSION = 1


def render(summary: TraceSummary, name: str) -> str:
    trace = summary.trace
    record = {
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
        "operators": [
            {
                "op": each.op,
                "calls": each.calls,
                "share": each.share,
                "distinct": each.distinct,
                "dtypes": each.dtypes,
            }
            for each in summary.operators
        ],
        "tree": [_branch(each) for each in summary.tree.branches.values()],
        "unseen": trace.unseen,
    }
    return json.dumps(record, indent=2) + "\n"


def _branch(branch: Branch) -> dict[str, Any]:
    record: dict[str, Any] = {branch.kind: branch.name, "calls": dict(branch.calls)}
    if branch.branches:
        record["within"] = [_branch(each) for each in branch.branches.values()]
    return record

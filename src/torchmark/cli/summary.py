"""`torchmark summary TRACE`: what a trace has, without running anything of it."""

from __future__ import annotations

import json

import click

from torchmark.analyse.trace_summary import summarise_trace
from torchmark.capture.traces.loading import load_trace
from torchmark.cli.stores import columns
from torchmark.report.formats import text
from torchmark.report.views.trace_summary import make_record, make_view


@click.command("summary")
@click.argument("trace", metavar="TRACE")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(trace: str, as_json: bool) -> None:
    """Show the operators of a trace: how often, on what, in which phase and module.

    TRACE is a file of torchmark capture, text with Operator: and cnt: lines, or the JSON of
    PyTorch's ExecutionTraceObserver, compressed by gzip or not. Nothing is run, and torch is not
    needed.

    \b
    torchmark summary trace.jsonl.gz
    torchmark summary trace.jsonl.gz --json | jq .operators
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    summary = summarise_trace(load_trace(trace))
    if as_json:
        click.echo(json.dumps(make_record(summary, trace), indent=2))
    else:
        click.echo(text.render(make_view(summary, trace), columns()), nl=False)

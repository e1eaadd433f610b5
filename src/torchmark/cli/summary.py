"""`torchmark summary TRACE`: what a trace has, without running anything of it."""

from __future__ import annotations

import click

from torchmark.analyse.trace_summary import summary_of
from torchmark.capture.traces.loading import load_trace
from torchmark.cli.stores import columns
from torchmark.report import summary_json, summary_text


@click.command("summary")
@click.argument("trace", metavar="TRACE")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def command(trace: str, as_json: bool) -> None:
    """Show the operators of a trace: how often, on what, in which phase and module.

    TRACE is a file of torchmark capture, text with Operator: and cnt: lines, or the JSON of
    PyTorch's ExecutionTraceObserver, packed by gzip or not. Nothing is run, and torch is not
    needed.

    \b
    torchmark summary trace.jsonl.gz
    torchmark summary trace.jsonl.gz --json | jq .operators
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    summary = summary_of(load_trace(trace))
    text = (
        summary_json.render(summary, trace)
        if as_json
        else summary_text.render(summary, trace, width=columns())
    )
    click.echo(text, nl=False)

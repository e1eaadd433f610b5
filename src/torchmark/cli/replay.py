"""`torchmark replay`: the operators of a captured model, run again and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from torchmark.cli.following import (
    RunOptions,
    import_option,
    metric_options,
    metrics_of,
    report_run,
    run_options,
)
from torchmark.cli.shell import STANDARD_OUTPUT, import_from_here
from torchmark.commands.replay import replay
from torchmark.commands.spine import Listener, LiveFile
from torchmark.engine.replaying import BUDGET
from torchmark.model.result import Metric
from torchmark.model.run import TIME_LIMIT, Run
from torchmark.model.run_settings import Backend, ReplayMode

_BACKENDS = ",".join(backend.value for backend in Backend)
_MODES = [mode.value for mode in ReplayMode]


@click.command("replay")
@click.argument("trace", metavar="[TRACE]", type=click.Path(path_type=Path), required=False)
@click.option("-k", "pattern", metavar="OP", default="", help="Replay only calls with these words.")
@click.option("--top", type=int, default=20, show_default=True, metavar="N",
              help="Show the N calls that take the most time.")  # fmt: skip
@click.option("--mode", type=click.Choice(_MODES),
              help="Measure each call by itself (hot), or all in their order. [default: order, "
              "unless the trace has none, or --backend or --count need hot]")  # fmt: skip
@click.option("--backend", "backends", default="eager", show_default=True, metavar="NAMES",
              help=f"Backends that execute the calls: some of {_BACKENDS}.")  # fmt: skip
@metric_options
@click.option("--budget", type=float, default=BUDGET, show_default=True, metavar="S",
              help="Measure each call for S seconds at most.")  # fmt: skip
@click.option("--threads", type=int, metavar="N",
              help="Run every call with N threads. [default: as the captured model]")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N",
              help="Seed from which inputs are made.")  # fmt: skip
@click.option("--timeout", type=float, default=TIME_LIMIT, show_default=True, metavar="S",
              help="Stop a call after S seconds.")  # fmt: skip
@import_option
@run_options()
def replay_command(
    asked: RunOptions, backends: str, time: bool, count: bool, **options: Any
) -> None:
    """Run the operator calls of a trace again, and show where the time of a step goes.

    Inputs are made from the record. Each distinct call runs in a process of its own: one that
    cannot be replayed is a row with its reason. A trace is a file of `torchmark capture`, or one of
    the other forms that `torchmark summary` reads. Every result is stored at once: after Ctrl-C or
    a crash, --resume measures what is missing, without the trace.

    \b
    torchmark replay trace.jsonl.gz
    torchmark replay trace.jsonl.gz -k convolution --backend eager,compile,ort
    torchmark replay trace.jsonl.gz --threads 1 --html step.html
    torchmark replay detector.jsonl.gz --import torchvision
    """
    import_from_here()
    wanted: dict[str, Any] = {}
    if asked.resume is None:
        wanted = {
            **options,
            "backends": [name.strip() for name in backends.split(",") if name.strip()],
            "metrics": metrics_of(time=time, count=count) or [Metric.TIME],
        }
    csv = asked.files["csv"]

    def measure(*, progress: Listener, **keeping: Any) -> Run:
        with LiveFile(None if csv == STANDARD_OUTPUT else csv, "csv", progress) as live:
            return replay(**wanted, **keeping, progress=live.hear)

    report_run(asked, measure)

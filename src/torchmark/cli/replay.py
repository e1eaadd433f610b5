"""`torchmark replay`: run the operator calls of a captured model again, and measure them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from torchmark.arguments import check_count, check_positive
from torchmark.cli.following import (
    RunOptions,
    import_option,
    metric_options,
    metrics_of,
    report_run,
    run_options,
)
from torchmark.cli.shell import STANDARD_OUTPUT, checked, import_from_here
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
@click.option("-k", "pattern", metavar="PATTERN", default="",
              help="Replay only calls with these words, e.g. 'addmm or conv'.")  # fmt: skip
@click.option("--top", type=int, default=20, show_default=True, metavar="N",
              help="Show the N slowest calls in the terminal.",
              callback=checked(check_count))  # fmt: skip
@click.option("--mode", type=click.Choice(_MODES),
              help="Repeat each call alone (hot), or run the calls of a step in order.  [default: "
              "order; hot with --count, other backends, or a trace without order]")  # fmt: skip
@click.option("--backend", "backends", default="eager", show_default=True, metavar="NAMES",
              help=f"Backends to run the calls with, out of {_BACKENDS}.")  # fmt: skip
@metric_options
@click.option("--budget", type=float, default=BUDGET, show_default=True, metavar="SECONDS",
              help="Time each call for at most SECONDS.",
              callback=checked(check_positive))  # fmt: skip
@click.option("--threads", type=int, metavar="N",
              help="Run every call with N threads.  [default: as captured]",
              callback=checked(check_count))  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N",
              help="Seed of the random inputs.")  # fmt: skip
@click.option("--timeout", type=float, default=TIME_LIMIT, metavar="SECONDS",
              help=f"Stop a call after SECONDS.  [default: {TIME_LIMIT:g}]",
              callback=checked(check_positive))  # fmt: skip
@import_option
@run_options()
def replay_command(
    asked: RunOptions, backends: str, time: bool, count: bool, **options: Any
) -> None:
    """Run the operator calls of a trace again, and show where the time of a step goes.

    The inputs of each call are made from the trace: same shapes, dtypes and strides, random
    contents. Each distinct call first runs in its own process. A call that fails becomes a row with
    the reason, and the others are still measured. TRACE is a file from `torchmark capture`, or in
    another format that `torchmark summary` reads. Every result is stored as soon as it exists:
    after Ctrl-C or a crash, --resume measures what is missing, and does not need the trace.

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

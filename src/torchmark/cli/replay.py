"""`torchmark replay`: the operators of a captured model, run again and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.abilities import check_that_counting_works
from torchmark.cli.following import files_in, refuse_beside_resume, report_run, run_options
from torchmark.commands.live_files import LiveFile
from torchmark.commands.replay import replay
from torchmark.engine.replaying import BUDGET
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run import TIME_LIMIT
from torchmark.model.run_settings import Backend, ReplayMode

if TYPE_CHECKING:
    from torchmark.commands.spine import Listener
    from torchmark.model.run import Run

_BACKENDS = ",".join(backend.value for backend in Backend)
_MODES = [mode.value for mode in ReplayMode]


@click.command("replay")
@click.argument("trace", metavar="[TRACE]", type=click.Path(path_type=Path), required=False)
@click.option("-k", "pattern", metavar="OP", default="", help="Replay only calls with these words.")
@click.option("--top", type=int, default=20, show_default=True, metavar="N",
              help="Show the N calls that take the most time.")  # fmt: skip
@click.option("--mode", type=click.Choice(_MODES), default="hot", show_default=True,
              help="Measure each call by itself, or all in their order.")  # fmt: skip
@click.option("--backend", "backends", default="eager", show_default=True, metavar="NAMES",
              help=f"Backends that execute the calls: some of {_BACKENDS}.")  # fmt: skip
@click.option("--time", is_flag=True, help="Take times, and do not count unless asked.")
@click.option("--count", is_flag=True, help="Count instructions, and take no times unless asked.")
@click.option("--budget", type=float, default=BUDGET, show_default=True, metavar="S",
              help="Measure each call for S seconds at most.")  # fmt: skip
@click.option("--threads", type=int, default=1, show_default=True, metavar="N",
              help="Run every call with N threads.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N",
              help="Seed from which inputs are made.")  # fmt: skip
@click.option("--timeout", type=float, default=TIME_LIMIT, show_default=True, metavar="S",
              help="Stop a call after S seconds.")  # fmt: skip
@run_options
def command(
    trace: Path | None, place: str | None, tags: tuple[str, ...], resume: str | None,
    quiet: bool, **options: Any,
) -> None:  # fmt: skip
    """Run the operator calls of a trace again, and show where the time of a step goes.

    Inputs are made from the record. Each distinct call runs in a process of its own: one that
    cannot be replayed is a row with its reason. A trace is a file of `torchmark capture`, or one of
    the other forms that `torchmark summary` reads. Every result is stored at once: after Ctrl-C or
    a crash, --resume measures what is missing, without the trace.

    \b
    torchmark replay trace.jsonl.gz
    torchmark replay trace.jsonl.gz -k convolution --backend eager,compile,ort
    torchmark replay trace.jsonl.gz --mode order --html step.html
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = files_in(options)
    if resume is not None:
        if trace is not None:
            raise InvalidArgumentError("--resume goes on without the trace; leave TRACE out")
        refuse_beside_resume({"tag": tags, **_given(options)})
        asked: dict[str, Any] = {"resume": resume}
    else:
        asked = {"trace": trace, "tags": tags, **_asked(**options)}

    def measure(progress: Listener) -> Run:
        with LiveFile(files["csv"], "csv", progress) as live:
            return replay(store=place, progress=live.hear, **asked)

    report_run(
        measure,
        place=place,
        files=files,
        quiet=quiet,
    )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that stand on the command line, without those that have their default."""
    source = click.get_current_context().get_parameter_source
    return {
        name: value
        for name, value in options.items()
        if source(name) is click.core.ParameterSource.COMMANDLINE
    }


def _asked(*, backends: str, time: bool, count: bool, **options: Any) -> dict[str, Any]:
    """The options under the names that `torchmark.replay` has for them."""
    if count:
        check_that_counting_works()
    metrics = [Metric.TIME] if time or not count else []
    return {
        "backends": [name.strip() for name in backends.split(",") if name.strip()],
        "metrics": [*metrics, *([Metric.INSTRUCTIONS] if count else [])],
        **options,
    }

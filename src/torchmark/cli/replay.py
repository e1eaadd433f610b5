"""`torchmark replay`: the operators of a captured model, run again and measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.analyse.replay import understood
from torchmark.arguments import checked_count, checked_positive
from torchmark.capture.traces.loading import load_trace
from torchmark.cli.abilities import check_that_counting_works
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import check_writable, written
from torchmark.cli.replay_run import Asked, replay_trace
from torchmark.cli.stores import columns
from torchmark.engine.machine import free_memory
from torchmark.engine.replaying import BUDGET, ReplayWish
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.errors import InvalidArgumentError
from torchmark.model.replay_record import Backend, ReplayMode
from torchmark.model.result import Metric, Status
from torchmark.report import replay_csv, replay_page, replay_text
from torchmark.report.replay_text import TOP

if TYPE_CHECKING:
    from torchmark.analyse.replay import UnderstoodReplay

_RENDERERS = {"csv": replay_csv.render, "html": replay_page.render}
_MODES = [mode.value for mode in ReplayMode]
_BACKENDS = ",".join(backend.value for backend in Backend)

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("replay")
@click.argument("trace_file", metavar="TRACE", type=click.Path(path_type=Path))
@click.option("-k", "pattern", metavar="OP", default="", help="Only calls with these words.")
@click.option("--top", type=int, default=TOP, show_default=True, help="Calls that are shown.")
@click.option("--mode", type=click.Choice(_MODES), default="hot", show_default=True,
              help="Each call by itself, or all in their order.")  # fmt: skip
@click.option("--backend", "backends", default="eager", show_default=True, metavar="NAMES",
              help=f"Who executes them: some of {_BACKENDS}.")  # fmt: skip
@click.option("--time", "time", is_flag=True, help="Take times, and do not count unless asked.")
@click.option("--count", "count", is_flag=True, help="Count, and take no times unless asked.")
@click.option("--budget", type=float, default=BUDGET, show_default=True, help="Seconds per call.")
@click.option("--threads", type=int, default=1, show_default=True, metavar="N")
@click.option("--seed", type=int, default=0, show_default=True, help="That inputs are made with.")
@click.option("--timeout", type=float, default=TIME_LIMIT, show_default=True, metavar="S",
              help="Seconds after which a call is given up.")  # fmt: skip
@click.option("--csv", "csv_file", type=_file, help="A line for each call, as they come.")
@click.option("--html", "html_file", type=_file, help="One page, with everything in it.")
@click.option("--quiet", is_flag=True, help="Show nothing but the result.")
def command(
    trace_file: Path,
    pattern: str,
    top: int,
    mode: str,
    backends: str,
    time: bool,
    count: bool,
    budget: float,
    threads: int,
    seed: int,
    timeout: float,
    csv_file: Path | None,
    html_file: Path | None,
    quiet: bool,
) -> None:
    """Run the operator calls of a trace again, and say where the time of a step goes.

    Inputs are made from the record. Each distinct call runs in a process of its own: what cannot
    be replayed is a row with its reason. A trace comes from `torchmark capture`, or is one of the
    forms that `torchmark summary` reads.

    \b
    torchmark replay trace.jsonl.gz
    torchmark replay trace.jsonl.gz -k convolution --backend eager,compile,ort
    torchmark replay trace.jsonl.gz --mode order --html step.html
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    chosen = _chosen(backends)
    how = ReplayMode(mode)
    _check_together(how, chosen, count=count)
    wish = ReplayWish(
        kinds=_kinds(time=time, count=count),
        backends=chosen,
        threads=checked_count("--threads", threads),
        seed=seed,
        budget=checked_positive("--budget", budget),
        timeout=checked_positive("--timeout", timeout),
        memory=free_memory(),
    )
    checked_count("--top", top)
    files = {"csv": csv_file, "html": html_file}
    check_writable(files.values())
    if count:
        check_that_counting_works()
    trace = load_trace(trace_file)
    asked = Asked(file=trace_file, trace=trace, pattern=pattern, mode=how, wish=wish, csv=csv_file)
    replay, was_interrupted = replay_trace(asked, quiet=quiet)
    table = understood(replay)
    click.echo(replay_text.render(table, top=top, width=columns()), nl=False)
    if was_interrupted:
        click.echo("torchmark: interrupted; what was measured until then is above", err=True)
    wrote_all = written(
        files,
        lambda form: _RENDERERS[form](table),
        remedy=lambda _: "the table above has the figures",
    )
    _exit(table, was_interrupted=was_interrupted, wrote_all=wrote_all)


def _chosen(text: str) -> tuple[Backend, ...]:
    """
    >>> _chosen("compile,eager")
    (<Backend.COMPILE: 'compile'>, <Backend.EAGER: 'eager'>)
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = {backend.value: backend for backend in Backend}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        what = f"there is no backend {unknown[0]!r}" if unknown else "no backend is named"
        raise InvalidArgumentError(f"{what}; --backend takes some of {_BACKENDS}")
    return tuple(known[name] for name in dict.fromkeys(names))


def _check_together(mode: ReplayMode, backends: tuple[Backend, ...], *, count: bool) -> None:
    if mode is ReplayMode.ORDER and (backends != (Backend.EAGER,) or count):
        raise InvalidArgumentError(
            "--mode order takes times with eager alone: what a call leaves in the caches for the "
            "next is what it shows; use --mode hot for counts and other backends"
        )
    if count and Backend.EAGER not in backends:
        raise InvalidArgumentError(
            "--count counts eager calls: to compile or to export under callgrind takes minutes; "
            "add eager to --backend"
        )


def _kinds(*, time: bool, count: bool) -> tuple[Metric, ...]:
    if not count:
        return (Metric.TIME,)
    return (Metric.TIME, Metric.INSTRUCTIONS) if time else (Metric.INSTRUCTIONS,)


def _exit(table: UnderstoodReplay, *, was_interrupted: bool, wrote_all: bool) -> None:
    if was_interrupted:
        raise SystemExit(ExitCode.INTERRUPTED)
    if not wrote_all:
        raise SystemExit(ExitCode.ENVIRONMENT)
    if any(result.status is Status.FAILED for _, result in table.failures()):
        raise SystemExit(ExitCode.CASE_FAILED)

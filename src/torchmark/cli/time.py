"""`torchmark time`: statements measured side by side, like `python -m timeit`, for torch."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from torchmark.analyse.ratios import Ratio, ratio_of
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.messages import failure_message
from torchmark.cli.results import colours_wanted, doubt_lines
from torchmark.cli.statements import statement_names
from torchmark.compare import Compare
from torchmark.engine.local_torch import import_torch
from torchmark.engine.user_errors import as_user_error
from torchmark.errors import TorchmarkError
from torchmark.model.units import select_unit
from torchmark.timers import Timer
from torchmark.together import measure_together
from torchmark_probe.loops.intervals import median
from torchmark_probe.loops.snippets import run_globally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.model.measurement import Measurement


@click.command("time")
@click.argument("statements", metavar="STMT [STMT…]", nargs=-1, required=True)
@click.option(
    "-s",
    "--setup",
    multiple=True,
    help="Run before each statement; its names are local. Several are joined as lines.",
)
@click.option(
    "--global-setup",
    default="",
    help="Run once before all; its names are global. C++: includes and functions.",
)
@click.option(
    "--language",
    type=click.Choice(["py", "cpp"]),
    default="py",
    show_default=True,
    help="C++ is compiled first, all statements together; the setup runs for every sample.",
)
@click.option("--threads", default=1, show_default=True, help="Threads that torch may use.")
@click.option(
    "--min-run-time",
    default=0.2,
    show_default=True,
    help="Seconds of samples per statement; a noisy machine takes up to ten times as long.",
)
@click.option("--description", help="Title of the column.")
@click.option("--json", "as_json", is_flag=True, help="Print every sample as JSON.")
def command(
    statements: tuple[str, ...],
    setup: tuple[str, ...],
    global_setup: str,
    language: str,
    threads: int,
    min_run_time: float,
    description: str | None,
    as_json: bool,
) -> None:
    """Time one statement, or compare several.

    Several statements are measured in rounds, one short block of each in random order, so that
    a busy machine slows all of them alike. torch is imported for you. They run in this process:
    what crashes or never ends takes it along; `torchmark run` gives every case its own.

    \b
    torchmark time "x + x" --setup "x = torch.ones(64)"
    torchmark time "x.sum(0)" "torch.sum(x, 0)" "x.T.sum(1)" -s "x = torch.ones(64, 64)"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    try:
        shared = _shared_by_all(language, global_setup)
        timers = [
            Timer(
                statement,
                setup="\n".join(setup) or "pass",
                **shared,
                language=language,
                sub_label=name,
                description=description,
                num_threads=threads,
            )
            for statement, name in zip(statements, statement_names(statements), strict=True)
        ]
        # What the statements print must not mix with the result.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            measurements = measure_together(timers, min_run_time=min_run_time)
    except TorchmarkError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's statement raises
        click.echo(f"torchmark: {failure_message(error)}", err=True)
        sys.exit(ExitCode.CASE_FAILED)
    ratios = [ratio_of(other, measurements[0]) for other in measurements[1:]]
    click.echo(_json(measurements, ratios) if as_json else _text(measurements, ratios))


def _shared_by_all(language: str, global_setup: str) -> dict[str, Any]:
    """What the global setup becomes: Python's is run once, C++'s is compiled with each."""
    if language == "cpp":
        return {"global_setup": global_setup}
    namespace: dict[str, Any] = {"torch": import_torch()}
    with as_user_error():
        run_globally(global_setup, namespace)
    return {"globals": namespace}


def _text(measurements: Sequence[Measurement], ratios: Sequence[Ratio]) -> str:
    compare = Compare(measurements)
    if len(measurements) > 1 and colours_wanted():
        compare.colorize()
    lines = [str(compare).rstrip("\n"), ""]
    lines += _ratio_lines(measurements, ratios) if ratios else _interval_lines(measurements[0])
    return "\n".join([*lines, *doubt_lines(measurements)])


def _interval_lines(measurement: Measurement) -> list[str]:
    unit, scale = select_unit(measurement.median)
    low, high = (bound / scale for bound in measurement.median_interval)
    cpu = median(measurement.cpu_times or [0.0]) / scale
    interval = f"95 % interval {low:.4g} to {high:.4g}"
    return [
        f"Median {measurement.median / scale:.4g} {unit}, {interval}; CPU time {cpu:.4g} {unit}.",
        f"{len(measurement.times)} samples of {measurement.number_per_run} runs.",
    ]


def _ratio_lines(measurements: Sequence[Measurement], ratios: Sequence[Ratio]) -> list[str]:
    width = max(len(other.as_row_name) for other in measurements[1:])
    lines = [f"Ratio to {measurements[0].as_row_name}, with its 95 % interval:"]
    for other, ratio in zip(measurements[1:], ratios, strict=True):
        low, high = ratio.interval
        lines.append(
            f"  {other.as_row_name.ljust(width)}  {ratio.value:.3f}  "
            f"({low:.3f} to {high:.3f})  {ratio.verdict}"
        )
    return lines


def _json(measurements: Sequence[Measurement], ratios: Sequence[Ratio]) -> str:
    record = {
        "torchmark": "measurements",
        "version": 1,
        "results": [_summary(measurement) for measurement in measurements],
        "measurements": [json.loads(measurement.to_json()) for measurement in measurements],
        "ratios_to_first": [
            {
                "statement": other.as_row_name,
                "value": ratio.value,
                "interval": list(ratio.interval),
                "rounds": ratio.rounds,
                "verdict": ratio.verdict,
            }
            for other, ratio in zip(measurements[1:], ratios, strict=True)
        ],
    }
    return json.dumps(record, indent=2, allow_nan=False)


def _summary(measurement: Measurement) -> dict[str, Any]:
    """The figures that most readers of the JSON are after; times in seconds."""
    return {
        "statement": measurement.as_row_name,
        "median": measurement.median,
        "median_interval": list(measurement.median_interval),
        "doubts": [str(doubt) for doubt in measurement.doubts],
    }

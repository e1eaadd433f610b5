"""`torchmark sweep`: measure a model over input scales and job configs, into one CSV file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from torchmark.analyse.sweep import rows_of
from torchmark.arguments import check_count
from torchmark.cli.following import (
    RunOptions,
    refuse_with_resume,
    report_run,
    run_options,
    timeout_option,
)
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    check_writable,
    checked,
    import_from_here,
    tell_written,
    warn,
)
from torchmark.commands.sweep import sweep
from torchmark.commands.sweep_runs import kernels_file
from torchmark.define.sweep.axes import setting
from torchmark.errors import InvalidArgumentError, MissingToolError
from torchmark.files import write_whole
from torchmark.model.result import Metric
from torchmark.model.run import Run
from torchmark.model.run_settings import Phase
from torchmark.report import view_of
from torchmark.report.figures import number_text
from torchmark.report.formats.vega import png_of

_PICTURES = ("scaling", "speedup", "roofline")
"""The charts of the page that are also written as PNG files."""


@click.command("sweep")
@click.argument("spec_file", metavar="SPEC.py", required=False, type=click.Path(path_type=Path))
@click.option(
    "--where", default="", metavar="EXPR", help="Measure only cases for which EXPR is true."
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="DIM=SIZES",
    help="Measure other sizes of a dimension, e.g. batch=1,8; may be repeated.",
)
@click.option(
    "--sample",
    type=int,
    metavar="N",
    help="Measure a random subset of N points (fixed seed).",
    callback=checked(check_count),
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([phase.value for phase in Phase]),
    help="What one run computes; may be repeated.  [default: forward]",
)
@click.option(
    "--kernels",
    is_flag=True,
    help="Also write the calls and the time of each kernel to a second CSV file.",
)
@timeout_option
@run_options()
def sweep_command(asked: RunOptions, spec_file: Path | None, **options: Any) -> None:
    """Measure a model at many sizes, in several dtypes and backends.

    SPEC.py defines model, model_init_params, input_params, input_scales and job_configs. The
    backends are pt (eager PyTorch), compile (torch.compile) and ort (ONNX Runtime). Each row is
    written as soon as it is measured, to the file of --csv or to SPEC.csv in the current directory.
    To continue a sweep that was interrupted, run the same command again.

    \b
    torchmark sweep linear.py --csv linear.csv --html linear.html
    torchmark sweep linear.py --set batch=1,8,64 --where "backend != 'ort'"
    torchmark sweep linear.py --sample 20 --phase forward --phase backward
    """
    import_from_here()
    csv = asked.files["csv"]
    if csv != STANDARD_OUTPUT:
        del asked.files["csv"]  # the sweep writes it itself, row by row
    wanted: dict[str, Any] = {}
    if asked.resume is None:
        wanted = _wanted(spec_file, csv, **options)
    elif csv not in (None, STANDARD_OUTPUT):
        refuse_with_resume("--csv")
    report_run(
        asked,
        partial(sweep, **wanted),
        write_more=lambda run: _write_pictures(run, asked.files["html"], quiet=asked.quiet),
    )


def _wanted(
    spec_file: Path | None,
    csv: Path | None,
    *,
    settings: tuple[str, ...],
    phases: tuple[str, ...],
    **others: Any,
) -> dict[str, Any]:
    """The options under the names that `torchmark.sweep` has for them."""
    if spec_file is None:
        raise InvalidArgumentError(
            "name the SPEC.py to sweep, or a run to continue with --resume RUN"
        )
    if csv is None:
        csv = Path(f"{spec_file.stem}.csv")
    check_writable([csv])
    return {
        "spec": spec_file,
        "set": dict(map(setting, settings)),
        "phases": phases or (Phase.FORWARD,),
        "csv": None if csv == STANDARD_OUTPUT else csv,
        **others,
    }


def _write_pictures(run: Run, page: Path | None, *, quiet: bool) -> bool:
    """Print where the rows are, and draw the charts of the page; return whether that worked."""
    csv = run.settings.get("csv")
    if csv is not None:
        rows = Path(os.path.relpath(csv))
        tell_written(rows, number_text(len(rows_of(run)), "row"), quiet=quiet)
        if any(each.metric is Metric.PROFILE for each in run.plan):
            tell_written(kernels_file(rows), quiet=quiet)
    if page is None or not page.is_file():
        return True
    charts = [section.chart for section in view_of(run).sections if section.chart]
    try:
        for chart in charts:
            if chart.id in _PICTURES:
                picture = page.with_name(f"{page.stem}-{chart.id}.png")
                write_whole(picture, png_of(chart))
                tell_written(picture, f"a picture of {page}", quiet=quiet)
    except MissingToolError as error:
        warn(f"the charts are not written as PNG files: {error}")
    except OSError as error:
        warn(
            f"the PNG files of {page} cannot be written: {error.strerror}; run the same command "
            "to write them again"
        )
        return False
    return True

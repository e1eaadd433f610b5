"""`torchmark sweep`: a model over input scales and job configs, into one CSV."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from torchmark.analyse.sweep import rows_of
from torchmark.cli.following import (
    RunOptions,
    refuse_beside_resume,
    report_run,
    run_options,
    timeout_option,
)
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    check_writable,
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
from torchmark.report.formats.vega import png_of

_PICTURES = ("scaling", "speedup", "roofline")
"""The charts that stand beside the page as PNG."""


@click.command("sweep")
@click.argument("spec_file", metavar="SPEC.py", required=False, type=click.Path(path_type=Path))
@click.option(
    "--where", default="", metavar="EXPR", help="Measure only cases for which EXPR is true."
)
@click.option(
    "--set", "settings", multiple=True, metavar="DIM=SIZES", help="Give a dimension other sizes."
)
@click.option(
    "--sample", type=int, metavar="N", help="Measure a random subset of N points (fixed seed)."
)
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([phase.value for phase in Phase]),
    help="What one run does; may be repeated.  [default: forward]",
)
@click.option(
    "--kernels", is_flag=True, help="Also write calls and time by kernel to a second CSV."
)
@timeout_option
@run_options()
def sweep_command(asked: RunOptions, spec_file: Path | None, **options: Any) -> None:
    """Measure a model over input scales and job configs: pt, compile and ort; fp32, fp16, ….

    SPEC.py defines model, model_init_params, input_params, input_scales and job_configs. Rows are
    written while they come, to the file of --csv or else to SPEC.csv in this directory. The same
    command goes on with a sweep that was cut short.

    \b
    torchmark sweep linear.py --csv linear.csv --html linear.html
    torchmark sweep linear.py --set batch=1,8,64 --where "backend != 'ort'"
    torchmark sweep linear.py --sample 20 --phase forward --phase backward
    """
    import_from_here()
    csv = asked.files["csv"]
    if csv != STANDARD_OUTPUT:
        del asked.files["csv"]  # the sweep itself writes it, while rows come
    wanted: dict[str, Any] = {}
    if asked.resume is None:
        wanted = _wanted(spec_file, csv, **options)
    elif csv not in (None, STANDARD_OUTPUT):
        refuse_beside_resume("--csv")
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
            "name the SPEC.py to sweep, or a run to go on with by --resume RUN"
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
    """Say where the rows are, and draw the charts of the page beside it; whether that worked."""
    csv = run.settings.get("csv")
    if csv is not None:
        rows = Path(os.path.relpath(csv))
        tell_written(rows, f"{len(rows_of(run))} rows", quiet=quiet)
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
        warn(f"no pictures beside the page: {error}")
    except OSError as error:
        warn(
            f"the pictures beside {page} cannot be written: {error.strerror}; the same command "
            "draws them again"
        )
        return False
    return True

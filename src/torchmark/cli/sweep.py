"""`torchmark sweep`: a model over input scales and job configs, into one CSV."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.analyse.sweep import rows_of
from torchmark.cli.files import STANDARD_OUTPUT, check_writable
from torchmark.cli.following import files_in, refuse_beside_resume, report_run, run_options
from torchmark.commands.sweep import sweep
from torchmark.define.sweep.scales import setting
from torchmark.errors import InvalidArgumentError, MissingToolError
from torchmark.model.run_settings import Phase
from torchmark.report import view_of
from torchmark.report.formats.vega import png_of

if TYPE_CHECKING:
    from torchmark.model.run import Run

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
@run_options
def command(
    spec_file: Path | None,
    place: str | None,
    tags: tuple[str, ...],
    resume: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Measure a model over input scales and job configs: pt, compile and ort; fp32, fp16, ….

    SPEC.py defines model, model_init_params, input_params, input_scales and job_configs. Rows are
    written while they come, to the file of --csv or else to SPEC.csv in this directory. The same
    command goes on with a sweep that was cut short.

    \b
    torchmark sweep linear.py --csv linear.csv --html linear.html
    torchmark sweep linear.py --set batch=1,8,64 --where "backend != 'ort'"
    torchmark sweep linear.py --sample 20 --phase forward --phase backward
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    files = files_in(options)
    is_stdout = files["csv"] == STANDARD_OUTPUT
    csv = files.pop("csv") if not is_stdout else None
    if resume is not None:
        _refuse_beside_resume(spec_file, csv, tags, **options)
        asked: dict[str, Any] = {"resume": resume}
    else:
        asked = _asked(spec_file, csv, is_stdout=is_stdout, **options)
    report_run(
        lambda progress: sweep(**asked, store=place, tags=tags, progress=progress),
        place=place,
        files=files,
        quiet=quiet,
        write_more=lambda run: _write_pictures(run, files["html"]),
    )


def _refuse_beside_resume(
    spec_file: Path | None,
    csv: Path | None,
    tags: tuple[str, ...],
    *,
    settings: tuple[str, ...],
    phases: tuple[str, ...],
    **options: Any,
) -> None:
    if spec_file is not None:
        raise InvalidArgumentError(
            f"--resume goes on with the spec of the run; leave {spec_file} out"
        )
    refuse_beside_resume({"csv": csv, "tag": tags, "set": settings, "phase": phases, **options})


def _asked(
    spec_file: Path | None,
    csv: Path | None,
    *,
    is_stdout: bool,
    where: str,
    settings: tuple[str, ...],
    sample: int | None,
    phases: tuple[str, ...],
    kernels: bool,
) -> dict[str, Any]:
    if spec_file is None:
        raise InvalidArgumentError(
            "name the SPEC.py to sweep, or a run to go on with by --resume RUN"
        )
    if not is_stdout and csv is None:
        csv = Path(f"{spec_file.stem}.csv")
    check_writable([csv])
    return {
        "spec": spec_file,
        "where": where,
        "set": dict(map(setting, settings)),
        "sample": sample,
        "phases": phases or (Phase.FORWARD,),
        "kernels": kernels,
        "csv": csv,
    }


def _write_pictures(run: Run, page: Path | None) -> bool:
    """Say where the rows are, and draw the charts of the page beside it; whether that worked."""
    csv = run.settings.get("csv")
    if csv is not None:
        click.echo(f"{os.path.relpath(csv)}: {len(rows_of(run))} rows", err=True)
    if page is None or not page.is_file():
        return True
    charts = [chart for section in view_of(run).sections for chart in section.charts]
    try:
        for chart in charts:
            if chart.id in _PICTURES:
                picture = page.with_name(f"{page.stem}-{chart.id}.png")
                picture.write_bytes(png_of(chart))
                click.echo(f"{picture}: a picture of {page}", err=True)
    except MissingToolError as error:
        click.echo(f"torchmark: no pictures beside the page: {error}", err=True)
    except OSError as error:
        click.echo(
            f"torchmark: the pictures beside {page} cannot be written: {error.strerror}; the same "
            "command draws them again",
            err=True,
        )
        return False
    return True

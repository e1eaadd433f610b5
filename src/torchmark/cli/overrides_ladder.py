"""`torchmark overrides ladder`: what each kind of input costs over a plain Tensor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import written
from torchmark.cli.following import files_in, refuse_beside_resume, report_run, run_options
from torchmark.cli.stores import columns, opened
from torchmark.commands.ladder import ladder
from torchmark.commands.run import TIME_AND_COUNT
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.report import render_view
from torchmark.report.formats.data import render_json
from torchmark.report.views.overrides import keep_suite, view_ladders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@click.command("ladder")
@click.option("--count/--no-count", default=None, help="Count instructions too.  [if possible]")
@click.option("--run", "done", metavar="RUN", help="Show a stored run; measure nothing.")
@run_options
def command(
    count: bool | None,
    done: str | None,
    place: str | None,
    tags: tuple[str, ...],
    resume: str | None,
    quiet: bool,
    **arguments: Any,
) -> None:
    """Time and count the suite `overrides`; show what each kind of input costs over a Tensor.

    The run is stored like any other. --run shows the ladder of a stored run that has results of
    this suite.

    \b
    torchmark overrides ladder
    torchmark overrides ladder --no-count --markdown ladder.md
    torchmark run overrides --repeats 5 && torchmark overrides ladder --run latest
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = files_in(arguments)
    if done is not None:
        if count is not None or tags or resume is not None:
            raise InvalidArgumentError(
                "--run shows what was measured; leave --count, --no-count, --tag and --resume out"
            )
        _show(done, place, files)
    if resume is not None:
        refuse_beside_resume({"--count": count, "--tag": tags})
    report_run(
        lambda progress: ladder(
            metrics=_metrics(count), store=place, tags=tags, resume=resume, progress=progress
        ),
        place=place,
        files=files,
        quiet=quiet,
    )


def _metrics(count: bool | None) -> tuple[Metric, ...]:
    if count:
        check_that_counting_works()
    is_counted = counting_works() if count is None else count
    return TIME_AND_COUNT if is_counted else (Metric.TIME,)


def _show(name: str, place: str | None, files: Mapping[str, Path | None]) -> None:
    """The ladder of a run of any kind, and the exit code that says how the cases went."""
    with opened(place) as store:
        run = keep_suite(store.run(name))
    if not run.results:
        raise InvalidArgumentError(
            f"run {run.id} has no results of this suite; `torchmark run overrides` makes some"
        )
    view = view_ladders(run)
    click.echo(render_view(view, "text", columns()), nl=False)
    wrote_all = written(
        files,
        lambda form: render_json(run, view) if form == "json" else render_view(view, form),
        remedy=lambda form: f"torchmark overrides ladder --run {run.id} --{form} FILE writes it",
    )
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(ExitCode.CASE_FAILED if run.has_failures else ExitCode.FINE)

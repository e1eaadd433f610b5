"""The commands that read and tidy the store: `runs`, `show`, `export`, `compare`, `tag`, `rm`.

`schema` is among them because it tells the form of what they write.
"""

from __future__ import annotations

import json
import math
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from torchmark.analyse.run_differences import (
    COUNT_THRESHOLD,
    RATIO_THRESHOLD,
    TIME_THRESHOLD,
    Thresholds,
    compare_runs,
)
from torchmark.cli.shell import (
    ExitCode,
    columns,
    fail_on_option,
    file_options,
    files_in,
    find_regression,
    opened,
    store_option,
    tell_written,
    write_documents,
)
from torchmark.engine.files import check_free, is_owned
from torchmark.errors import InvalidArgumentError
from torchmark.model.codec import json_schema
from torchmark.model.run import RunState
from torchmark.model.units import ordered_unique
from torchmark.report import FORMATS, render, render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.view import Cell, Column, Kind, Row, Section, Table, Value, View, cells_of
from torchmark.report.views import comparison
from torchmark.settings import ThresholdSettings, settings_for
from torchmark.store import RunSummary, artifact_folder

_COLUMNS = (
    Column(name="run", kind=Kind.NUMBER),  # like a figure: an id in two lines is no id
    Column(name="kind"),
    Column(name="state"),
    Column(name="torch"),
    Column(name="tags"),
)

_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of standard output.",
)


@click.command("runs")
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print the runs and their environments.")
def runs_command(place: str | None, as_json: bool) -> None:
    """List the runs of the store, the oldest first: of every command that measures."""
    with opened(place) as store:
        runs, where = store.runs(), store.where
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(runs), indent=2))
    elif runs:
        click.echo(render_view(_view(runs, where), "text", columns()), nl=False)
    else:
        click.echo(f"There are no runs in {where} yet; `torchmark run` makes one.", err=True)


def _view(runs: Sequence[RunSummary], where: str) -> View:
    table = Table(
        columns=_COLUMNS,
        rows=tuple(Row(cells=(Cell(text=run.id), *cells_of(_values(run)))) for run in runs),
    )
    count = f"{len(runs):,} runs" if len(runs) > 1 else "1 run"
    return View(
        title="",
        summary=f"{count} in {where}.",
        sections=(Section(id="runs", title="", table=table),),
        data=table,
    )


def _values(run: RunSummary) -> list[Value]:
    torch = [each.fact("torch", "version") for each in run.environments]
    return [
        run.kind.value,
        ", ".join(
            [
                f"{_state(run)} {run.done}/{run.planned}",
                *([f"{run.failed} failed"] if run.failed else []),
                *([f"{run.skipped} skipped"] if run.skipped else []),
                *([f"{run.partial} partial"] if run.partial else []),
            ]
        ),
        ", ".join(ordered_unique(str(version) for version in torch if version)),
        " ".join(run.tags),
    ]


def _state(run: RunSummary) -> str:
    """A run that was killed could not say so; that nobody carries it out tells it."""
    hosts = {each.fact("machine", "host") for each in run.environments}
    is_here = platform.node() in hosts
    if run.state is RunState.RUNNING and is_here and not is_owned(run.id):
        return "cut short"
    return run.state.value


@click.command("show")
@click.argument("name", metavar="[RUN]", default="latest")
@store_option
@file_options
def show_command(name: str, place: str | None, **arguments: Any) -> None:
    """Show a run of any kind again, or write it in other formats.

    RUN is an id, the beginning of one, a tag, or `latest`. Without a file to write, the report is
    printed as the command that made the run printed it.

    \b
    torchmark show
    torchmark show 20261117 --html run.html --csv run.csv
    """
    files = files_in(arguments)
    with opened(place) as store:
        run = store.run(name)
    if not any(files.values()):
        click.echo(render(run, "text", width=columns()), nl=False)
    elif not write_documents(files, lambda form: render(run, form)):
        sys.exit(ExitCode.ENVIRONMENT)


@click.command("export")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="json: every sample, count and output; csv: a line for each result; html: one page.",
)
@_output_option
@store_option
def export_command(name: str, form: str, output: Path | None, place: str | None) -> None:
    """Write a run of any kind as JSON, CSV, Markdown, text or an HTML page.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        _print_or_write(render(store.run(name), form), output)


@click.command("schema")
@_output_option
def schema_command(output: Path | None) -> None:
    """Print the JSON Schema of runs, results, measurements and instruction counts."""
    _print_or_write(json.dumps(json_schema(), indent=2) + "\n", output)


def _print_or_write(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            f"{output} cannot be written: {error.strerror}; name another file with -o"
        ) from error
    tell_written(output)


@click.command("tag")
@click.argument("name", metavar="RUN")
@click.argument("tag", metavar="TAG")
@store_option
def tag_command(name: str, tag: str, place: str | None) -> None:
    """Give a run a name by which the other commands know it, such as `before`.

    RUN is an id, the beginning of one, a tag, or `latest`.
    """
    with opened(place) as store:
        run_id = store.id_of(name)
        store.tag(run_id, tag)
        others = [run.id for run in store.runs() if tag in run.tags and run.id != run_id]
    click.echo(f"tagged {run_id} {tag}")
    if others:
        click.echo(f"{tag} is also a tag of {', '.join(others)}: give the id there", err=True)


@click.command("rm")
@click.argument("names", metavar="RUN [RUN…]", nargs=-1, required=True)
@store_option
def rm_command(names: tuple[str, ...], place: str | None) -> None:
    """Remove runs, their results and their files.

    RUN is an id, the beginning of one, a tag, or `latest`. If one of them is not known, none is
    removed.
    """
    with opened(place) as store:
        run_ids = ordered_unique(store.id_of(name) for name in names)
        for run_id in run_ids:
            check_free(run_id)
        for run_id in run_ids:
            store.remove(run_id)
            shutil.rmtree(artifact_folder(store.where, run_id), ignore_errors=True)
            click.echo(f"removed {run_id}")


class _Percent(click.FloatRange):
    """A number from 0 on; click's own range lets NaN pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite percentage.", param, ctx)
        return number


_PERCENT = _Percent(min=0)


@click.command("compare")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@store_option
@fail_on_option
@click.option(
    "--threshold",
    type=_PERCENT,
    metavar="PCT",
    help=f"Ignore changes smaller than this.  [default: {TIME_THRESHOLD * 100:g} for times, "
    f"{RATIO_THRESHOLD * 100:g} for the ratios of A/B runs, {COUNT_THRESHOLD * 100:g} for counts]",
)
@click.option("--count-threshold", type=_PERCENT, metavar="PCT", help="The same, for counts alone.")
@file_options
def compare_command(
    first: str,
    second: str,
    place: str | None,
    fail_on: str | None,
    threshold: float | None,
    count_threshold: float | None,
    **arguments: Any,
) -> None:
    """Compare two runs case by case; the second is compared with the first.

    Counts are exact. Times of two runs were not taken together, so small changes of them are
    unclear or mean nothing; `torchmark ab` finds those. Of two A/B runs the ratios are compared.

    With --fail-on the exit code is 1 if such a change was found, otherwise 3 if a case failed
    that had not failed before.
    """
    files = files_in(arguments)
    thresholds = _thresholds(threshold, count_threshold, settings_for(Path.cwd()).thresholds)
    with opened(place) as store:
        before, after = store.run(first), store.run(second)
    differences = compare_runs(before, after, thresholds)
    view = comparison.make_view(before, after, differences)

    def render_differences(form: str) -> str:
        if form == "json":
            return render_figures(view, comparison.heading_of(before, after, differences))
        return render_view(view, form)

    click.echo(render_view(view, "text", columns()), nl=False)
    if not write_documents(files, render_differences):
        sys.exit(ExitCode.ENVIRONMENT)
    code = find_regression(fail_on, [differences])
    if code is None and fail_on is not None and differences.has_broken:
        code = ExitCode.CASE_FAILED
    sys.exit(code or ExitCode.FINE)


def _thresholds(both: float | None, count: float | None, settings: ThresholdSettings) -> Thresholds:
    """The option for one metric, else that for all, else the settings, else the default."""
    return Thresholds(
        time=_share((both, settings.time), TIME_THRESHOLD),
        count=_share((count, both, settings.count), COUNT_THRESHOLD),
        ratio=_share((both,), RATIO_THRESHOLD),
    )


def _share(percents: tuple[float | None, ...], default: float) -> float:
    return next((percent / 100 for percent in percents if percent is not None), default)

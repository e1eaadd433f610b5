"""The commands that read the store: `runs`, `show`, `export` and `compare`.

They open the store to read only. If a record is damaged, they say so on standard error, show the
rest, and exit with 4. `schema` is here because it describes what they write.
"""

from __future__ import annotations

import json
import math
import platform
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
from torchmark.cli.choosing import (
    keep_cases,
    pattern_option,
    sort_differences,
    sort_option,
    sort_run,
)
from torchmark.cli.shell import (
    ExitCode,
    check_writable,
    columns,
    echo,
    fail_on_option,
    file_options,
    files_in,
    find_regression,
    opened,
    store_option,
    tell_damage,
    tell_written,
    write_documents,
)
from torchmark.engine.files import is_owned
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.files import write_whole
from torchmark.model.codec import json_schema
from torchmark.model.run import RunState, RunSummary
from torchmark.model.units import ordered_unique
from torchmark.report import FORMATS, render, render_view
from torchmark.report.figures import cut_line
from torchmark.report.formats.data import render_figures
from torchmark.report.view import Cell, Column, Kind, Row, Section, Table, View, cells_of
from torchmark.report.views import comparison
from torchmark.settings import ThresholdSettings, settings_for
from torchmark.store.database import option_for

_WIDE = 110
"""A terminal with at least this many columns shows all columns of `runs`."""

_LONGEST_SUITE = 14
"""On a narrower terminal, the name of a suite is cut to this many characters."""

_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to FILE instead of standard output.",
)


@click.command("runs")
@store_option
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="List only the newest N.")
@click.option("--json", "as_json", is_flag=True, help="Print runs and environments as JSON.")
def runs_command(place: str | None, limit: int | None, as_json: bool) -> None:
    """List stored runs of all commands, oldest first.

    You get the id, date, kind (the command), suite, state, host, torch version and tags of each
    run. On a narrow terminal, a host or torch version that all runs share is only in the last line.
    """
    with opened(place, read_only=True) as store:
        runs, where = store.runs(), store.where
    shown = runs[-limit:] if limit else runs
    if as_json:
        echo(json.dumps(msgspec.to_builtins(shown), indent=2))
    elif runs:
        echo(render_view(_view(shown, len(runs), where), "text", columns()), nl=False)
    elif not store.damage:
        hint = f"`torchmark run{option_for(where)}` creates one"
        echo(f"No runs in {where} yet; {hint}.", err=True)
    if tell_damage(store):
        sys.exit(ExitCode.ENVIRONMENT)


def _view(runs: Sequence[RunSummary], total: int, where: str) -> View:
    is_wide = columns() >= _WIDE
    values = [_values(run, is_wide) for run in runs]
    shared = {
        name: values[0][name]
        for name in ("host", "torch")
        if not is_wide and len({each[name] for each in values}) == 1
    }
    names = [name for name in values[0] if name not in shared]
    table = Table(
        # Ids and dates are laid out like numbers, which are never wrapped.
        columns=tuple(Column(name, Kind.NUMBER if name in _WHOLE else Kind.TEXT) for name in names),
        rows=tuple(Row(cells=cells_of(Cell(text=each[name]) for name in names)) for each in values),
    )
    count = f"{total:,} runs" if total > 1 else "1 run"
    newest = f"The newest {len(runs):,} of {count}" if len(runs) < total else count
    common = "".join(f"; {name} {value}" for name, value in shared.items() if value)
    return View(
        title="",
        summary=f"{newest} in {where}{common}.",
        sections=(Section(id="runs", title="", table=table),),
        data=table,
    )


_WHOLE = ("run", "date")


def _values(run: RunSummary, is_wide: bool) -> dict[str, str]:
    """Return the text of each column, by its name."""
    return {
        "run": run.id,
        "date": run.started[:16].replace("T", " ") if is_wide else run.started[5:10],
        "kind": run.kind.value,
        "suite": cut_line(run.suite, 2 * _LONGEST_SUITE if is_wide else _LONGEST_SUITE),
        "state": ", ".join(
            [
                f"{_state(run)} {run.done}/{run.planned}",
                *([f"{run.failed} failed"] if run.failed else []),
                *([f"{run.skipped} skipped"] if run.skipped else []),
                *([f"{run.partial} partial"] if run.partial else []),
            ]
        ),
        "host": _facts_of(run, "machine", "host"),
        "torch": _facts_of(run, "torch", "version"),
        "tags": " ".join(run.tags),
    }


def _facts_of(run: RunSummary, *path: str) -> str:
    found = (each.fact(*path) for each in run.environments)
    return ", ".join(ordered_unique(str(fact) for fact in found if fact))


def _state(run: RunSummary) -> str:
    """The state of a run. A killed run is stored as running, but no process owns it."""
    hosts = {each.fact("machine", "host") for each in run.environments}
    is_here = platform.node() in hosts
    if run.state is RunState.RUNNING and is_here and not is_owned(run.id):
        return "cut short"
    return run.state.value


@click.command("show")
@click.argument("name", metavar="[RUN]", default="latest")
@pattern_option
@sort_option("suite", "name", "time", text="Order of the cases; `time` is slowest first.")
@store_option
@file_options
def show_command(name: str, pattern: str, sort: str, place: str | None, **arguments: Any) -> None:
    """Show a stored run of any kind, or write it in other formats.

    RUN is an id, the beginning of an id, a tag, or `latest` (the default). Without an option that
    names a file, you get the report that the command printed when it made the run. A result whose
    record is damaged is shown as failed, and the exit code is then 4.

    \b
    torchmark show
    torchmark show -k "add not C++" --sort time
    torchmark show 20261117 --html run.html --csv run.csv
    """
    files = files_in(arguments)
    with opened(place, read_only=True) as store:
        (kept,) = keep_cases([store.run(name)], pattern)
    run, wrote_all = sort_run(kept, sort), True
    if not any(files.values()):
        echo(render(run, "text", width=columns()), nl=False)
    else:
        wrote_all = write_documents(files, lambda form: render(run, form))
    if tell_damage(store) or not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)


@click.command("export")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="json: all samples, counts and outputs; csv: one line per result; html: one page.",
)
@_output_option
@store_option
def export_command(name: str, form: str, output: Path | None, place: str | None) -> None:
    """Write a stored run of any kind as JSON, CSV, Markdown, text or HTML.

    RUN is an id, the beginning of an id, a tag, or `latest` (the default). A result whose record is
    damaged is written as failed, and the exit code is then 4.

    \b
    torchmark export --format json -o run.json
    torchmark export before --format csv
    """
    with opened(place, read_only=True) as store:
        _print_or_write(render(store.run(name), form), output)
    if tell_damage(store):
        sys.exit(ExitCode.ENVIRONMENT)


@click.command("schema")
@_output_option
def schema_command(output: Path | None) -> None:
    """Print the JSON Schema of runs, results, measurements and instruction counts."""
    _print_or_write(json.dumps(json_schema(), indent=2) + "\n", output)


def _print_or_write(text: str, output: Path | None) -> None:
    if output is None:
        echo(text, nl=False)
        return
    check_writable([output])
    try:
        write_whole(output, text.encode())
    except OSError as error:
        raise OutputFileError(
            f"{output} cannot be written: {error.strerror}; free some space, or name another file "
            "with -o"
        ) from error
    tell_written(output)


class _Percent(click.FloatRange):
    """A finite number of at least 0. FloatRange of click accepts NaN and infinity."""

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
    help=f"Ignore changes smaller than PCT %.  [default: {TIME_THRESHOLD * 100:g} for times, "
    f"{RATIO_THRESHOLD * 100:g} for the ratios of A/B runs, {COUNT_THRESHOLD * 100:g} for counts]",
)
@click.option(
    "--count-threshold",
    type=_PERCENT,
    metavar="PCT",
    help="The same, for instruction counts only.",
)
@pattern_option
@sort_option(
    "suite",
    "name",
    "time",
    "change",
    text="Order of the cases; `time` is slowest first, `change` is largest slowdown first.",
)
@file_options
def compare_command(
    first: str,
    second: str,
    place: str | None,
    fail_on: str | None,
    threshold: float | None,
    count_threshold: float | None,
    pattern: str,
    sort: str,
    **arguments: Any,
) -> None:
    """Compare two stored runs case by case; the second is compared with the first.

    You get the change of each time and count, with a verdict. Counts are exact. The times of two
    runs were not measured together, so a small change of a time can be noise: use `torchmark ab` to
    find small changes. For A/B runs, the ratios are compared.

    With --fail-on, the exit code is 1 if such a change was found. If not, it is 3 if a case failed
    that did not fail before. Results with damaged records are left out, and the exit code is then
    4, unless it is 1.

    \b
    torchmark compare before latest
    torchmark compare before after --sort change --fail-on slower
    """
    files = files_in(arguments)
    thresholds = _thresholds(threshold, count_threshold, settings_for(Path.cwd()).thresholds)
    with opened(place, read_only=True) as store:
        if store.id_of(first) == (run_id := store.id_of(second)):
            raise InvalidArgumentError(
                f"{first} and {second} are the same run, {run_id}; name two runs to compare"
            )
        before, after = keep_cases([store.run(first), store.run(second)], pattern)
    differences = sort_differences(compare_runs(before, after, thresholds), sort)
    view = comparison.make_view(before, after, differences)

    def render_differences(form: str) -> str:
        if form == "json":
            return render_figures(view, comparison.heading_of(before, after, differences))
        return render_view(view, form)

    echo(render_view(view, "text", columns()), nl=False)
    is_damaged = tell_damage(store)
    if not write_documents(files, render_differences):
        sys.exit(ExitCode.ENVIRONMENT)
    code = find_regression(fail_on, [differences])
    if code is None and is_damaged:
        code = ExitCode.ENVIRONMENT
    if code is None and fail_on is not None and differences.has_broken:
        code = ExitCode.CASE_FAILED
    sys.exit(code or ExitCode.FINE)


def _thresholds(both: float | None, count: float | None, settings: ThresholdSettings) -> Thresholds:
    """Take for each metric its option, else the common option, else the settings or the default."""
    return Thresholds(
        time=_share((both, settings.time), TIME_THRESHOLD),
        count=_share((count, both, settings.count), COUNT_THRESHOLD),
        ratio=_share((both,), RATIO_THRESHOLD),
    )


def _share(percents: tuple[float | None, ...], default: float) -> float:
    return next((percent / 100 for percent in percents if percent is not None), default)

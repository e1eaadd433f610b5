"""`torchmark compare RUN RUN`: what changed from one run to another."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import click

from torchmark.analyse.run_differences import (
    COUNT_THRESHOLD,
    RATIO_THRESHOLD,
    TIME_THRESHOLD,
    RunDifferences,
    Thresholds,
    compare_runs,
)
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.files import written
from torchmark.cli.following import files_in, with_outputs
from torchmark.cli.stores import columns, opened, store_option
from torchmark.report import render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.views import comparison
from torchmark.settings import ThresholdSettings, settings_for


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
@click.option(
    "--fail-on",
    type=click.Choice(["slower", "any"]),
    help="Exit with 1 if a case is slower or takes more instructions; any: also if it is faster "
    "or takes fewer.",
)
@click.option(
    "--threshold",
    type=_PERCENT,
    metavar="PCT",
    help=f"Ignore changes smaller than this.  [default: {TIME_THRESHOLD * 100:g} for times, "
    f"{RATIO_THRESHOLD * 100:g} for the ratios of A/B runs, {COUNT_THRESHOLD * 100:g} for counts]",
)
@click.option("--count-threshold", type=_PERCENT, metavar="PCT", help="The same, for counts alone.")
@with_outputs
def command(
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

    def render(form: str) -> str:
        if form == "json":
            heading = comparison.heading_of(before, after, differences)
            return render_figures(view, heading)
        return render_view(view, form)

    click.echo(render_view(view, "text", columns()), nl=False)
    if not written(files, render, remedy=lambda _form: "name another file"):
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(_code(fail_on, differences))


def _thresholds(both: float | None, count: float | None, settings: ThresholdSettings) -> Thresholds:
    """The option for one metric, else that for all, else the settings, else the default."""
    return Thresholds(
        time=_share((both, settings.time), TIME_THRESHOLD),
        count=_share((count, both, settings.count), COUNT_THRESHOLD),
        ratio=_share((both,), RATIO_THRESHOLD),
    )


def _share(percents: tuple[float | None, ...], default: float) -> float:
    return next((percent / 100 for percent in percents if percent is not None), default)


def _code(fail_on: str | None, differences: RunDifferences) -> ExitCode:
    if fail_on is None:
        return ExitCode.FINE
    if differences.has_regression or (fail_on == "any" and differences.has_change):
        return ExitCode.REGRESSION
    return ExitCode.CASE_FAILED if differences.has_broken else ExitCode.FINE

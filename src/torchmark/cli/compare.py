"""`torchmark compare RUN RUN`: what changed from one run to another."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import click

from torchmark.analyse.run_differences import (
    COUNT_THRESHOLD,
    TIME_THRESHOLD,
    RunDifferences,
    Thresholds,
    differences_of,
)
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.stores import columns, opened, store_option
from torchmark.report import run_comparison
from torchmark.settings import ThresholdSettings, settings_for


class _Percent(click.FloatRange):
    """A number from 0 on; click's own range lets NaN pass."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number of per cent.", param, ctx)
        return number


_PERCENT = _Percent(min=0)


@click.command("compare")
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@store_option
@click.option(
    "--fail-on",
    type=click.Choice(["slower", "any"]),
    help="Exit with 1 if a case is slower or takes more instructions; any: or fewer, or faster.",
)
@click.option(
    "--threshold",
    type=_PERCENT,
    metavar="PCT",
    help=f"Changes up to this are none: {TIME_THRESHOLD * 100:g} for times, "
    f"{COUNT_THRESHOLD * 100:g} for counts where neither this nor the settings say.",
)
@click.option("--count-threshold", type=_PERCENT, metavar="PCT", help="The same, for counts alone.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    first: str,
    second: str,
    place: str | None,
    fail_on: str | None,
    threshold: float | None,
    count_threshold: float | None,
    as_json: bool,
) -> None:
    """Compare two runs case by case; the first is what the second is compared with.

    Counts are exact. Times of two runs were not taken side by side, so small changes of them are
    unclear or mean nothing.

    With --fail-on the exit code is 1 if such a change was found, otherwise 3 if a case failed
    that had not failed before.
    """
    thresholds = _thresholds(threshold, count_threshold, settings_for(Path.cwd()).thresholds)
    with opened(place) as store:
        before, after = store.run(first), store.run(second)
        differences = differences_of(store.results(before.id), store.results(after.id), thresholds)
    if as_json:
        click.echo(run_comparison.render_json(before, after, differences), nl=False)
    else:
        text = run_comparison.render(before, after, differences, width=columns())
        click.echo(text, nl=False)
    sys.exit(_code(fail_on, differences))


def _thresholds(both: float | None, count: float | None, settings: ThresholdSettings) -> Thresholds:
    """The option for one kind, else that for both, else the settings, else the default."""
    return Thresholds(
        time=_share((both, settings.time), TIME_THRESHOLD),
        count=_share((count, both, settings.count), COUNT_THRESHOLD),
    )


def _share(percents: tuple[float | None, ...], default: float) -> float:
    return next((percent / 100 for percent in percents if percent is not None), default)


def _code(fail_on: str | None, differences: RunDifferences) -> ExitCode:
    if fail_on is None:
        return ExitCode.FINE
    if differences.got_slower or (fail_on == "any" and differences.changed):
        return ExitCode.REGRESSION
    return ExitCode.CASE_FAILED if differences.broke else ExitCode.FINE

"""`torchmark overrides report`: what a pull request on overrides has to show, in one command."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.analyse.pairs import Verdict
from torchmark.cli.ab_run import Asked, Kept, compare_all
from torchmark.cli.exit_codes import ExitCode, code_of
from torchmark.cli.overrides_folder import ReportFolder, empty_folder
from torchmark.cli.running import heed_signals
from torchmark.cli.stores import columns
from torchmark.commands.suite_run import Wanted
from torchmark.define.suites.loading import load_suite
from torchmark.define.suites.overrides import IMPORTED_BY_DISPATCH
from torchmark.engine.paired.flames import flames_of
from torchmark.engine.paired.plan import Wish
from torchmark.engine.under_test import found
from torchmark.errors import TorchmarkError
from torchmark.model.result import Metric
from torchmark.report import ab_text
from torchmark.report.ab_words import summary
from torchmark.report.overrides_files import MARKDOWN, PAGE, ZIP
from torchmark.store import default_path, new_run_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.analyse.ab import TimeRow, Understood
    from torchmark.engine.under_test import UnderTest

_WISH = Wish(kinds=(Metric.TIME,), budget=0.0, pairs=9, turns_seconds=0.05, hurry=True)
"""Nine pairs of each of the 21 cases in a minute: what is looked for is two per cent and more."""


@click.command("report")
@click.option("--base", required=True, metavar="CMD", help="Shell text that leads to the base.")
@click.option("--branch", required=True, metavar="CMD", help="The same for the branch.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("overrides-report"),
    show_default=True,
    help="The folder for the report; a new or an empty one.",
)
@click.option("--all-flames", is_flag=True, help="Flame graphs of every case, not of slower ones.")
@click.option("--quiet", is_flag=True, help="Show the result alone.")
def command(base: str, branch: str, output: Path, all_flames: bool, quiet: bool) -> None:
    """Compare the cost of overrides in two environments, with flame graphs of what got slower.

    The folder then has report.md for the pull request, report.html with everything in it, an SVG
    and a PNG of each flame graph, and report.zip with it all.

    \b
    torchmark overrides report --base "source activate main" --branch "source activate branch"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    folder = empty_folder(output)
    heed_signals()
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(contextlib.closing(found(name, text, modules=IMPORTED_BY_DISPATCH)))
            for name, text in (("base", base), ("branch", branch))
        ]
        kept = Kept(file=default_path().parent / "ab" / f"{new_run_id()}.json")
        cut_short_by = compare_all(sides, _asked(), kept, quiet=quiet)
        kept.save()
        if not kept.comparisons:
            raise cut_short_by or KeyboardInterrupt
        report = ReportFolder(path=folder, comparison=kept.understood()[0])
        try:
            report.write()
            if cut_short_by is None:
                _add_flames(report, sides, all_flames=all_flames, quiet=quiet)
                report.write()
            report.zip()
        except OSError as error:
            _say(f"{folder} cannot be written: {error.strerror}; the figures are in {kept.file}")
            sys.exit(ExitCode.ENVIRONMENT)
    _finish(report, cut_short_by)


def _asked() -> Asked:
    return Asked(
        suites=(load_suite("overrides"),),
        wanted=Wanted(),
        statements=(),
        setup="pass",
        wish=_WISH,
        backtest=False,
    )


def _add_flames(
    report: ReportFolder, sides: Sequence[UnderTest], *, all_flames: bool, quiet: bool
) -> None:
    """Of one case after the other; what cannot be looked at is told, and nothing is lost."""
    base, branch = sides
    for row in _to_be_drawn(report.comparison, all_flames=all_flames):
        name = row.case.name
        if not quiet:
            click.echo(f"flame graphs of {name}", err=True)
        try:
            report.add(flames_of(base, branch, row.case, (row.a_seconds, row.b_seconds)))
        except TorchmarkError as error:
            report.problems.append(f"flame graphs of {name}: {error}")
            if code_of(error) is ExitCode.ENVIRONMENT:  # the next case would say the same
                return


def _to_be_drawn(comparison: Understood, *, all_flames: bool) -> list[TimeRow]:
    return [row for row in comparison.times if all_flames or row.verdict is Verdict.SLOWER]


def _finish(report: ReportFolder, cut_short_by: KeyboardInterrupt | TorchmarkError | None) -> None:
    comparison = report.comparison
    if comparison.got_slower or comparison.gaps or cut_short_by is not None:
        click.echo(ab_text.render([comparison], width=columns()), nl=False)
    else:
        click.echo(f"No regressions: {summary(comparison)}")
    click.echo(f"{report.path}: {MARKDOWN}, {PAGE}, {ZIP}")
    for problem in report.problems:
        _say(problem)
    if isinstance(cut_short_by, KeyboardInterrupt):
        _say("interrupted; the report has what was measured until then")
        sys.exit(ExitCode.INTERRUPTED)
    if cut_short_by is not None:
        _say(f"{cut_short_by}\nThe report has what was measured until then.")
        sys.exit(code_of(cut_short_by))
    if report.problems:
        sys.exit(ExitCode.ENVIRONMENT)
    if comparison.failures:
        sys.exit(ExitCode.CASE_FAILED)


def _say(text: str) -> None:
    click.echo(f"torchmark: {text}", err=True)

"""`torchmark overrides report`: what a pull request on overrides has to show, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torchmark.analyse.ab import judge
from torchmark.cli.exit_codes import ExitCode
from torchmark.cli.following import files_in, refuse_beside_resume, report_run, run_options
from torchmark.cli.overrides_folder import MARKDOWN, PAGE, ZIP, find_folder, write_folder
from torchmark.cli.stores import columns
from torchmark.commands.overrides import PAIR, report
from torchmark.errors import InvalidArgumentError, MissingToolError
from torchmark.model.result import Metric, Status
from torchmark.model.run import RunState
from torchmark.report import render, view_of

if TYPE_CHECKING:
    from torchmark.model.run import Run


@click.command("report")
@click.option("--base", metavar="CMD", help="Shell command that activates the base.")
@click.option("--branch", metavar="CMD", help="Shell command that activates the branch.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("overrides-report"),
    show_default=True,
    help="The folder for the report; a new or an empty one.",
)
@click.option("--all-flames", is_flag=True, help="Flame graphs of every case, not of slower ones.")
@run_options
def command(
    base: str | None,
    branch: str | None,
    output: Path,
    all_flames: bool,
    place: str | None,
    tags: tuple[str, ...],
    resume: str | None,
    quiet: bool,
    **options: Any,
) -> None:
    """Compare the cost of overrides in two environments, with flame graphs of what got slower.

    The folder then has report.md for the pull request, report.html with everything in it, an SVG
    and a PNG of each flame graph, and report.zip with it all. Every result is stored at once: after
    Ctrl-C or a crash, --resume measures what is missing and writes the folder.

    \b
    torchmark overrides report --base "source activate main" --branch "source activate branch"
    torchmark overrides report --resume latest
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = files_in(options)
    if resume is not None:
        given = {"--base": base, "--branch": branch, "--all-flames": all_flames, "--tag": tags}
        refuse_beside_resume(given)
    elif base is None or branch is None:
        raise InvalidArgumentError("give --base and --branch, or --resume RUN")
    folder = find_folder(output, may_hold_report=resume is not None)
    report_run(
        lambda progress: report(
            base or "",
            branch or "",
            all_flames=all_flames,
            store=place,
            tags=tags,
            resume=resume,
            progress=progress,
        ),
        place=place,
        files=files,
        quiet=quiet,
        judge=_find_problem,
        text_of=lambda run: f"{_describe(run)}{folder}: {MARKDOWN}, {PAGE}, {ZIP}\n",
        write_more=lambda run: _write(folder, run),
    )


def _describe(run: Run) -> str:
    """A line where there is nothing to look at, and the whole report where there is."""
    is_fine = run.state is RunState.FINISHED and not run.has_failures
    if is_fine and not judge(run, PAIR).has_regression:
        return f"No regressions: {view_of(run).summary}\n"
    return render(run, "text", width=columns())


def _write(folder: Path, run: Run) -> bool:
    try:
        write_folder(folder, run)
    except MissingToolError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
    else:
        return True
    again = f"torchmark overrides report --resume {run.id} -o FOLDER writes it again"
    click.echo(f"torchmark: {problem}; {again}", err=True)
    return False


def _find_problem(run: Run) -> ExitCode | None:
    """A flame graph that could not be made is the fault of the environment, not of a case."""
    is_failed = any(
        each.metric is Metric.PROFILE and each.status is Status.FAILED for each in run.results
    )
    return ExitCode.ENVIRONMENT if is_failed else None

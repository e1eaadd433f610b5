"""`torchmark overrides`: measure what it costs that torch's functions can be overridden.

`ladder` measures the cost of each kind of input over a plain Tensor, in this environment. `report`
compares two environments, and writes a folder of files for a pull request.
"""

from __future__ import annotations

import re
import sys
import zipfile
from functools import partial
from pathlib import Path

import click

from torchmark.analyse.ab import judge
from torchmark.analyse.overheads import SUITE
from torchmark.cli.following import RunOptions, counting_works, metrics_of, report_run, run_options
from torchmark.cli.shell import (
    ExitCode,
    columns,
    echo,
    opened,
    store_hint,
    tell_written,
    warn,
    write_documents,
)
from torchmark.commands.overrides import PAIR, report
from torchmark.commands.run import run
from torchmark.errors import InvalidArgumentError, MissingToolError
from torchmark.files import replacing, write_whole
from torchmark.flame.svg import png_of
from torchmark.model.result import Metric, Status
from torchmark.model.run import Run, RunKind, RunState
from torchmark.report import render, render_view, view_of
from torchmark.report.formats.data import render_json
from torchmark.report.formats.markdown import escaped
from torchmark.report.view import View
from torchmark.report.views.overrides import keep_suite, view_ladders

MARKDOWN, PAGE, ZIP = "report.md", "report.html", "report.zip"

_OURS = re.compile(
    r"report\.(md|html|zip)|(base|branch|difference)-.*\.(svg|png)|\.torchmark-.*\.part"
)
"""The files of a report, and the unfinished files that a killed process leaves."""


@click.group(
    "overrides", epilog="Run `torchmark overrides COMMAND --help` for the options of a command."
)
def overrides_command() -> None:
    """Measure what __torch_function__, __torch_dispatch__ and modes cost per call."""


@overrides_command.command(
    "ladder", short_help="Measure what each kind of input costs, in this environment."
)
@click.option(
    "--count/--no-count", default=None, help="Count instructions too.  [default: if valgrind works]"
)
@click.option("--run", "done", metavar="RUN", help="Show a stored run; measure nothing.")
@run_options()
def ladder_command(asked: RunOptions, count: bool | None, done: str | None) -> None:
    """Time and count the suite `overrides`, and show what each kind of input costs.

    The cost is the difference from the same call with a plain Tensor. The run is stored like any
    other. --run shows the ladder of a stored run with results of this suite.

    \b
    torchmark overrides ladder
    torchmark overrides ladder --no-count --markdown ladder.md
    torchmark run overrides --repeats 5 && torchmark overrides ladder --run latest
    """
    if done is not None:
        if count is not None or asked.tags:
            raise InvalidArgumentError(
                "--run shows a stored run and measures nothing; leave --count, --no-count, --tag "
                "and --resume out"
            )
        _show(done, asked)
    metrics = metrics_of(time=True, count=counting_works() if count is None else count)
    report_run(asked, partial(run, (SUITE,), metrics=metrics, kind=RunKind.LADDER))


def _show(name: str, asked: RunOptions) -> None:
    """Show the ladder of a run of any kind. Exit with the code for its failed cases."""
    with opened(asked.place, read_only=True) as store:
        run = keep_suite(store.run(name))
    option = store_hint(asked.place)
    if not run.results:
        raise InvalidArgumentError(
            f"run {run.id} has no results of the suite `overrides`; get some with "
            f"`torchmark run overrides{option}`"
        )
    view = view_ladders(run)
    echo(render_view(view, "text", columns()), nl=False)
    wrote_all = write_documents(
        asked.files,
        lambda form: render_json(run, view) if form == "json" else render_view(view, form),
        remedy=lambda form: (
            f"torchmark overrides ladder --run {run.id} --{form} FILE{option} writes it"
        ),
        quiet=asked.quiet,
    )
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    sys.exit(ExitCode.CASE_FAILED if run.has_failures else ExitCode.FINE)


@overrides_command.command(
    "report", short_help="Compare two environments, with flame graphs of slower cases."
)
@click.option("--base", metavar="CMD", help="Shell command that activates the baseline.")
@click.option("--branch", metavar="CMD", help="Shell command that activates the branch.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("overrides-report"),
    show_default=True,
    metavar="DIR",
    help="Folder for the report; must be new or empty.",
)
@click.option(
    "--all-flames", is_flag=True, help="Draw flame graphs of all cases, not only of slower ones."
)
@run_options("output")
def report_command(
    asked: RunOptions, base: str | None, branch: str | None, output: Path, all_flames: bool
) -> None:
    """Compare the cost of overrides in two environments, with flame graphs of slower cases.

    The folder gets report.md for the pull request, report.html as one page with everything, an SVG
    and a PNG file of each flame graph, and report.zip with all of these. Every result is stored as
    soon as it exists: after Ctrl-C or a crash, --resume measures what is missing and writes the
    folder.

    \b
    torchmark overrides report --base "source activate main" --branch "source activate pr"
    torchmark overrides report --resume latest
    """
    if asked.resume is None and (base is None or branch is None):
        raise InvalidArgumentError("give --base and --branch, or --resume RUN")
    folder = find_folder(output, may_hold_report=asked.resume is not None)
    report_run(
        asked,
        partial(report, base or "", branch or "", all_flames=all_flames),
        judge=_find_problem,
        text_of=lambda run: f"{_describe(run)}{folder}: {MARKDOWN}, {PAGE}, {ZIP}\n",
        write_more=lambda run: _write(folder, run, store_hint(asked.place), quiet=asked.quiet),
    )


def _describe(run: Run) -> str:
    """One line if nothing got slower or failed, otherwise the whole report."""
    is_fine = run.state is RunState.FINISHED and not run.has_failures
    if is_fine and not judge(run, PAIR).has_regression:
        return f"No regressions: {view_of(run).summary}\n"
    return render(run, "text", width=columns())


def _find_problem(run: Run) -> ExitCode | None:
    """If a flame graph could not be made, the environment is at fault, not a case."""
    is_failed = any(
        each.metric is Metric.PROFILE and each.status is Status.FAILED for each in run.results
    )
    return ExitCode.ENVIRONMENT if is_failed else None


def find_folder(path: Path, *, may_hold_report: bool = False) -> Path:
    """The absolute path of the folder, which is created if needed. It must be empty.

    With `may_hold_report` it may contain the files of a report, as after an interrupted run.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        names = [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise InvalidArgumentError(
            f"the report cannot be written to {path}: {error.strerror}; name another folder with -o"
        ) from error
    if any(not (may_hold_report and _OURS.fullmatch(name)) for name in names):
        raise InvalidArgumentError(
            f"the folder {path} is not empty; empty it, or name another one with -o"
        )
    return path.resolve()


def _write(folder: Path, run: Run, option: str, *, quiet: bool) -> bool:
    try:
        _write_folder(folder, run)
    except MissingToolError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
    else:
        tell_written(folder, quiet=quiet)
        return True
    command = f"torchmark overrides report --resume {run.id} -o FOLDER{option}"
    warn(f"{problem}; {command} writes it again")
    return False


def _write_folder(path: Path, run: Run) -> None:
    """Write the report, an SVG and a PNG file of each flame graph, and a ZIP file with all of them.

    The PNG files are drawn last, so the other files are there if drawing fails.
    """
    view = view_of(run)
    pictures = [picture for section in view.sections for picture in section.pictures]
    write_whole(path / MARKDOWN, _markdown(run, view).encode())
    write_whole(path / PAGE, render(run, "html").encode())
    for picture in pictures:
        write_whole(path / f"{picture.name}.svg", picture.svg.encode())
    try:
        for picture in pictures:
            write_whole(path / f"{picture.name}.png", png_of(picture.svg))
    finally:
        files = sorted(path.glob("[!.]*"))
        with (
            replacing(path / ZIP) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for file in files:
                if file.name != ZIP:
                    archive.write(file, f"{path.name}/{file.name}")


def _markdown(run: Run, view: View) -> str:
    """One picture below the other, because three side by side would be too small to read."""
    parts = ["## The cost of `__torch_function__`", render(run, "markdown").rstrip()]
    for section in view.sections:
        if section.pictures:
            parts.append(f"### {escaped(section.title)}")
            parts += [
                f"{escaped(each.title)}: ![{escaped(each.title)}]({each.name}.png)"
                for each in section.pictures
            ]
    return "\n\n".join(parts) + "\n"

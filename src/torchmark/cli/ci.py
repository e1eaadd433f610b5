"""`torchmark ci`: what a pull request needs, in one command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from torchmark.analyse.gate import Gate, LimitRule
from torchmark.arguments import check_positive
from torchmark.cli.check import code_of_gate, limit_options, rule_of
from torchmark.cli.display import make_display
from torchmark.cli.following import fail_with_resume_hint, metric_options, metrics_of
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    ExitCode,
    check_writable,
    checked,
    columns,
    echo,
    file_options,
    files_in,
    import_from_here,
    opened,
    store_option,
    warn,
    write_documents,
)
from torchmark.commands.ci import CiPlan, CiReport, ci, describe_plan, describe_steps, plan_ci
from torchmark.commands.planning import default_suites
from torchmark.errors import InvalidArgumentError, RunInterruptedError, TorchmarkError
from torchmark.report import render_view
from torchmark.report.formats import hud
from torchmark.report.formats.data import render_figures
from torchmark.report.view import View
from torchmark.report.views import ci as ci_view
from torchmark.settings import settings_for

_SUMMARY = "GITHUB_STEP_SUMMARY"
"""GitHub Actions shows what is appended to the file of this name on the page of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Where the report goes."""

    files: Mapping[str, Path | None]
    hud: Path | None
    quiet: bool


@click.command("ci")
@click.option(
    "--base",
    metavar="REV",
    help="What the pull request is for, e.g. origin/main.  [default: from the variables of GitHub "
    "or GitLab, or the branch main or master]",
)
@click.option(
    "--setup",
    metavar="CMD",
    help="Shell command that builds a commit, run in a checkout of each of the two.  [default: "
    "build nothing, compare with the history in the store]",
)
@click.option(
    "--activate",
    metavar="CMD",
    help="Shell command that activates the environment of a build.  [default: the virtual "
    "environment in $TORCHMARK_ENV, or the checkout on PYTHONPATH]",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="SUITE",
    help="Suite to measure; may be repeated.  [default: from the settings, or standard]",
)
@click.option(
    "-k",
    "pattern",
    metavar="PATTERN",
    default="",
    help="Measure the cases with these words, whatever files have changed.",
)
@metric_options
@click.option(
    "--budget",
    type=float,
    metavar="SECONDS",
    help="Time that each case may take, as for `ab` with --setup, else as for `run`.",
    callback=checked(check_positive),
)
@limit_options
@click.option(
    "--dry-run", is_flag=True, help="Say what would be built and measured, and why; then exit."
)
@store_option
@click.option("--quiet", is_flag=True, help="Show only the result and errors.")
@file_options
@click.option(
    "--hud",
    "hud_file",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write records for PyTorch's HUD (benchmark schema v3) as JSON.",
)
def ci_command(
    base: str | None,
    setup: str | None,
    activate: str | None,
    suites: tuple[str, ...],
    pattern: str,
    time: bool,
    count: bool,
    budget: float | None,
    fail_on: str,
    limits: tuple[LimitRule, ...],
    dry_run: bool,
    place: str | None,
    quiet: bool,
    hud_file: Path | None,
    **arguments: Any,
) -> None:
    """Say whether a pull request is slower than the commit that it started from.

    With --setup, HEAD and its merge base with the base branch are checked out and built, and the
    cases that the changed files can affect are compared. Without it, they are measured in this
    environment and judged against the history of the base branch in the store. The files of the
    working tree are never changed.

    The exit code is 1 if a case is worse by more than its hard limit, 3 if a case failed, and 4 if
    a commit cannot be built or there is no baseline. On GitHub, the report is also added to the
    page of the job.

    \b
    torchmark ci --setup ./build.sh --suite benchmarks/ --markdown report.md
    torchmark ci --setup true --suite benchmarks/ --count --limit 2%
    torchmark ci --base origin/release --dry-run
    """
    output = _Output(files=files_in(arguments), hud=hud_file, quiet=quiet)
    check_writable([hud_file])
    if activate is not None and setup is None:
        raise InvalidArgumentError(
            "--activate needs --setup; if there is nothing to build, give --setup true"
        )
    settings = settings_for(Path.cwd())
    plan = plan_ci(
        Path.cwd(),
        os.environ,
        base=base,
        setup=setup,
        suites=suites or default_suites(settings),
        pattern=pattern,
        affects=settings.affects,
    )
    if dry_run:
        for line in [*describe_plan(plan), *describe_steps(plan), *plan.notes]:
            echo(line)
        return
    if setup is None:
        import_from_here()
    try:
        with make_display(quiet=quiet) as display:
            report = ci(
                plan,
                activate=activate,
                metrics=metrics_of(time=time, count=count)[::-1] or None,  # counts come first
                budget=budget,
                limits=[*map(rule_of, settings.limits), *limits],
                against=settings.check.against,
                store=place,
                progress=display.hear,
            )
    except (RunInterruptedError, TorchmarkError) as error:
        if not error.run_id:
            raise
        _end_early(error, place)
    sys.exit(_finish(report, output, fail_on))


def _end_early(error: RunInterruptedError | TorchmarkError, place: str | None) -> NoReturn:
    with opened(place, read_only=True) as store:
        run = store.run(error.run_id)
    fail_with_resume_hint(run, error, place)


def _finish(report: CiReport, output: _Output, fail_on: str) -> ExitCode:
    """Print the report, write the files, and return the exit code."""
    code = None if report.gate is None else code_of_gate(report.gate, fail_on)
    view = _view_of(report, fails=code is ExitCode.REGRESSION)
    if STANDARD_OUTPUT not in [*output.files.values(), output.hud]:
        echo(render_view(view, "text", columns()), nl=False)
    wrote_all = write_documents(
        {**output.files, "hud": output.hud},
        lambda form: _render(report, view, form),
        quiet=output.quiet,
    )
    wrote_all = _add_to_summary(view) and wrote_all
    if code is None and not wrote_all:
        code = ExitCode.ENVIRONMENT
    return code or ExitCode.FINE


def _view_of(report: CiReport, *, fails: bool) -> View:
    plan, lead = report.plan, describe_plan(report.plan)
    if report.gate is None:
        return ci_view.view_without_cases(plan.affected.why, lead=lead, notes=plan.notes)
    return ci_view.make_view(report.gate, fails=fails, lead=lead, notes=plan.notes)


def _render(report: CiReport, view: View, form: str) -> str:
    if form == "hud":
        return hud.render(report.gate.run) if report.gate is not None else "[]\n"
    if form == "json":
        return render_figures(view, _heading(report.plan, report.gate))
    return render_view(view, form)


def _heading(plan: CiPlan, gate: Gate | None) -> dict[str, Any]:
    return {
        "torchmark": "ci",
        "version": 1,
        "base": plan.before.id,
        "head": plan.head.id,
        "run": None if gate is None else gate.run.id,
        "against": None if gate is None else gate.against,
        "cases": plan.pattern or plan.affected.why,
        "notes": plan.notes,
    }


def _add_to_summary(view: View) -> bool:
    """Add the report to the page of a job on GitHub; return whether that was possible."""
    file = os.environ.get(_SUMMARY)
    if not file:
        return True
    try:
        with open(file, "a", encoding="utf-8") as summary:
            summary.write(render_view(view, "markdown"))
    except OSError as error:
        warn(f"{file} cannot be written: {error.strerror}; check {_SUMMARY}")
        return False
    return True

"""`torchmark check`: judge a run against its history, with an exit code for CI."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from torchmark.analyse.gate import DEFAULT_LIMIT, Gate, LimitRule, Outcome
from torchmark.cli.choosing import pattern_option
from torchmark.cli.display import make_display
from torchmark.cli.shell import (
    STANDARD_OUTPUT,
    Decorator,
    ExitCode,
    columns,
    combine,
    echo,
    file_options,
    files_in,
    import_from_here,
    opened,
    store_option,
    tell_damage,
    warn,
    write_documents,
)
from torchmark.commands.check import check
from torchmark.errors import TorchmarkError
from torchmark.model.series import Quantity
from torchmark.report import render_view
from torchmark.report.formats.data import render_figures
from torchmark.report.view import View
from torchmark.report.views import gate as gate_view
from torchmark.settings import LimitSettings, settings_for


class LimitType(click.ParamType[LimitRule]):
    """A limit such as "add=2%" or "add not C++=±0.5%"; without a case it holds for all."""

    name = "limit"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> LimitRule:
        if isinstance(value, LimitRule):
            return value
        pattern, equals, share = str(value).rpartition("=")
        number, sign, rest = share.strip().removeprefix("±").removeprefix("+").partition("%")
        try:
            limit = float(number) / 100
        except ValueError:
            limit = math.nan
        if (pattern.strip() and not equals) or not sign or rest.strip() or not 0 <= limit < 100:
            self.fail(
                f"{value!r} is not CASE=±X%, such as 'add=2%' or 'add not C++=±0.5%'", param, ctx
            )
        return LimitRule(pattern=pattern.strip(), hard=limit)


limit_options: Decorator = combine(
    click.option(
        "--fail-on",
        type=click.Choice(["slower", "any"]),
        default="slower",
        show_default=True,
        help="Exit with code 1 if a case is worse by more than its hard limit; with `any`, also if "
        "it is better by more than that.",
    ),
    click.option(
        "--limit",
        "limits",
        type=LimitType(),
        multiple=True,
        metavar="CASE=±X%",
        help="Hard limit of the cases with these words; may be repeated.  "
        f"[default: from the settings, or {DEFAULT_LIMIT.hard * 100:g}%]",
    ),
)


@click.command("check")
@click.argument("name", metavar="[RUN]", default="latest")
@click.option(
    "--against",
    metavar="BRANCH|RUN|TAG",
    help="What to compare with.  [default: from the settings, or the branch main or master, or "
    "earlier runs on it]",
)
@limit_options
@click.option(
    "--A", "command", metavar="CMD", help="Shell command that activates the baseline's environment."
)
@click.option("--no-again", is_flag=True, help="Do not measure doubtful cases again.")
@pattern_option
@store_option
@click.option("--quiet", is_flag=True, help="Show only the result and errors.")
@file_options
def check_command(
    name: str,
    against: str | None,
    fail_on: str,
    limits: tuple[LimitRule, ...],
    command: str | None,
    no_again: bool,
    pattern: str,
    place: str | None,
    quiet: bool,
    **arguments: Any,
) -> None:
    """Judge a run against the history of its cases; exit with code 1 if a case got worse.

    A new figure is compared with the last stable segment of earlier runs on the same class of
    machines. Times that are near or beyond their limit are measured again before they are reported:
    together with the environment of the baseline if --A activates it, otherwise alone. Changes of
    2 % are found reliably only with --A. RUN is an id, the beginning of an id, a tag, or `latest`
    (the default).

    The exit code is 1 if a case is worse by more than its hard limit, 3 if a case failed or was not
    measured, and 4 if there is no baseline. [[limits]] in torchmark.toml sets soft and hard limits.

    \b
    torchmark check
    torchmark check --against main --limit "add not C++=0.5%" --markdown check.md
    torchmark check --A "source ../base/bin/activate"
    """
    files = files_in(arguments)
    import_from_here()
    settings = settings_for(Path.cwd())
    rules = [*map(rule_of, settings.limits), *limits]
    seen: list[Gate] = []
    cut_short_by: TorchmarkError | KeyboardInterrupt | None = None
    with opened(place, read_only=no_again) as store:
        try:
            with make_display(quiet=quiet) as display:
                gate = check(
                    name,
                    against=against or settings.check.against,
                    limits=rules,
                    pattern=pattern,
                    again=not no_again,
                    A=command,
                    store=store,
                    progress=display.hear,
                    first=seen.append,
                )
        except (TorchmarkError, KeyboardInterrupt) as error:
            if not seen:
                raise
            gate, cut_short_by = _first_only(seen[0], error), error
        is_damaged = tell_damage(store)
    wrote_all = show_gate(gate, files, quiet=quiet)
    if cut_short_by is not None:
        raise cut_short_by
    code = code_of_gate(gate, fail_on)
    if code is None and (is_damaged or not wrote_all):
        code = ExitCode.ENVIRONMENT
    sys.exit(code or ExitCode.FINE)


def _first_only(gate: Gate, cause: TorchmarkError | KeyboardInterrupt) -> Gate:
    """What the gate says of the stored results, if measuring again ended early."""
    why = "it was interrupted" if isinstance(cause, KeyboardInterrupt) else "it failed"
    note = f"doubtful times were not measured again, because {why}; this judges the stored results"
    return replace(gate, notes=(*gate.notes, note))


def show_gate(gate: Gate, files: dict[str, Path | None], *, quiet: bool = False) -> bool:
    """Print the report and write the files; return whether all could be written."""
    view = gate_view.make_view(gate)
    if STANDARD_OUTPUT not in files.values():  # otherwise it has only that document
        echo(render_view(view, "text", columns()), nl=False)
    return write_documents(files, lambda form: render_gate(gate, view, form), quiet=quiet)


def render_gate(gate: Gate, view: View, form: str) -> str:
    if form == "json":
        heading = {
            "torchmark": "check",
            "version": 1,
            "run": gate.run.id,
            "against": gate.against,
            "again": gate.again,
            "notes": gate.notes,
        }
        return render_figures(view, heading)
    return render_view(view, form)


def code_of_gate(gate: Gate, fail_on: str) -> ExitCode | None:
    """The exit code for what the gate says; None if nothing is wrong."""
    if gate.has_regression or (fail_on == "any" and gate.has_change):
        return ExitCode.REGRESSION
    if gate.rows_with(Outcome.BROKEN):
        return ExitCode.CASE_FAILED
    if not gate.was_judged:
        warn("there is no baseline: measure it first, e.g. with `torchmark run` on the main branch")
        return ExitCode.ENVIRONMENT
    return None


def rule_of(limit: LimitSettings) -> LimitRule:
    """The rule of an entry of [[limits]], which has per cent."""
    return LimitRule(
        pattern=limit.cases,
        quantity=None if limit.metric is None else Quantity(limit.metric),
        soft=None if limit.soft is None else limit.soft / 100,
        hard=None if limit.hard is None else limit.hard / 100,
    )

"""`torchmark ab`: two environments, or two statements, compared so that it can be believed."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.arguments import checked_positive
from torchmark.cli.ab_run import Asked, Kept, compare_all
from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.exit_codes import ExitCode, code_of
from torchmark.cli.files import check_writable, written
from torchmark.cli.running import heed_signals
from torchmark.cli.stores import columns
from torchmark.commands.suite_run import Wanted
from torchmark.define.suites.loading import load_suite
from torchmark.engine.backport import patch, unpatch
from torchmark.engine.paired.plan import BUDGET, Wish
from torchmark.engine.under_test import found
from torchmark.errors import InvalidArgumentError, TorchmarkError
from torchmark.model.result import Metric
from torchmark.report import ab_text
from torchmark.report.ab_formats import RENDERERS
from torchmark.store import default_path, new_run_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchmark.define.suites.loading import LoadedSuite

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("ab")
@click.option("--A", "command_a", metavar="CMD", help="Shell text that leads to environment A.")
@click.option("--B", "command_b", metavar="CMD", help="The same for B, which is compared with A.")
@click.option("--env", "more", multiple=True, metavar="NAME=CMD", help="One more; may be repeated.")
@click.option("--suite", "suites", multiple=True, metavar="S", help="As of run.  [standard]")
@click.option("-k", "pattern", metavar="PATTERN", default="", help="Only cases with these words.")
@click.option("--stmt", "statements", multiple=True, help="Compare this, in place of a suite.")
@click.option("--setup", multiple=True, help="Run before each statement; may be repeated.")
@click.option("--A-stmt", "stmt_a", help="What runs in A …")
@click.option("--B-stmt", "stmt_b", help="… and beside it in B: two ways to do the same.")
@click.option("--time", "time_", is_flag=True, help="Take times, and do not count unless asked.")
@click.option("--count", is_flag=True, help="Count, and take no times unless asked.")
@click.option("--no-cpp", is_flag=True, help="Leave C++ cases out.")
@click.option("--patch-a", is_flag=True, help="Put a Timer into A's torch, as utils_backport.")
@click.option("--patch-b", is_flag=True, help="The same for B.")
@click.option(
    "--unpatch", "unpatch_all", is_flag=True, help="Remove what --patch-a or -b put there; no more."
)
@click.option("--backtest", is_flag=True, help="Skip what is known not to work on old versions.")
@click.option("--budget", type=float, default=BUDGET, show_default=True, help="Seconds per case.")
@click.option(
    "--fail-on",
    type=click.Choice(["slower", "any"]),
    help="Exit with 1 if a case is slower or takes more instructions; any: or fewer, or faster.",
)
@click.option("--json", "json_file", type=_file, help="Every pair and count.")
@click.option("--csv", "csv_file", type=_file, help="A line for each result.")
@click.option("--markdown", "markdown_file", type=_file, help="For a pull request.")
@click.option("--html", "html_file", type=_file, help="One page, with a picture.")
@click.option("--quiet", is_flag=True, help="Show the result alone.")
def command(
    command_a: str | None,
    command_b: str | None,
    more: tuple[str, ...],
    suites: tuple[str, ...],
    pattern: str,
    statements: tuple[str, ...],
    setup: tuple[str, ...],
    stmt_a: str | None,
    stmt_b: str | None,
    time_: bool,
    count: bool,
    no_cpp: bool,
    patch_a: bool,
    patch_b: bool,
    unpatch_all: bool,
    backtest: bool,
    budget: float,
    fail_on: str | None,
    json_file: Path | None,
    csv_file: Path | None,
    markdown_file: Path | None,
    html_file: Path | None,
    quiet: bool,
) -> None:
    """Compare two environments: every case is slower, faster, the same, or unclear.

    An environment is given by the shell text that leads to it; after it `import torch` must work,
    and nothing else is needed there. What is not given is the one that torchmark runs in.

    \b
    torchmark ab --A "source activate base" --B "source activate branch" -k add
    torchmark ab --B "export PYTHONPATH=../patched" --stmt "x + x" --setup "x = torch.ones(9)"
    torchmark ab --A-stmt "x.sum(0)" --B-stmt "torch.sum(x, 0)" --setup "x = torch.ones(64, 64)"
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    sys.path.insert(0, os.curdir)  # modules beside the user can be imported, as with timeit
    commands = _commands(command_a, command_b, more, one_is_enough=stmt_a is not None)
    files = {
        "json": json_file, "csv": csv_file, "markdown": markdown_file, "html": html_file,
    }  # fmt: skip
    check_writable(files.values())
    asked = Asked(
        suites=_suites(suites, statements, stmt_a),
        wanted=Wanted(pattern=pattern, cpp=not no_cpp),
        statements=_statements(statements, stmt_a, stmt_b),
        setup="\n".join(setup) or "pass",
        wish=Wish(
            kinds=_kinds(time=time_, count=count), budget=checked_positive("--budget", budget)
        ),
        backtest=backtest,
    )
    heed_signals()
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(contextlib.closing(found(name, text, _path_of(suites))))
            for name, text in commands
        ]
        if unpatch_all:
            _say([str(unpatch(side.environment)) for side in sides])
            return
        for side, is_wanted in zip(sides, (patch_a, patch_b), strict=False):
            _say([str(patch(side.environment))] if is_wanted else [])
        kept = Kept(file=default_path().parent / "ab" / f"{new_run_id()}.json")
        cut_short_by = compare_all(sides, asked, kept, quiet=quiet)
    _finish(kept, files, fail_on, cut_short_by)


def _finish(
    kept: Kept,
    files: dict[str, Path | None],
    fail_on: str | None,
    cut_short_by: KeyboardInterrupt | TorchmarkError | None,
) -> None:
    """Show and write what there is, and end with the code that says how it went."""
    if cut_short_by is not None and not kept.comparisons:
        click.echo("torchmark: interrupted before anything was compared", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    kept.save()
    results = kept.understood()
    click.echo(ab_text.render(results, width=columns()), nl=False)
    remedy = f"the figures are in {kept.file}"
    wrote_all = written(files, lambda form: RENDERERS[form](results), remedy=lambda _: remedy)
    if isinstance(cut_short_by, TorchmarkError):
        click.echo(f"torchmark: {cut_short_by}\nUntil then: {remedy}", err=True)
        sys.exit(code_of(cut_short_by))
    if cut_short_by is not None:
        click.echo(f"torchmark: interrupted; {remedy}", err=True)
        sys.exit(ExitCode.INTERRUPTED)
    if not wrote_all:
        sys.exit(ExitCode.ENVIRONMENT)
    if fail_on is not None and any(
        each.got_slower or (fail_on == "any" and each.changed) for each in results
    ):
        sys.exit(ExitCode.REGRESSION)
    if any(each.failures for each in results):
        sys.exit(ExitCode.CASE_FAILED)


def _commands(
    a: str | None, b: str | None, more: Sequence[str], *, one_is_enough: bool
) -> list[tuple[str, str]]:
    """Names and source commands; the first is what the others are compared with."""
    commands = []
    if a is not None or b is not None or not more:
        if a is None and b is None and not one_is_enough:
            raise InvalidArgumentError(
                "say what is to be compared: --A and --B (one that is left out is this "
                "environment), or --env NAME=CMD twice, or --A-stmt and --B-stmt"
            )
        # Two statements are compared in one environment unless two are given.
        second = b if b is not None else (a if one_is_enough else None)
        commands = [("A", a or ""), ("B", second or "")]
    for each in more:
        name, is_given, text = each.partition("=")
        if not is_given or not name.strip():
            raise InvalidArgumentError(f"--env {each!r} is not NAME=CMD")
        commands.append((name.strip(), text))
    names = [name for name, _ in commands]
    if len(commands) < 2 or len(set(names)) < len(names):
        raise InvalidArgumentError(
            f"a comparison needs two environments with different names, got {', '.join(names)}"
        )
    return commands


def _suites(
    names: tuple[str, ...], statements: tuple[str, ...], stmt_a: str | None
) -> tuple[LoadedSuite, ...]:
    if statements or stmt_a is not None:
        if names:
            raise InvalidArgumentError("give either --suite or statements, not both")
        return ()
    loaded = tuple(load_suite(name) for name in dict.fromkeys(names or ("standard",)))
    for suite in loaded:
        for failure in suite.failures:
            raise failure
    return loaded


def _statements(
    statements: tuple[str, ...], a: str | None, b: str | None
) -> tuple[tuple[str, str | None], ...]:
    if (a is None) != (b is None):
        raise InvalidArgumentError("--A-stmt and --B-stmt come together")
    pairs: list[tuple[str, str | None]] = [(stmt, None) for stmt in statements]
    return (*pairs, *([(a, b)] if a is not None else []))


def _kinds(*, time: bool, count: bool) -> tuple[Metric, ...]:
    if count:
        check_that_counting_works()
    if not (time or count):
        return (Metric.INSTRUCTIONS, Metric.TIME) if counting_works() else (Metric.TIME,)
    return tuple(k for k, wanted in ((Metric.INSTRUCTIONS, count), (Metric.TIME, time)) if wanted)


def _path_of(suites: Sequence[str]) -> list[str]:
    """Where cases find what lies beside the user and beside the suites."""
    places = [Path(name) for name in suites if Path(name).exists()]
    return ["", *(str((p if p.is_dir() else p.parent).resolve()) for p in places)]


def _say(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(line, err=True)

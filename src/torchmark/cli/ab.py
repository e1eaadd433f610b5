"""`torchmark ab`: compare two environments, or two statements, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from torchmark.analyse.ab import judge, pairs_of
from torchmark.arguments import check_positive
from torchmark.cli.following import (
    RunOptions,
    import_option,
    metric_options,
    metrics_of,
    report_run,
    run_options,
    timeout_option,
)
from torchmark.cli.shell import Percent, echo, fail_on_option, find_regression, import_from_here
from torchmark.commands.ab import DETECT_BUDGET, ab, remove_timers
from torchmark.commands.functions import BUDGET
from torchmark.errors import InvalidArgumentError
from torchmark.model.run import TIME_LIMIT


@click.command("ab")
@click.option("--A", "A", metavar="CMD", help="Shell command that activates environment A.")
@click.option(
    "--B", "B", metavar="CMD", help="Shell command that activates B, to be compared with A."
)
@click.option(
    "--env",
    "more",
    multiple=True,
    metavar="NAME=CMD",
    help="Another environment, compared with the first; may be repeated.",
)
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="SUITE",
    help="Suite to compare; same names as `torchmark run`; may be repeated.  [default: standard]",
)
@click.option(
    "-k", "pattern", metavar="PATTERN", default="", help="Compare only cases with these words."
)
@click.option(
    "--stmt",
    "statements",
    multiple=True,
    metavar="STMT",
    help="Statement to compare, instead of a suite; may be repeated.",
)
@click.option(
    "--setup",
    multiple=True,
    metavar="CODE",
    help="Run CODE before each statement; may be repeated.",
)
@click.option(
    "--A-stmt", "a_stmt", metavar="STMT", help="Statement to run in A, compared with --B-stmt in B."
)
@click.option("--B-stmt", "b_stmt", metavar="STMT", help="Statement to run in B.")
@metric_options
@click.option("--no-cpp", is_flag=True, help="Leave out C++ cases.")
@click.option(
    "--patch-a",
    is_flag=True,
    help="Add a backport of Timer to A's torch, as torch.utils_backport, for scripts in A.",
)
@click.option("--patch-b", is_flag=True, help="The same for B.")
@click.option("--unpatch", is_flag=True, help="Remove the backport from all environments and exit.")
@click.option(
    "--backtest", is_flag=True, help="Skip cases known not to work on old versions of torch."
)
@click.option(
    "--budget",
    type=float,
    metavar="SECONDS",
    help="Time that each case may take. Clear cases leave theirs to unclear ones.  "
    f"[default: {BUDGET:g}, with --detect {DETECT_BUDGET:g}, not shared]",
)
@click.option(
    "--detect",
    type=Percent(),
    metavar="X%",
    help="Time each case until a change of X % is detectable; the expected duration is printed.",
)
@timeout_option
@import_option
@fail_on_option
@run_options("fail_on")
def ab_command(
    asked: RunOptions, more: tuple[str, ...], fail_on: str | None, unpatch: bool, **options: Any
) -> None:
    """Compare two environments, and judge each case: slower, faster, same or unclear.

    An environment is given by the shell command that activates it. Only torch must be installed in
    it. If you leave out --A or --B, that side is the environment that torchmark runs in. Every
    result is stored as soon as it exists: after Ctrl-C or a crash, --resume measures what is
    missing.

    \b
    torchmark ab --A "source activate base" --B "source activate branch" -k add
    torchmark ab --B "export PYTHONPATH=../patched" --stmt "torch.ones(9)"
    torchmark ab --A-stmt "x + x" --B-stmt "2 * x" --setup "x = torch.ones(9)"
    torchmark ab --resume latest
    """
    import_from_here()
    wanted: dict[str, Any] = {}
    if asked.resume is None:
        environments = _parse_environments(more)
        if unpatch:
            for line in remove_timers(options["A"], options["B"], environments):
                echo(line, err=True)
            return
        wanted = {"environments": environments, **_wanted(**options)}
    report_run(
        asked,
        lambda store, **keeping: ab(store=store, **keeping, **wanted),
        judge=lambda run: find_regression(fail_on, (judge(run, pair) for pair in pairs_of(run))),
    )


def _wanted(
    *,
    setup: tuple[str, ...],
    time: bool,
    count: bool,
    no_cpp: bool,
    patch_a: bool,
    patch_b: bool,
    budget: float | None,
    timeout: float | None,
    **others: Any,
) -> dict[str, Any]:
    """The options under the names that `torchmark.ab` has for them; raises for a wrong number."""
    return {
        **others,
        "setup": "\n".join(setup) or "pass",
        "metrics": metrics_of(time=time, count=count)[::-1] or None,  # counts come first
        "cpp": not no_cpp,
        "patch": [name for name, given in (("A", patch_a), ("B", patch_b)) if given],
        "budget": budget if budget is None else check_positive("--budget", budget),
        "timeout": TIME_LIMIT if timeout is None else check_positive("--timeout", timeout),
    }


def _parse_environments(given: Sequence[str]) -> dict[str, str]:
    parsed: dict[str, str] = {}
    for each in given:
        name, is_given, text = each.partition("=")
        if not is_given or not name.strip():
            raise InvalidArgumentError(
                f"--env {each!r} is not NAME=CMD; write, for example, --env B='source b/activate'"
            )
        if name.strip() in parsed:
            raise InvalidArgumentError(
                f"two environments are called {name.strip()}; give each --env another name"
            )
        parsed[name.strip()] = text
    return parsed

"""`torchmark overrides ladder`: the suite `overrides`, each case beside the plain Tensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from torchmark.analyse.overheads import ladders_of
from torchmark.cli.abilities import check_that_counting_works, counting_works
from torchmark.cli.files import check_writable, written
from torchmark.cli.running import (
    RunOptions,
    exit_as_it_went,
    heed_signals,
    run_suites,
    say_what_is_kept,
)
from torchmark.cli.stores import columns, opened, store_option
from torchmark.commands.suite_run import Wanted
from torchmark.define.suites.overrides import PLAIN
from torchmark.engine.zygote.cases import TIME_LIMIT
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.report import overheads_json, overheads_markdown, overheads_text
from torchmark.settings import settings_for
from torchmark.store import open_store

if TYPE_CHECKING:
    from torchmark.model.result import Result
    from torchmark.model.run import Run

_SUITE = "overrides"
_RENDERERS = {"markdown": overheads_markdown.render, "json": overheads_json.render}

_file = click.Path(dir_okay=False, path_type=Path)


@click.command("ladder")
@click.option("--count/--no-count", default=None, help="Count instructions too.  [if possible]")
@click.option("--run", "done", metavar="RUN", help="Of a run in the store; measure nothing.")
@store_option
@click.option("--markdown", "markdown_file", type=_file, help="Tables for a pull request.")
@click.option("--json", "json_file", type=_file, help="Every figure of the ladder.")
def command(
    count: bool | None,
    done: str | None,
    place: str | None,
    markdown_file: Path | None,
    json_file: Path | None,
) -> None:
    """Time and count the suite `overrides`, and show what each kind of input has over a Tensor.

    The run is kept in the store like any other; --run shows the ladder of one that is there.

    \b
    torchmark overrides ladder
    torchmark overrides ladder --no-count --markdown ladder.md
    torchmark run overrides --repeats 5 && torchmark overrides ladder --run latest
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if done is not None and count is not None:
        raise InvalidArgumentError("--run shows what was measured; leave --count, --no-count out")
    files = {"markdown": markdown_file, "json": json_file}
    check_writable(files.values())
    was_interrupted = False
    if done is not None:
        run, results = _found(done, place)
    else:
        run, results, was_interrupted = _measured(count, place)
    ladders = ladders_of(results, PLAIN)
    click.echo(overheads_text.render(run, ladders, width=columns()), nl=False)
    if was_interrupted:
        say_what_is_kept(run, results, place)
    wrote_all = written(
        files,
        lambda form: _RENDERERS[form](run, ladders),
        remedy=lambda form: f"torchmark overrides ladder --run {run.id} --{form} makes it again",
    )
    exit_as_it_went(results, was_interrupted=was_interrupted, wrote_all=wrote_all)


def _found(name: str, place: str | None) -> tuple[Run, list[Result]]:
    with opened(place) as store:
        run = store.run(name)
        results = [each for each in store.results(run.id) if each.case.label[:1] == (_SUITE,)]
    if not results:
        raise InvalidArgumentError(
            f"run {run.id} has no results of this suite; `torchmark run {_SUITE}` makes some"
        )
    return run, results


def _measured(count: bool | None, place: str | None) -> tuple[Run, list[Result], bool]:
    """A new run, its results, and whether Ctrl-C cut it short."""
    if count:
        check_that_counting_works()
    is_counted = counting_works() if count is None else count
    options = RunOptions(
        suites=(_SUITE,),
        wanted=Wanted(kinds=(Metric.TIME, Metric.INSTRUCTIONS) if is_counted else (Metric.TIME,)),
        repeats=1,
        timeout=TIME_LIMIT,
        place=place if place is not None else settings_for(Path.cwd()).store,
        tags=(),
    )
    heed_signals()
    with open_store(options.place) as store:
        run, was_interrupted = run_suites(options, store, None, quiet=False)
        return run, store.results(run.id), was_interrupted

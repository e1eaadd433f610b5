"""The options `-k` and `--sort`: which cases of stored runs are shown, and in which order.

Cases stay under the headings of their groups. A group has the place of its first case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click
import msgspec

from torchmark.analyse.estimates import CountChange, time_of
from torchmark.analyse.run_differences import RunDifferences, TimeChange
from torchmark.cli.shell import Decorator
from torchmark.define.selection import selected
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric, PairedTiming, Result
from torchmark.model.run import Run
from torchmark.model.units import collect
from torchmark.report.names import group_of

Change = TypeVar("Change", TimeChange, CountChange)

pattern_option = click.option(
    "-k",
    "pattern",
    metavar="PATTERN",
    default="",
    help="Show only cases with these words, e.g. 'add and not C++'.",
)


def sort_option(*keys: str, text: str) -> Decorator:
    """Make the option `--sort`, whose values are the keys; the first is the default."""
    kind = click.Choice(keys)
    return click.option("--sort", type=kind, default=keys[0], show_default=True, help=text)


def keep_cases(runs: Sequence[Run], pattern: str) -> list[Run]:
    """Return the runs with only the cases that match the pattern; raise an error if none does."""
    known = {each.case.id: each.case for run in runs for each in (*run.plan, *run.results)}
    wanted = {case.id for case in selected(known.values(), pattern)}
    if known and not wanted:
        names = " and ".join(run.id for run in runs)
        raise InvalidArgumentError(
            f"no case of {names} matches {pattern!r}; give other words, or leave -k out"
        )
    return [
        msgspec.structs.replace(
            run,
            plan=tuple(each for each in run.plan if each.case.id in wanted),
            results=tuple(each for each in run.results if each.case.id in wanted),
        )
        for run in runs
    ]


def sort_run(run: Run, key: str) -> Run:
    """Sort the cases of a run: as in the suite, by name, or the slowest first."""
    if key == "suite":
        return run
    seconds: dict[str, float] = {}
    for each in run.results:
        if each.metric is Metric.TIME:
            seconds[each.case.id] = _seconds_in(each)
    places: dict[str, Callable[[Any], Any]] = {
        "name": lambda each: each.case.title.lower(),
        "time": lambda each: -seconds.get(each.case.id, 0.0),
    }
    return msgspec.structs.replace(
        run,
        plan=tuple(sorted(run.plan, key=places[key])),
        results=tuple(sorted(run.results, key=places[key])),
    )


def _seconds_in(result: Result) -> float:
    if isinstance(result.payload, PairedTiming):
        return result.payload.a_seconds
    time = time_of(result)
    return 0.0 if time is None else time.median


def sort_differences(differences: RunDifferences, key: str) -> RunDifferences:
    """Sort as in the second run, by name, the slowest first, or the largest slowdown first."""
    if key == "suite":
        return differences
    names: Callable[[Any], Any] = lambda each: each.case.title.lower()  # noqa: E731
    of_times: dict[str, Callable[[TimeChange], Any]] = {
        "name": names,
        "time": lambda each: -each.after.median,
        "change": lambda each: -each.ratio,
    }
    of_counts: dict[str, Callable[[CountChange], Any]] = {
        "name": names,
        "time": lambda each: -each.after,
        "change": lambda each: -each.share,
    }
    return replace(
        differences,
        times=_under_headings(sorted(differences.times, key=of_times[key])),
        counts=_under_headings(sorted(differences.counts, key=of_counts[key])),
    )


def _under_headings(changes: Iterable[Change]) -> tuple[Change, ...]:
    groups = collect((group_of(each.case), each) for each in changes)
    return tuple(each for members in groups.values() for each in members)

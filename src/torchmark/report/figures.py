"""Figures and facts of a run in words, the same in every format for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torchmark.analyse.instructions import instructions_per_run
from torchmark.model.result import Metric, Status
from torchmark.model.units import select_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchmark.model.measurement import Measurement
    from torchmark.model.result import Result
    from torchmark.model.run import Run
    from torchmark.report.run_table import RunRow

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NAMED = 3
"""Cases that are named with a doubt; more are counted."""


def printable(text: str) -> str:
    r"""Text without what would move a terminal's cursor, colour it, or be no valid page.

    >>> printable("\x1b[31mred\x1b[0m\r\n")
    'red\n'
    """
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(1.2e-6), seconds_text(0.9999999), seconds_text(0)
    ('1.200 us', '1000 ms', '0 ns')
    """
    unit, scale = select_unit(seconds)
    return f"{f'{seconds / scale:#.4g}'.rstrip('.') if seconds else '0'} {unit}"


def time_text(measurement: Measurement) -> str:
    """The median and how far its 95 % interval reaches, with a mark if it is doubtful."""
    mark = " (!)" if measurement.doubts else ""
    return f"{seconds_text(measurement.median)} ± {reach_text(measurement)}{mark}"


def reach_text(measurement: Measurement) -> str:
    """The longer side of the interval, as a share of the median."""
    median, (low, high) = measurement.median, measurement.median_interval
    share = max(high - median, median - low) / median if median else 0.0
    return f"{share * 100:.1f} %" if share < 10 else "large"


def result_text(row: RunRow, kind: Metric) -> str:
    """The cell of a case: its figure, or the word for why there is none."""
    result = row.time if kind is Metric.TIME else row.count
    if result is None:
        return "–" if kind in row.planned else ""
    if result.status is not Status.DONE:
        return str(result.status.value)
    if result.measurement is not None and result.measurement.raw_times:
        return time_text(result.measurement)
    if result.counts is not None:
        return f"{float(instructions_per_run(result.counts)):,.1f}"
    return "no figures"


def doubt_texts(results: Sequence[Result]) -> list[str]:
    """One text for each kind of doubt: the first of its kind in full, the others by name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for result in results:
        measurement = result.measurement
        for doubt in measurement.doubts if measurement and measurement.raw_times else ():
            found.setdefault(doubt.kind.value, []).append((result.case.title, doubt.text))
        if result.status is Status.DONE and result.reason:
            found.setdefault("repeats differ", []).append((result.case.title, result.reason))
    return [_doubt_text(kind, cases) for kind, cases in found.items()]


def first_line(text: str) -> str:
    r"""The first line that says something, with the next where it only announces that.

    >>> first_line("does not compile:\n  'y' was not declared\n    x + y")
    "does not compile: 'y' was not declared"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


def heading(run: Run) -> str:
    """What the run is: its id, tags, state and time."""
    tags = f" ({', '.join(run.tags)})" if run.tags else ""
    return f"Run {run.id}{tags}, {run.state.value}, started {run.started}"


def environment_line(environment: Mapping[str, Any]) -> str:
    """The facts that most readers want, of those that are there."""
    torch, machine = _part(environment, "torch"), _part(environment, "machine")
    git = _part(environment, "git")
    facts = [
        f"torch {torch['version']}" if "version" in torch else "",
        f"Python {environment['python']}" if "python" in environment else "",
        str(machine.get("cpu", "")),
        f"{machine['usable_cores']} cores" if "usable_cores" in machine else "",
        f"load {machine['load']}" if "load" in machine else "",
        f"commit {str(git['commit'])[:10]}" if "commit" in git else "",
        "with changes" if git.get("dirty") else "",
    ]
    return ", ".join(fact for fact in facts if fact)


def environment_facts(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every fact by its dotted name.

    >>> list(environment_facts({"torch": {"version": "2.13.0"}, "python": "3.11"}))
    [('torch.version', '2.13.0'), ('python', '3.11')]
    """
    for name, value in environment.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", text) for inner, text in environment_facts(value))
        elif value is not None:
            yield name, str(value)


def _part(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = environment.get(name)
    return part if isinstance(part, dict) else {}


def _doubt_text(kind: str, cases: Sequence[tuple[str, str]]) -> str:
    name, text = cases[0]
    others = [other for other, _ in cases[1:]]
    also = f". Also: {'; '.join(others[:_NAMED])}" if others else ""
    more = f"; {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"{kind}, {name}: {text}{also}{more}"

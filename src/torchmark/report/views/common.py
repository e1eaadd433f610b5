"""What the views of all kinds of runs share: lead, environments, failures, skips, warnings."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from torchmark.analyse.estimates import Verdict, instructions_of, time_of
from torchmark.model.result import Counts, Status
from torchmark.model.units import ordered_unique
from torchmark.report.figures import (
    environment_facts,
    environment_line,
    first_line,
    printable,
    seconds_text,
)
from torchmark.report.view import Cell, Column, Detail, FactTable, Mark, Row, Section, Table, View
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torchmark.analyse.estimates import MeasuredTime
    from torchmark.model.case import Case
    from torchmark.model.result import Result
    from torchmark.model.run import Environment, Run
    from torchmark.report.view import Value

_NAMED = 3
"""Cases that are named with a warning; more are counted."""

_REASON_LINES = 12
"""Of a failure that text shows; pages have all of it, and what the case printed."""


def frame_view(
    run: Run, name: str, *, summary: str, sections: Sequence[Section], data: Table
) -> View:
    """The view of a run whose cases each have their own results, with what went wrong at the end.

    A run that was not stored has no id: it cannot be shown again, and so has no title.
    """
    return View(
        title=title_of(run, name) if run.id else "",
        lead=lead_of(run) if run.id else (),
        summary=summary,
        warnings=warning_texts(results_in_order(run)),
        notes=run.notes,
        sections=(*sections, *failure_sections(run), *skip_sections(run)),
        environments=fact_table(run.environments),
        settings=setting_facts(run),
        data=data,
    )


def title_of(run: Run, name: str = "Run") -> str:
    """
    >>> from torchmark.model.run import Run, RunKind
    >>> title_of(Run(id="20261115-221530-a1b2c3", kind=RunKind.RUN, started="", tags=("base",)))
    'Run 20261115-221530-a1b2c3 (base)'
    """
    tags = f" ({', '.join(run.tags)})" if run.tags else ""
    return f"{name} {run.id}{tags}"


def short_names(cases: Sequence[Case]) -> list[str]:
    """The names of cases for a chart; with their facts where names alone are not unique."""
    names = [case.name for case in cases]
    return names if len(set(names)) == len(names) else [case.title for case in cases]


def lead_of(run: Run) -> tuple[str, ...]:
    """How far the run has come, when it began, and where it ran."""
    return (f"{run.state.value}, started {run.started}", *environment_lines(run.environments))


def environment_lines(environments: Sequence[Environment]) -> list[str]:
    """A line for each environment that is known, with its name where it has one."""
    lines = [(each.name, environment_line(each.facts)) for each in environments]
    return [f"{name}: {line}" if name else line for name, line in lines if line]


def fact_table(environments: Sequence[Environment]) -> FactTable | None:
    """Every fact of the environments, those of several lines last; None if nothing is known."""
    known = [dict(environment_facts(each.facts)) for each in environments]
    names = ordered_unique(name for facts in known for name in facts)
    if not names:
        return None
    names.sort(key=lambda name: any("\n" in facts.get(name, "") for facts in known))
    return FactTable(
        names=tuple(each.name for each in environments),
        facts=tuple((name, tuple(facts.get(name, "") for facts in known)) for name in names),
    )


def setting_facts(run: Run, left_out: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """The settings by their dotted names, without those that a view tells otherwise."""
    settings = {name: value for name, value in run.settings.items() if name not in left_out}
    facts = dict(environment_facts(settings))
    if "effort.limits" in facts:
        limits = Limits(*settings["effort"]["limits"])
        facts["effort.limits"] = (
            f"± {limits.precision * 100:g} %, after {limits.min_run_time:g} s to "
            f"{limits.max_run_time:g} s of measured blocks"
        )
    return tuple(facts.items())


def results_in_order(run: Run) -> list[Result]:
    """The results in the order of the plan; what was not planned comes last."""
    found = {result.key: result for result in run.results}
    keys = ordered_unique([*(planned.key for planned in run.plan), *found])
    return [found[key] for key in keys if key in found]


def count_statuses(run: Run) -> str:
    """What came of the measurements: "12 done, 1 failed, 3 not measured"."""
    counts = Counter(result.status for result in run.results)
    there = {result.key for result in run.results}
    missing = sum(key not in there for key in {planned.key for planned in run.plan})
    parts = [f"{counts[Status.DONE]} done"]
    parts += [f"{counts[Status.FAILED]} failed"] if counts[Status.FAILED] else []
    parts += [f"{counts[Status.SKIPPED]} skipped"] if counts[Status.SKIPPED] else []
    parts += [f"{missing} not measured"] if missing else []
    return ", ".join(parts)


def group_of(case: Case) -> str:
    return case.label[0] if case.label else ""


def name_in_group(case: Case) -> str:
    """The title of a case without the name of its group, unless it has no other."""
    return replace(case, label=case.label[1:]).title if len(case.label) > 1 else case.title


def time_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """The time with its interval, or why there is none."""
    time = time_of(result)
    if time is None:
        return empty_cell(result, is_planned=is_planned)
    low, high = time.interval
    hints = [
        f"{seconds_text(max(low, 0.0))} to {seconds_text(high)}, {time.samples} samples",
        *map(str, time.warnings),
    ]
    return Cell(
        value=time.median,
        interval=(low, high),
        mark=Mark.DOUBTFUL if time.warnings else Mark.PLAIN,
        hint="; ".join(hints),
    )


def instructions_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """The instructions of one run, or why there are none."""
    if result is None or not isinstance(result.payload, Counts):
        return empty_cell(result, is_planned=is_planned)
    return Cell(value=float(instructions_of(result.payload)))


def empty_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """Why a case has no figure: it failed, was skipped, or is still to be measured."""
    if result is None:
        return Cell(text="–", mark=Mark.QUIET, hint="not measured") if is_planned else Cell()
    if result.status is Status.FAILED:
        hint = first_line(result.reason)
        return Cell(text="failed", mark=Mark.BAD, hint=hint, link=failure_id(result.case))
    if result.status is Status.SKIPPED:
        return Cell(text="skipped", mark=Mark.QUIET, hint=first_line(result.reason))
    return Cell(text="no figures", mark=Mark.QUIET)


_VERDICT_MARKS = {
    Verdict.SLOWER: Mark.BAD,
    Verdict.MORE: Mark.BAD,
    Verdict.FASTER: Mark.GOOD,
    Verdict.FEWER: Mark.GOOD,
    Verdict.UNCLEAR: Mark.DOUBTFUL,
    Verdict.SAME: Mark.QUIET,
    Verdict.CLOSE: Mark.QUIET,
}


def verdict_cell(verdict: Verdict) -> Cell:
    return Cell(value=verdict.value, mark=_VERDICT_MARKS[verdict])


def code_details(case: Case) -> tuple[Detail, ...]:
    """What ran, for pages."""
    parts = (
        ("Global setup", case.global_setup),
        ("Setup", case.setup),
        ("Statement", case.stmt),
    )
    return tuple(
        Detail(title=title, code=code, is_page_only=True) for title, code in parts if code.strip()
    )


def warning_texts(results: Iterable[Result]) -> tuple[str, ...]:
    """A sentence for each kind of warning: the first case in full, the others by name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for result in results:
        time = time_of(result)
        for warning in time.warnings if time else ():
            found.setdefault(warning.kind.value, []).append((result.case.title, warning.text))
        if result.status is Status.DONE and result.reason:
            found.setdefault("repeats differ", []).append((result.case.title, result.reason))
    return tuple(_warning_text(kind, cases) for kind, cases in found.items())


def _warning_text(kind: str, cases: Sequence[tuple[str, str]]) -> str:
    name, text = cases[0]
    others = [other for other, _ in cases[1:]]
    also = f". Also: {'; '.join(others[:_NAMED])}" if others else ""
    more = f"; {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"{kind}, {name}: {text}{also}{more}"


def failure_id(case: Case) -> str:
    """What links to the failure of a case name."""
    return f"failure-{case.id}"


def failure_sections(run: Run) -> tuple[Section, ...]:
    """Each failure with its reason and output, told once where all metrics fail alike."""
    failures: dict[tuple[Case, str], list[Result]] = {}
    for result in results_in_order(run):
        if result.status is Status.FAILED:
            failures.setdefault((result.case, result.reason), []).append(result)
    if not failures:
        return ()
    rows: list[Row] = []
    for (case, reason), results in failures.items():
        is_first = all(row.id != failure_id(case) for row in rows)
        rows.append(
            Row(
                cells=(
                    Cell(value=case.title),
                    Cell(value=" and ".join(ordered_unique(r.metric.value for r in results))),
                    Cell(value=first_line(reason), mark=Mark.BAD),
                ),
                details=(Detail(lines=(_cut_reason(reason),)), *_outputs(results)),
                id=failure_id(case) if is_first else "",
            )
        )
    has_output = any(each.stdout or each.stderr for same in failures.values() for each in same)
    note = f"What the cases printed: torchmark show {run.id} --html FILE" if has_output else ""
    return (
        Section(
            id="failures",
            title="Failures",
            table=Table(
                columns=(
                    Column(name="case"),
                    Column(name="metric"),
                    Column(name="reason", is_wide_only=True),
                ),
                rows=tuple(rows),
            ),
            footnotes=(note,) if note and run.id else (),
            mark=Mark.BAD,
        ),
    )


def _cut_reason(reason: str) -> str:
    given = printable(reason).strip().splitlines()
    more = len(given) - _REASON_LINES
    return "\n".join([*given[:_REASON_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _outputs(results: Sequence[Result]) -> tuple[Detail, ...]:
    """For pages: the whole reason where it has several lines, what was printed, and what ran."""
    first = results[0]
    parts = [
        ("Reason", first.reason if "\n" in first.reason.strip() else ""),
        *((f"Standard output ({each.metric.value})", each.stdout) for each in results),
        *((f"Standard error ({each.metric.value})", each.stderr) for each in results),
    ]
    outputs = [Detail(title=title, code=text, is_page_only=True) for title, text in parts if text]
    return (*outputs, *code_details(first.case))


def skip_sections(run: Run) -> tuple[Section, ...]:
    """What was skipped: a line for each reason."""
    by_reason: dict[str, list[Result]] = {}
    for result in results_in_order(run):
        if result.status is Status.SKIPPED:
            by_reason.setdefault(first_line(result.reason), []).append(result)
    if not by_reason:
        return ()
    listing = [
        f"{same[0].case.title if len(same) == 1 else f'{len(same)} measurements'}: {reason}"
        for reason, same in by_reason.items()
    ]
    return (Section(id="skipped", title="Skipped", listing=tuple(listing)),)


def data_table(names: Sequence[str], results: Iterable[Mapping[str, Value]]) -> Table:
    """A table of plain values: a row for each result, empty where it lacks a name."""
    return Table(
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(value_row(values.get(name) for name in names) for values in results),
    )


def time_values(time: MeasuredTime | None, name: str, ends: str) -> dict[str, Value]:
    """What data have of a time, by the name of its column and that of its interval."""
    if time is None:
        return {}
    return {
        name: time.median,
        f"{ends}_low": time.interval.low,
        f"{ends}_high": time.interval.high,
        "samples": time.samples,
        "warnings": "; ".join(warning.kind.value for warning in time.warnings),
    }


def value_row(values: Iterable[Value]) -> Row:
    """A row of plain values."""
    return Row(cells=tuple(Cell(value=value) for value in values))

"""Parts that the views of all kinds of runs share: lead, environments, failures, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torchmark.analyse.estimates import MeasuredTime, Verdict, instructions_of, time_of
from torchmark.model.case import Case
from torchmark.model.result import Counts, Metric, Result, Status
from torchmark.model.result_warnings import kinds_text
from torchmark.model.run import Environment, Run
from torchmark.model.units import collect, first_line, ordered_unique
from torchmark.printable import printable
from torchmark.report.figures import (
    amount_text,
    environment_facts,
    environment_line,
    instructions_text,
    number_text,
    reach,
    seconds_text,
)
from torchmark.report.names import name_some, short_function
from torchmark.report.view import (
    Cell,
    Detail,
    FactTable,
    Field,
    Mark,
    Row,
    Section,
    Table,
    Value,
    View,
    field,
    make_table,
)
from torchmark_probe.loops.intervals import Interval
from torchmark_probe.loops.sampling import Limits

_NAMED = 3
"""Number of cases that a warning names; more are counted."""

_REASON_LINES = 12
"""Maximum lines of a failure in text; pages show all lines, and the output of the case."""


def frame_view(
    run: Run, name: str, *, summary: str, sections: Sequence[Section], data: Table
) -> View:
    """The view of a run, with its failures and skips at the end.

    A run that is not stored has no ID, so its view has no title and no lead.
    """
    return View(
        title=title_of(run, name) if run.id else "",
        lead=lead_of(run) if run.id else (),
        summary=summary,
        warnings=warning_texts(results_in_order(run)),
        notes=run.notes,
        sections=(*sections, failure_section(run), skip_section(run)),
        environments=fact_table(run.environments),
        settings=setting_facts(run.settings),
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


def run_line(run: Run) -> str:
    """One line: the run, its state, and when it started."""
    return f"{title_of(run)}, {run.state.value}, started {run.started}"


def lead_of(run: Run) -> tuple[str, ...]:
    """The state of the run, when it started, and where it ran."""
    lines = [(each.name, environment_line(each.facts)) for each in run.environments]
    told = [f"{name}: {line}" if name else line for name, line in lines if line]
    return (f"{run.state.value}, started {run.started}", *told, *imports_line(run))


def imports_line(run: Run) -> list[str]:
    """The modules that were imported for the cases, if there are any."""
    return [f"imported: {', '.join(run.imports)}"] if run.imports else []


def fact_table(environments: Sequence[Environment]) -> FactTable | None:
    """All facts of the environments, those with several lines last; None if there are none."""
    facts = sorted(fact_rows(environments), key=lambda fact: "\n" in "".join(fact[1]))
    names = tuple(each.name for each in environments)
    return FactTable(names=names, facts=tuple(facts)) if facts else None


def fact_rows(environments: Sequence[Environment]) -> list[tuple[str, tuple[str, ...]]]:
    """The facts by dotted name, each with its value in every environment."""
    known = [dict(environment_facts(each.facts)) for each in environments]
    names = ordered_unique(name for facts in known for name in facts)
    return [(name, tuple(facts.get(name, "") for facts in known)) for name in names]


_SECONDS = ("min_run_time", "effort.timeout", "effort.budget", "effort.pair_seconds")
"""Settings in seconds."""


def setting_facts(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The settings by dotted name, with their units; empty settings are left out."""
    facts = {name: text for name, text in environment_facts(settings) if text}
    facts |= {name: f"{float(facts[name]):g} s" for name in _SECONDS if name in facts}
    if "effort.limits" in facts:
        limits = Limits(*settings["effort"]["limits"])
        facts["effort.limits"] = (
            f"± {limits.precision * 100:g} %, after {limits.min_run_time:g} s to "
            f"{limits.max_run_time:g} s of measured blocks"
        )
    if "effort.detect" in facts:
        facts["effort.detect"] = f"{settings['effort']['detect'] * 100:g} %"
    if "effort.memory" in facts:
        facts["effort.memory"] = f"{amount_text(settings['effort']['memory'])}B"
    return tuple(facts.items())


def results_in_order(run: Run) -> list[Result]:
    """The results in the order of the plan; results that were not planned come last."""
    found = {result.key: result for result in run.results}
    keys = ordered_unique([*(planned.key for planned in run.plan), *found])
    return [found[key] for key in keys if key in found]


_NOT_DONE = ("failed", "skipped", "partial", "not measured")


def count_statuses(run: Run) -> str:
    """The number of results by status: "12 done, 1 failed, 3 not measured".

    Controls are not counted, because they are not planned.
    """
    results = [result for result in run.results if result.metric is not Metric.CONTROL]
    counts = Counter(result.status.value for result in results)
    there = {result.key for result in results}
    counts["not measured"] = len({planned.key for planned in run.plan} - there)
    told = [f"{counts[word]} {word}" for word in _NOT_DONE if counts[word]]
    return ", ".join([f"{counts['done']} done", *told])


def time_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """The time with its interval, or why there is no time."""
    time = time_of(result)
    if time is None:
        return empty_cell(result, is_planned=is_planned)
    return measured_cell(time)


def measured_cell(time: MeasuredTime, text: str | None = None, *more: str) -> Cell:
    """A time with its interval; `more` is added to the hint."""
    if time.interval is None:
        text = text or unknown_reach_text(time.median)
    return Cell(
        time.median,
        text,
        time.interval,
        mark=warning_mark(time),
        hint="; ".join([_interval_sentence(time), *map(str, time.warnings), *more]),
    )


def unknown_reach_text(seconds: float) -> str:
    """A time that has too few samples for an interval."""
    return f"{seconds_text(seconds)} ± {reach(seconds, None)}"


def _interval_sentence(time: MeasuredTime) -> str:
    """The ends of the interval, and the number of samples."""
    samples = number_text(time.samples, "sample")
    if time.interval is None:
        return f"{samples}, too few for an interval"
    low, high = time.interval
    return f"{seconds_text(max(low, 0.0))} to {seconds_text(high)}, {samples}"


def warning_mark(time: MeasuredTime) -> Mark:
    return Mark.DOUBTFUL if time.warnings or time.interval is None else Mark.PLAIN


def instructions_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """The instructions of one run, or why there is no count."""
    if result is None or not isinstance(result.payload, Counts):
        return empty_cell(result, is_planned=is_planned)
    return Cell(float(instructions_of(result.payload)))


def signed_cell(count: float | None) -> Cell:
    """A difference of instructions."""
    if not count:
        return Cell(count, None if count is None else "0")
    return Cell(count, instructions_text(count, "+"))


def function_cell(function: str) -> Cell:
    """A function of callgrind; text omits the folders of its file and library."""
    return Cell(function, short_function(function))


def empty_cell(result: Result | None, *, is_planned: bool = True) -> Cell:
    """Why a case has no figure: it failed, was skipped, or was not measured."""
    if result is None:
        return NOT_MEASURED if is_planned else Cell()
    if result.status is Status.DONE:
        return Cell(text="no figures", mark=Mark.QUIET)
    has_link = result.status is Status.FAILED
    return reason_cell(result.status, result.reason, failure_id(result.case) if has_link else "")


NOT_MEASURED = Cell(text="–", mark=Mark.QUIET, hint="not measured")


def reason_cell(status: Status, reason: str, link: str) -> Cell:
    """The status of a failed or skipped case, with the reason as a hint."""
    mark = Mark.BAD if status is Status.FAILED else Mark.QUIET
    return Cell(text=status.value, mark=mark, hint=first_line(reason), link=link)


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
    return Cell(verdict.value, mark=_VERDICT_MARKS[verdict])


def code_details(case: Case) -> tuple[Detail, ...]:
    """The code of a case, for pages."""
    parts = (
        ("Global setup", case.global_setup),
        ("Setup", case.setup),
        ("Statement", case.stmt),
    )
    return tuple(
        Detail(title=title, code=code, is_page_only=True) for title, code in parts if code.strip()
    )


def warning_texts(
    results: Iterable[Result], name_of: Callable[[Result], str] = lambda result: result.case.title
) -> tuple[str, ...]:
    """A sentence for each kind of warning: the first case in full, the names of the others."""
    found: list[tuple[str, tuple[str, str]]] = []
    for result in results:
        time, name = time_of(result), name_of(result)
        found += [(each.kind.value, (name, each.text)) for each in (time.warnings if time else ())]
        if result.status is Status.DONE and result.reason:
            found.append(("repeats differ", (name, result.reason)))
    texts = []
    for kind, ((name, text), *others) in collect(found).items():
        names = name_some([each for each, _ in others], _NAMED, between="; ", rest="; {} more")
        texts.append(f"{kind}, {name}: {text}{f'. Also: {names}' if names else ''}")
    return tuple(texts)


def failure_id(case: Case) -> str:
    """The target of links to the failure of a case."""
    return f"failure-{case.id}"


def failure_section(run: Run) -> Section:
    """Each failure with its reason and output; metrics that failed alike share a row."""
    failed = [each for each in results_in_order(run) if each.status is Status.FAILED]
    failures = collect(((each.case, each.reason), each) for each in failed)
    first_reasons = {case.id: reason for case, reason in reversed(failures)}
    fields: list[Field[list[Result]]] = [
        field("case", lambda same: same[0].case.title),
        field(
            "metric", lambda same: " and ".join(ordered_unique(each.metric.value for each in same))
        ),
        field(
            "reason",
            lambda same: Cell(first_line(same[0].reason), mark=Mark.BAD),
            is_wide_only=True,
        ),
    ]
    table = make_table(
        failures.values(),
        fields,
        lambda same: Row(
            details=(Detail(lines=(_cut_reason(same[0].reason),)), *_outputs(same)),
            id=failure_id(same[0].case) if first_reasons[same[0].case.id] == same[0].reason else "",
        ),
    )
    has_output = any(each.stdout or each.stderr for each in failed)
    note = "The HTML page (--html FILE) also shows the output of the cases."
    notes = (note,) if has_output and run.id else ()
    shown = table if failures else None
    return Section("failures", "Failures", table=shown, footnotes=notes, mark=Mark.BAD)


def _cut_reason(reason: str) -> str:
    given = printable(reason).strip().splitlines()
    more = len(given) - _REASON_LINES
    return "\n".join([*given[:_REASON_LINES], *([f"… {more} more lines"] if more > 0 else [])])


def _outputs(results: Sequence[Result]) -> tuple[Detail, ...]:
    """For pages: a reason with several lines, the output, and the code."""
    first = results[0]
    parts = [
        ("Reason", first.reason if "\n" in first.reason.strip() else ""),
        *((f"Standard output ({each.metric.value})", each.stdout) for each in results),
        *((f"Standard error ({each.metric.value})", each.stderr) for each in results),
    ]
    outputs = [Detail(title=title, code=text, is_page_only=True) for title, text in parts if text]
    return (*outputs, *code_details(first.case))


def skip_section(run: Run) -> Section:
    """Skipped cases, one line for each reason."""
    skipped = [each for each in results_in_order(run) if each.status is Status.SKIPPED]
    by_reason = collect((first_line(each.reason), each.case.title) for each in skipped)
    listing = [
        f"{names[0] if len(names) == 1 else f'{len(names)} measurements'}: {reason}"
        for reason, names in by_reason.items()
    ]
    return Section("skipped", "Skipped", listing=tuple(listing))


def interval_values(
    name: str, value: float, interval: Interval | None, *, ends: str = ""
) -> dict[str, Value]:
    """The values of a figure and its interval for the data table, by column."""
    ends = ends or name
    if interval is None:
        return {name: value}
    return {name: value, f"{ends}_low": interval.low, f"{ends}_high": interval.high}


def time_values(time: MeasuredTime | None, name: str, ends: str) -> dict[str, Value]:
    """The values of a time for the data table, by column."""
    if time is None:
        return {}
    return {
        **interval_values(name, time.median, time.interval, ends=ends),
        "samples": time.samples,
        "warnings": kinds_text(time.warnings),
    }

"""Sentences about a judged comparison: summary, control, gaps and environments.

The facts of an environment may be nested, as in the record of a run (`{"torch": {"version": …}}`),
or flat, as the probe reports them (`"torch_git"`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from torchmark.analyse.ab import CountRow, Judged, TimeRow
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import can_be_judged
from torchmark.model.result import PairedTiming, Result, Status
from torchmark.model.run import FEWEST_REPLICATES, Environment
from torchmark.model.units import collect, first_line
from torchmark.report.figures import (
    change_text,
    cut_line,
    describe_facts,
    environment_facts,
    number_text,
)
from torchmark.report.names import full_name, name_rows, name_some
from torchmark.report.view import FactTable
from torchmark.report.views.common import fact_rows

_TIMES = (Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR)
_COUNTS = (Verdict.MORE, Verdict.FEWER, Verdict.SAME, Verdict.CLOSE)
_EXTREME = {
    Verdict.SLOWER: "worst",
    Verdict.MORE: "worst",
    Verdict.FASTER: "best",
    Verdict.FEWER: "best",
}

_VERSIONS = (
    ("torch {}", ("torch.version", "torch", "torch_version")),
    ("git {:.10}", ("torch.git", "torch_git", "torch.commit", "torch.git_version")),
    ("Python {}", ("python",)),
    ("threads: {}", ("threads", "num_threads")),
    ("{}", ("compiler", "compiler.version")),
)
_ABILITIES = (("counting", "counting"), ("C++", "cpp"))

_LEFT_OUT = {"command", "pid", "host", "machine.host", "load", "machine.load"}
"""Facts that are shown elsewhere, differ between any two processes, or are private."""

_NAMED_CASES = 3
"""Number of cases that are named with a reason; more are counted."""

_NAMED_FACTS = 6
"""Number of other facts that are named; more are counted."""


def short_name(environment: Environment) -> str:
    return cut_line(environment.name, 30)


def name_pair(judged: Judged) -> str:
    """
    >>> from torchmark.analyse.ab import Judged
    >>> from torchmark.model.run import Environment
    >>> nothing = dict(results=(), times=(), counts=(), gaps=(), control=None, missing=0)
    >>> name_pair(Judged(a=Environment(name="A"), b=Environment(name="B"), **nothing))
    'B compared with A'
    """
    return f"{short_name(judged.b)} compared with {short_name(judged.a)}"


def summarise(judged: Judged) -> str:
    """The result of the comparison in one sentence."""
    changes = {row.case.id: change_text(row.effect.ratio - 1) for row in judged.times}
    times = _describe_verdicts(judged.times, _TIMES, changes)
    changes = {row.case.id: count_share_text(row) for row in judged.counts}
    counts = _describe_verdicts(judged.counts, _COUNTS, changes)
    name = short_name(judged.b)
    if not judged.times and not judged.counts:
        some = any(each.status is Status.PARTIAL for each in judged.results)
        found = "no case was measured completely" if some else "nothing was measured"
        parts = [f"{name_pair(judged)}: {found}"]
    elif any(row.verdict.is_change for row in judged.times):
        parts = [f"{name} is {times}", f"instructions: {counts}" if counts else ""]
    elif judged.has_change:
        more_or_fewer, _, rest = counts.partition(" ")
        found = f"{more_or_fewer} instructions {rest}"
        parts = [f"{name_pair(judged)}: {found}", f"times: {times}" if times else ""]
    else:
        is_clear = all(row.verdict is Verdict.SAME for row in judged.times)
        found = "no case has changed" if is_clear else "no change was found"
        parts = [f"{name_pair(judged)}: {found}"]
        parts += [f"times: {times}" if times else "", f"instructions: {counts}" if counts else ""]
    return "; ".join(part for part in [*parts, *_describe_gaps(judged)] if part) + "."


def _describe_verdicts(
    rows: Sequence[TimeRow | CountRow], order: Sequence[Verdict], changes: Mapping[str, str]
) -> str:
    """Such as "slower in 2 of 14 cases (worst: add, +1.9 %), same in 12"."""
    found = collect((row.verdict, row) for row in rows)
    present = [verdict for verdict in order if verdict in found]
    if not present:
        return ""
    first, *others = present
    which, extreme = "", found[first][0]
    if first in _EXTREME:
        name = name_rows(rows).with_label(extreme)
        which = f" ({_EXTREME[first]}: {name}, {changes[extreme.case.id]})"
    lead = f"{first.value} in {len(found[first])} of {number_text(len(rows), 'case')}{which}"
    return ", ".join([lead, *(f"{verdict.value} in {len(found[verdict])}" for verdict in others)])


def count_share_text(row: CountRow) -> str:
    """The change with two decimals, because counts are exact; "from 0" if A has no instructions."""
    return f"{row.share * 100:+,.2f} %" if abs(row.share) != float("inf") else "from 0"


def _describe_gaps(judged: Judged) -> list[str]:
    statuses = Counter(gap.status for gap in judged.gaps)
    few = sum(each.status is not Status.PARTIAL for each in find_too_few(judged))
    partial = sum(each.status is Status.PARTIAL for each in judged.results)
    return [
        f"{few} with too few replicates" if few else "",
        f"{partial} cut short" if partial else "",
        f"{statuses[Status.SKIPPED]} skipped, {statuses[Status.FAILED]} failed",
        f"{judged.missing} not measured" if judged.missing else "",
    ]


def describe_control(judged: Judged) -> tuple[str, ...]:
    """The results of the A/A comparisons; nothing if no times were measured."""
    control, name = judged.control, short_name(judged.a)
    if not judged.times:
        return ()
    if control is None:
        least = number_text(FEWEST_REPLICATES, "replicate")
        return (f"None: the comparison was too short. {least} must fit in a tenth of its time.",)
    comparisons = number_text(control.comparisons, f"{name}/{name} comparison")
    found = f"{control.alarms} of {comparisons} found a change"
    noise = f"noise of one {name}/{name} replicate: {control.deviation * 100:.1f} %"
    took = f"The control took {control.share * 100:.0f} % of the time, not counting launches."
    return (f"{found}; {noise}. {took}",)


def warn_of_control(judged: Judged) -> list[str]:
    """A warning if A compared with A found a change."""
    control, name = judged.control, short_name(judged.a)
    if control is None or not control.alarms:
        return []
    comparisons = number_text(control.comparisons, f"{name}/{name} comparison")
    risk = f"small changes of {short_name(judged.b)} may be false alarms"
    return [f"{control.alarms} of {comparisons} found a change, so {risk}; measure again"]


def find_too_few(judged: Judged) -> list[Result]:
    """Results with fewer replicates than a verdict needs."""
    return [
        each
        for each in judged.results
        if isinstance(each.payload, PairedTiming) and not can_be_judged(each.payload)
    ]


def list_by_reason(results: Iterable[Result], otherwise: str) -> list[str]:
    """A line for each reason: its cases, and the first line of the reason."""
    found = collect((first_line(result.reason), result) for result in results)
    return [f"{_name_cases(same)}: {reason or otherwise}" for reason, same in found.items()]


def _name_cases(same: Sequence[Result]) -> str:
    metrics = collect((full_name(each), each.metric.value) for each in same)
    names = [f"{name} ({' and '.join(of)})" for name, of in metrics.items()]
    return name_some(names, _NAMED_CASES, between="; ", rest=" and {} more cases")


def compare_facts(environments: Sequence[Environment]) -> FactTable:
    """All facts by dotted name, the command first."""
    facts = [fact for fact in fact_rows(environments) if fact[0] not in _LEFT_OUT]
    return FactTable(
        names=tuple(each.name for each in environments),
        facts=(("command", tuple(map(_command, environments))), *facts),
    )


def describe_environments(environments: Sequence[Environment]) -> list[str]:
    """A line for each environment, one for what they share, and one for other differences."""
    phrases = [_phrases(each) for each in environments]
    shared = [each for each in phrases[0] if all(each in of for of in phrases)] if phrases else []
    lines = []
    for environment, of in zip(environments, phrases, strict=True):
        own = [each for each in of if each not in shared]
        lines.append(", ".join([f"{cut_line(environment.name)}: {_command(environment)}", *own]))
    if shared:
        lines.append(f"{'both' if len(phrases) == 2 else 'all'}: {', '.join(shared)}")
    return [*lines, *_other_differences(environments)]


def _other_differences(environments: Sequence[Environment]) -> list[str]:
    """The names of other facts that differ."""
    told = {name for _, names in _VERSIONS for name in names} | {name for _, name in _ABILITIES}
    differing = compare_facts(environments).differing
    names = [name for name, _ in differing if name not in told | {"command"}]
    return [f"Also different: {name_some(names, _NAMED_FACTS)}."] if names else []


def _phrases(environment: Environment) -> list[str]:
    facts = dict(environment_facts(environment.facts))
    found = list(describe_facts(facts, _VERSIONS))
    for ability, name in _ABILITIES:
        value = cut_line(first_line(facts.get(name, "")))
        if value:
            found.append(f"{ability} works" if value == "works" else f"no {ability} ({value})")
    return found


def _command(environment: Environment) -> str:
    has_command = environment.command.strip()
    return cut_line(environment.command) if has_command else "current environment"

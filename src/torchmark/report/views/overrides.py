"""The cost of overrides: ladders of one environment, and a report that compares two.

A ladder shows the cost of each kind of input compared with a plain Tensor, in time and in
instructions. A report is an A/B comparison with flame graphs of the cases that got slower.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from torchmark.analyse.estimates import time_of
from torchmark.analyse.overheads import SUITE, Rung, TimeOverhead, find_rungs
from torchmark.flame.stacks import Stack, parse_stacks
from torchmark.flame.svg import difference_svg, flame_svg
from torchmark.model.case import Case
from torchmark.model.result import Metric, PairedProfile, Result
from torchmark.model.run import Run
from torchmark.model.units import first_line
from torchmark.report.figures import instructions_text, seconds_text
from torchmark.report.view import (
    Cell,
    Chart,
    Field,
    Kind,
    Picture,
    Row,
    Section,
    Value,
    View,
    data_table,
    field,
    make_table,
)
from torchmark.report.views import ab
from torchmark.report.views.charts import SECONDS_LABEL, Dot, draw_rows
from torchmark.report.views.common import (
    code_details,
    count_statuses,
    frame_view,
    instructions_cell,
    interval_values,
    results_in_order,
    time_cell,
    time_values,
)

_NO_FIGURE = "–"
_FIGURES = (
    "time: median of one call in us, ± the longer side of its 95 % interval. over: difference from "
    "the plain call. ×: ratio to the plain call."
)
_COUNT_FIGURES = " more: additional instructions."
_LIMITS = (
    "Times differ by a few per cent between processes, which the intervals do not include; counts "
    "differ much less."
)
_UNIT = "ns per run"


def view_ladders(run: Run) -> View:
    """The view of a ladder; results of other suites in the run are ignored."""
    run = keep_suite(run)
    rungs = find_rungs(results_in_order(run))
    return frame_view(
        run,
        "Overrides ladder, run",
        summary=f"{count_statuses(run)}.",
        sections=[_ladders(run, rungs)],
        data=data_table(_DATA, ({"run": run.id, **_values(rung)} for rung in rungs)),
    )


def keep_suite(run: Run) -> Run:
    """The run without the results of other suites."""
    return msgspec.structs.replace(
        run,
        plan=tuple(each for each in run.plan if each.case.label[:1] == (SUITE,)),
        results=tuple(each for each in run.results if each.case.label[:1] == (SUITE,)),
    )


def _ladders(run: Run, rungs: Sequence[Rung]) -> Section:
    metrics = [*(each.metric for each in run.plan), *(each.metric for each in run.results)]
    is_counted = Metric.INSTRUCTIONS in metrics
    fields = [*_FIELDS, *(_COUNT_FIELDS if is_counted else ())]
    return Section(
        "ladder",
        "Cost over a plain Tensor",
        chart=_chart(rungs),
        table=make_table(
            rungs,
            fields,
            lambda rung: Row(group=rung.case.stmt, details=code_details(rung.case)),
        ),
        footnotes=(_FIGURES + _COUNT_FIGURES if is_counted else _FIGURES, _LIMITS),
    )


def _chart(rungs: Sequence[Rung]) -> Chart | None:
    """The overhead over the plain call: time, or instructions if no times were measured."""
    dots = [dot for rung in rungs if (dot := _time_dot(rung)) is not None]
    axis: dict[str, Any] = {"title": "longer than the plain call", "labelExpr": SECONDS_LABEL}
    if not dots:
        dots = [dot for rung in rungs if (dot := _count_dot(rung)) is not None]
        axis = {"title": "more instructions than the plain call", "format": "~s"}
    if not dots:
        return None
    kind = {"field": "input", "type": "nominal", "sort": None}
    spec = draw_rows(
        dots, {"axis": axis}, series="input", more={"color": kind, "yOffset": kind}, is_bar=True
    )
    return Chart(
        id="overheads",
        title="Overhead over a plain Tensor",
        description="For each call, a bar for each kind of input: its cost beyond the plain "
        "call, with the 95 % interval of times.",
        spec={**spec, "height": {"step": 13}},
    )


def _time_dot(rung: Rung) -> Dot | None:
    overhead, time = rung.time_overhead, time_of(rung.time)
    if overhead is None or time is None:
        return None
    low, high = overhead.interval
    told: dict[str, Value] = {
        "median": f"{micro(time.median)} us",
        "over": f"{micro(overhead.seconds, sign='+')} us",
        "95 % interval": f"{micro(low, sign='+')} to {micro(high, sign='+')} us",
        "samples": time.samples,
    }
    return Dot(
        name=rung.case.stmt,
        value=overhead.seconds,
        interval=(low, high),
        series=rung.kind,
        told=told,
    )


def _count_dot(rung: Rung) -> Dot | None:
    if rung.more_instructions is None:
        return None
    more = float(rung.more_instructions)
    told: dict[str, Value] = {"more": instructions_text(more, "+")}
    return Dot(name=rung.case.stmt, value=more, series=rung.kind, told=told)


def _time(rung: Rung) -> Cell:
    cell, time = time_cell(rung.time), time_of(rung.time)
    if time is None or time.interval is None:
        return cell
    reach = max(time.interval.high - time.median, time.median - time.interval.low)
    return replace(cell, text=f"{micro(time.median)} ±{micro(reach)}")


def _show_overhead(show: Callable[[TimeOverhead], Cell]) -> Callable[[Rung], Cell]:
    return lambda rung: show(rung.time_overhead) if rung.time_overhead else Cell(text=_NO_FIGURE)


def _over(overhead: TimeOverhead) -> Cell:
    low, high = overhead.interval
    reach = max(overhead.seconds - low, high - overhead.seconds)
    text = f"{micro(overhead.seconds, sign='+')} ±{micro(reach)}"
    return Cell(overhead.seconds, text, (low, high))


def _interval(overhead: TimeOverhead) -> Cell:
    low, high = overhead.interval
    return Cell(low, f"[{micro(low)}, {micro(high)}]")


def _ratio(overhead: TimeOverhead) -> Cell:
    return Cell(overhead.ratio, f"{overhead.ratio:.2f}", overhead.ratio_interval)


def _more(rung: Rung) -> Cell:
    if rung.more_instructions is None:
        return Cell(text=_NO_FIGURE)
    more = float(rung.more_instructions)
    return Cell(more, f"{more:+,.0f}")


_FIELDS: tuple[Field[Rung], ...] = (
    field("input", lambda rung: rung.kind),
    field("time", _time, Kind.SECONDS, "Median of one call in us"),
    field("over", _show_overhead(_over), Kind.SECONDS, "Longer than the plain call, in us"),
    field(
        "95 % interval",
        _show_overhead(_interval),
        Kind.NUMBER,
        "95 % interval of over, in us",
        is_wide_only=True,
    ),
    field("×", _show_overhead(_ratio), Kind.RATIO, "Ratio to the plain call"),
)
_COUNT_FIELDS: tuple[Field[Rung], ...] = (
    field(
        "instr.",
        lambda rung: instructions_cell(rung.count),
        Kind.INSTRUCTIONS,
        "Instructions of one call",
    ),
    field("more", _more, Kind.INSTRUCTIONS, "Instructions beyond those of the plain call"),
)


def micro(seconds: float, sign: str = "-") -> str:
    """
    >>> micro(1.25e-6), micro(-12.34567e-6), micro(2.5e-6, sign="+"), micro(123.4567e-6)
    ('1.250', '-12.35', '+2.500', '123.5')
    """
    value = seconds * 1e6
    decimals = 3 if abs(value) < 9.9995 else 2 if abs(value) < 99.995 else 1
    return f"{value:{sign}.{decimals}f}"


_DATA = (
    "run", "call", "input", "case", "time", "time_low", "time_high", "samples", "warnings",
    "overhead", "overhead_low", "overhead_high", "ratio", "ratio_low", "ratio_high",
    "instructions", "more_instructions", "reason",
)  # fmt: skip


def _values(rung: Rung) -> dict[str, Value]:
    """The data of one kind of input to a call; times in seconds."""
    reasons = [first_line(each.reason) for each in (rung.time, rung.count) if each]
    counts = {"instructions": rung.instructions, "more_instructions": rung.more_instructions}
    values: dict[str, Value] = {
        "call": rung.case.stmt,
        "input": rung.kind,
        "case": rung.case.id,
        **time_values(time_of(rung.time), "time", "time"),
        **{name: float(exact) for name, exact in counts.items() if exact is not None},
        "reason": "; ".join(filter(None, reasons)),
    }
    if rung.time_overhead is not None:
        overhead = rung.time_overhead
        values |= interval_values("overhead", overhead.seconds, overhead.interval)
        values |= interval_values("ratio", overhead.ratio, overhead.ratio_interval)
    return values


def view_report(run: Run) -> View:
    view = ab.make_view(run)
    flames = [_flames(each) for each in run.results if isinstance(each.payload, PairedProfile)]
    return replace(
        view,
        title="The cost of __torch_function__",
        lead=(view.title, *view.lead),
        sections=(*view.sections, *flames),
    )


def _flames(result: Result) -> Section:
    """Three flame graphs: the difference, then the two environments."""
    profile, case = result.payload, result.case
    assert isinstance(profile, PairedProfile)
    base, branch = result.environments
    stacks = (parse_stacks(profile.a), parse_stacks(profile.b))
    difference = difference_svg(
        *stacks, title=f"{case.name}: {branch} compared with {base}", unit=_UNIT, normalise=False
    )
    drawings = {
        "difference": difference,
        base: _draw(base, case, stacks[0], profile.samples[0]),
        branch: _draw(branch, case, stacks[1], profile.samples[1]),
    }
    return Section(
        f"flames-{case.id}",
        f"Flame graphs: {case.name}",
        pictures=tuple(
            Picture(name=name_picture(which, case), title=which, svg=svg)
            for which, svg in drawings.items()
        ),
    )


def _draw(name: str, case: Case, stacks: list[Stack], samples: int) -> str:
    seconds = sum(stack.weight for stack in stacks) / 1e9
    note = f"{samples} samples by py-spy; a run takes {seconds_text(seconds)}"
    return flame_svg(stacks, title=f"{case.name}: {name}", unit=_UNIT, note=note)


def name_picture(which: str, case: Case) -> str:
    """The file name of a flame graph, without extension.

    >>> from torchmark.model.case import Case
    >>> case = Case(label=("overrides", "torch.add", "SubTensor"), stmt="torch.add(x, y)")
    >>> name_picture("base", case)
    'base-torch.add-SubTensor'
    """
    words = case.label[1:] if len(case.label) > 1 else (case.name,)
    slug = re.sub(r"[^\w.]+", "-", "-".join(words)).strip("-.")
    return f"{which}-{slug}"

"""Every kind of page in a real browser: sort, filter, dark colours, the tooltip of a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import ab_records, records, sweep_rows
from tests.records import case, count_result, failed_result, time_result
from tests.replays import call, done, replay
from torchmark.analyse.run_differences import compare_runs
from torchmark.model.result import Metric, PairedProfile
from torchmark.model.run import RunKind
from torchmark.report import render, render_view, view_of
from torchmark.report.views import comparison

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browsing import Visit
    from torchmark.model.run import Run

LARGEST_PAGE = 1_500_000
"""Characters."""

OPERATORS = ("add", "mul", "div", "relu", "exp", "sum", "matmul", "softmax")
CASES = [case("Pointwise" if at < 5 else "Other", name) for at, name in enumerate(OPERATORS)]
SETTINGS = {"suites": ["standard", "overrides"], "effort": {"limits": {"relative": 0.05}}}
KINDS = ("Tensor", "SubTensor", "WithTorchFunction")


def suites(number: int = 1, slower: float = 1.0) -> Run:
    """Every case so many times, under other groups; the first of all in another time."""
    cases = [
        case(f"{each.label[0]} {at}" if at else each.label[0], each.label[1])
        for at in range(number)
        for each in CASES
    ]
    times = [
        time_result(each, 1e-6 * (at % 17 + 1) * (1 if at else slower))
        for at, each in enumerate(cases[1:])
    ]
    counts = [count_result(each, 5000 * (at + 1)) for at, each in enumerate(cases)]
    results = (failed_result(cases[0]), *times, *counts)
    return records.run_of(*cases, results=results, settings=SETTINGS)


def ladders() -> Run:
    rungs = [
        case("overrides", f"torch.{name}", kind, stmt=f"torch.{name}(x, y)")
        for name in OPERATORS[:3]
        for kind in KINDS
    ]
    times = [time_result(each, 1e-6 * (at + 1)) for at, each in enumerate(rungs)]
    counts = [count_result(each, 5000 * (at + 1)) for at, each in enumerate(rungs)]
    return records.run_of(*rungs, kind=RunKind.LADDER, results=(*times, *counts))


def statements(kind: RunKind) -> Run:
    results = [
        time_result(each, at * 1e-6) if kind is RunKind.TIME else count_result(each, at * 5000)
        for at, each in enumerate(CASES, start=1)
    ]
    return records.run_of(*CASES, kind=kind, results=tuple(results))


def ab(kind: RunKind = RunKind.AB) -> Run:
    results = [ab_records.timed(each, 1 + at / 100) for at, each in enumerate(CASES)]
    profile = PairedProfile(a="loop;add 2000\n", b="loop;add 2160\n", samples=(390, 388))
    results += (
        [ab_records.result(CASES[0], Metric.PROFILE, payload=profile)]
        if kind is RunKind.OVERRIDES
        else []
    )
    return ab_records.run_of(*results, kind=kind)


def replayed() -> Run:
    calls = [
        call(at, f"aten.{name}.default", done(1e-6 * (at + 1))) for at, name in enumerate(OPERATORS)
    ]
    return replay(*calls)


def swept() -> Run:
    return sweep_rows.run_of(sweep_rows.sweep({"batch": (1, 16, 256), "hidden": (64, 256)}))


RUNS: dict[RunKind, Callable[[], Run]] = {
    RunKind.RUN: suites,
    RunKind.AB: ab,
    RunKind.REPLAY: replayed,
    RunKind.SWEEP: swept,
    RunKind.LADDER: ladders,
    RunKind.OVERRIDES: lambda: ab(RunKind.OVERRIDES),
    RunKind.TIME: lambda: statements(RunKind.TIME),
    RunKind.COUNT: lambda: statements(RunKind.COUNT),
}


def compared() -> str:
    first, second = suites(), suites(slower=1.3)
    return render_view(comparison.make_view(first, second, compare_runs(first, second)), "html")


def make_page(name: str) -> str:
    if name == "a comparison":
        return compared()
    return render(suites(number=23) if name == "a big run" else RUNS[RunKind(name)](), "html")


@pytest.mark.parametrize("name", [*(kind.value for kind in RunKind), "a big run", "a comparison"])
def test_a_reader_sorts_filters_darkens_and_points(
    name: str, tmp_path: Path, visit: Callable[[Path], Visit]
) -> None:
    text = make_page(name)
    assert len(text) < LARGEST_PAGE
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    page = visit(file).page  # which complains of console messages and of requests
    _sort(page)
    _filter(page)
    _darken(page)
    _point_at_a_mark(page)


def _sort(page: Page) -> None:
    table = page.locator("table.cases").first
    head = table.locator("thead th.figure").first
    figures = table.locator("tr.case > td.figure:nth-child(2)")
    head.locator("button").click()
    values = figures.evaluate_all(
        "all => all.map(each => Number(each.dataset.value ?? 'Infinity'))"
    )
    assert values == sorted(values)
    assert head.get_attribute("aria-sort") == "ascending"


def _filter(page: Page) -> None:
    holder = page.locator("div.table", has=page.get_by_role("searchbox")).first
    rows = holder.locator("tr.case:visible")
    before = rows.count()
    holder.get_by_role("searchbox").fill("nothing is called like this")
    assert (before > 5, rows.count()) == (True, 0)
    holder.get_by_role("searchbox").fill("")
    assert rows.count() == before


def _darken(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(ground) != before


def _point_at_a_mark(page: Page) -> None:
    marks = page.locator(".chart g.role-mark:is(.mark-symbol, .mark-rect) path:visible")
    marks.first.wait_for()
    marks.last.hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert len(tooltip.locator("tr").all()) > 1


def test_every_kind_has_a_run_here() -> None:
    assert {make().kind for make in RUNS.values()} == set(RunKind)


def test_many_cases_share_the_rows_of_their_groups() -> None:
    chart = view_of(suites(number=23)).sections[0].chart
    assert chart is not None
    assert {layer["encoding"]["y"]["field"] for layer in chart.spec["layer"]} == {"group"}
    assert len(chart.spec["data"]["values"]) == 183

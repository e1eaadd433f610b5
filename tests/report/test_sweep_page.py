"""The page of a sweep, in a real browser."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from tests import sweep_rows
from torchmark.model.sweep_record import Phase
from torchmark.report import sweep_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.browsing import Visit
    from torchmark.model.sweep_record import SweepRow

ENVIRONMENT = {"torch": {"version": "2.13.0"}, "machine": {"cpu": "Fast One"}}
HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m'


@pytest.fixture
def opened(tmp_path: Path, visit: Callable[[Path], Visit]) -> Callable[[list[SweepRow]], Page]:
    def page_of(rows: list[SweepRow]) -> Page:
        file = tmp_path / "sweep.html"
        file.write_text(sweep_page.render(rows, environment=ENVIRONMENT), encoding="utf-8")
        return visit(file).page

    return page_of


def column(page: Page, name: str) -> list[str]:
    names = [text.strip() for text in page.locator("table.cases th").all_inner_texts()]
    place = names.index(name) + 1
    rows = page.locator("table.cases tbody tr")
    return [text.strip() for text in rows.locator(f"td:nth-child({place})").all_inner_texts()]


def test_plots_and_all_cases_are_on_the_page(opened: Callable[[list[SweepRow]], Page]) -> None:
    rows = sweep_rows.sweep(
        {"batch": (1, 8), "width": (64, 128)},
        dtypes=("fp32", "fp16", "bf16"),
        phases=tuple(Phase),
    )
    page = opened(rows)
    assert page.locator("table.cases tbody tr").count() == len(rows)
    headings = page.locator("h2").all_inner_texts()
    assert headings[:3] == ["Time", "Speed-up over pt", "Roofline: FLOP/s over FLOP per byte"]
    assert page.locator("#plots > .panels").first.locator("svg").count() == 2 * 3
    assert "Fast One" in page.inner_text("#environment")
    assert "ONNX Runtime has no gradients" in page.inner_text("#skipped")
    # Nothing sticks out of the window, labels of a panel stay inside it.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = page.evaluate(
        """[...document.querySelectorAll("#plots > .panels svg")].filter(svg => {
          const frame = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].some(text => {
            const box = text.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1
              || box.bottom > frame.bottom + 1 || box.top < frame.top - 1;
          });
        }).length"""
    )
    assert outside == 0


def test_a_box_of_the_legend_hides_a_config_everywhere(
    opened: Callable[[list[SweepRow]], Page],
) -> None:
    page = opened(sweep_rows.sweep({"n": (1, 8, 64)}))
    marks = page.locator("svg.panel .colour-2 .mark")
    assert marks.first.is_visible()
    page.get_by_label("ort fp32").uncheck()
    assert not any(mark.is_visible() for mark in marks.all())
    assert page.locator("svg.panel .colour-0 .mark").first.is_visible()
    page.get_by_label("ort fp32").check()
    assert marks.first.is_visible()


def test_a_click_on_a_heading_sorts_by_the_figures(
    opened: Callable[[list[SweepRow]], Page],
) -> None:
    rows = [
        sweep_rows.row(dims=(("n", size),), median_s=time, max_error=error, reason=reason)
        for size, time, error, reason in (
            (10, 9e-6, 0.1, ""),
            (9, 1.5e-3, math.inf, "differs from eager"),
            (100, 2e-6, 0.2, ""),
        )
    ]
    page = opened([sweep_rows.skipped(dims=(("n", 1),)), *rows])
    page.get_by_role("button", name="median").click()
    assert column(page, "n") == ["100", "10", "9", "1"]  # what has no figure is last
    page.get_by_role("button", name="median").click()
    assert column(page, "n") == ["9", "10", "100", "1"]
    page.get_by_role("button", name="n", exact=True).click()
    assert column(page, "n") == ["1", "9", "10", "100"]
    page.get_by_role("button", name="max error").click()
    assert column(page, "n") == ["10", "100", "9", "1"]
    assert column(page, "median")[2] == "1.500 ms (!)"
    assert "differs from eager" in page.inner_text("#doubts")
    page.get_by_role("button", name="backend").click()
    assert column(page, "backend") == ["ort", "pt", "pt", "pt"]


def test_hostile_names_and_reasons_are_text(opened: Callable[[list[SweepRow]], Page]) -> None:
    fields = {"model": HOSTILE, "dtype": HOSTILE}
    rows = [sweep_rows.row(dims=((HOSTILE, size),), **fields) for size in (1, 2)]
    rows.append(sweep_rows.failed(HOSTILE, dims=((HOSTILE, 3),), **fields))
    rows.append(sweep_rows.skipped(HOSTILE, dims=((HOSTILE, 4),), **fields))
    page = opened(rows)
    assert page.locator("img").count() == 0
    assert "onerror" in page.inner_text("h1")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [sweep_rows.row()],
        [sweep_rows.row(dims=())],
        [sweep_rows.skipped(dims=(("n", size),)) for size in (1, 2)],
        [sweep_rows.failed()],
        sweep_rows.sweep({"n": (4,)}, backends=("pt",)),
        sweep_rows.sweep({"n": (4, 8)}, backends=("ort",)),
    ],
    ids=["none", "one", "no dims", "all skipped", "failed", "one size", "no eager"],
)
def test_little_data_is_still_a_page(
    rows: list[SweepRow], opened: Callable[[list[SweepRow]], Page]
) -> None:
    page = opened(rows)
    text = page.inner_text("main")
    assert page.locator("table.cases tbody tr").count() == len(rows)
    for row in rows:
        assert row.reason in text
    if not any(row.median_s and row.dims for row in rows):
        assert "there is nothing to draw" in text


def test_every_link_of_the_page_leads_somewhere_in_it() -> None:
    text = sweep_page.render([*sweep_rows.sweep({"n": (1, 2)}), sweep_rows.failed()])
    targets = re.findall(r'href="#([\w-]+)"', text)
    assert targets
    assert all(f'id="{target}"' in text for target in targets)

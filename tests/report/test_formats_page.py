"""The page of a view, in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.zygote_cases import wait_until
from tests.report import made_up_views
from torchmark.report.formats import html, vega
from torchmark.report.view import Cell, FactTable, Picture, Section, View, data_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    Opened = Callable[..., Page]

SMALLEST_CONTRAST = 4.5
"""WCAG AA, for text."""

CONTRASTS = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parse(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("main *, .bar *, footer")].filter((element) =>
    element.checkVisibility() && !element.closest("svg")
    && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
    return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.outerHTML.slice(0, 80)];
  });
}"""


@pytest.fixture
def opened(tmp_path: Path, visit: Callable[..., Any]) -> Opened:
    def open_view(view: View, **options: Any) -> Page:
        file = tmp_path / "page.html"
        file.write_text(html.render(view), encoding="utf-8")
        page: Page = visit(file, **options).page
        return page

    return open_view


def names(page: Page) -> list[str]:
    rows = page.locator("table.cases > tbody > tr.case:visible > th")
    return [text.split("\n")[-1].strip() for text in rows.all_inner_texts()]


def test_everything_is_on_the_page(opened: Opened) -> None:
    page = opened(made_up_views.view())
    text = page.inner_text("body")
    for expected in ("B is slower in 2 of 5", "small changes may be missed", "another compiler"):
        assert expected in text
    assert page.locator("h2").all_inner_texts() == [
        "Warning",
        "Note",
        "Times",
        "Charts",
        "Failed",
        "Environments",
        "Settings",
    ]
    links = page.locator("nav a")
    assert links.count() == 5
    for link in links.all():
        assert page.locator(str(link.get_attribute("href"))).count() == 1
    differing = page.locator("#environments table").first
    assert "2.12.0" in differing.inner_text()
    assert "python" not in differing.inner_text()


def test_headings_sort_by_click_and_by_keyboard(opened: Opened) -> None:
    page = opened(made_up_views.view(quiet=3))
    before = names(page)
    page.get_by_role("button", name="A", exact=True).click()
    assert names(page)[1:] == ["Pointwise mul 2", "Pointwise mul 1", "Pointwise mul 0",
                               "Reductions sum", "Reductions median"]  # fmt: skip
    head = page.locator("th", has=page.get_by_role("button", name="A", exact=True))
    assert head.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="A", exact=True).press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert names(page)[0] == "Reductions sum"
    assert names(page)[-1] == "Reductions median"  # without a value: last in both directions
    page.get_by_role("button", name="A", exact=True).press("Enter")
    assert head.get_attribute("aria-sort") == "none"
    assert names(page) == before
    page.get_by_role("button", name="case").click()
    assert names(page)[1] == "Pointwise mul 0"


def test_a_box_filters_rows_and_says_how_many_are_left(opened: Opened) -> None:
    page = opened(made_up_views.view(quiet=20))
    box = page.get_by_role("searchbox")
    box.fill("POINTWISE mul 1")
    assert names(page) == ["mul 1", *(f"mul 1{at}" for at in range(10))]
    assert page.get_by_role("status").inner_text() == "11 of 23 rows"
    assert page.locator("tr.group:visible").all_inner_texts() == ["Pointwise"]
    box.fill("")
    page.get_by_label("Only notable rows").check()
    assert len(names(page)) == 2


def test_a_row_unfolds_what_is_behind_it(opened: Opened) -> None:
    page = opened(made_up_views.view())
    code = page.get_by_text("torch.add(x, y)").first
    assert not code.is_visible()
    page.locator(".fold > summary").first.press("Enter")
    assert code.is_visible()
    assert page.get_by_text("c10::intrusive_ptr").first.is_visible()


def test_a_link_opens_the_row_that_says_more(opened: Opened) -> None:
    first, *rest = made_up_views.table().rows
    linked = Cell(value="see sum", link="case-sum")
    table = made_up_views.table()
    row = type(first)(cells=(linked, *first.cells[1:]))
    section = Section(id="times", title="Times", table=type(table)(
        columns=table.columns, rows=(row, *rest)))  # fmt: skip
    page = opened(made_up_views.view(sections=(section,)))
    page.get_by_role("link", name="see sum").click()
    assert page.locator("#case-sum + tr.more").is_visible()


def test_the_button_changes_the_colours_and_the_page_remembers(opened: Opened) -> None:
    page = opened(made_up_views.view(), color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    line = page.locator("#chart-scaling path[stroke-width='1.8']").first
    light, colour = page.evaluate(ground), line.evaluate("el => getComputedStyle(el).stroke")
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate(ground)
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(18, 22, 27)")
    assert line.evaluate("el => getComputedStyle(el).stroke") != colour

    def is_dark_when_opened_again() -> bool:
        page.reload()
        return bool(page.evaluate(ground) == dark)

    # Chromium hands what a page stores to its next process a moment later.
    wait_until(is_dark_when_opened_again)
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(ground) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_themes(scheme: str, opened: Opened) -> None:
    page = opened(made_up_views.view(), color_scheme=scheme)
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) > 40
    assert [each for each in contrasts if each[0] < SMALLEST_CONTRAST] == []


def test_a_chart_has_tooltips_and_series_that_can_be_hidden(opened: Opened) -> None:
    page = opened(made_up_views.view())
    figure = page.locator("#chart-scaling")
    points = figure.locator("path[aria-roledescription], g.mark-symbol path")
    points.first.wait_for()
    assert points.count() == 6
    points.nth(1).hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "eager" in tooltip.inner_text()
    box = figure.get_by_role("checkbox", name="eager")
    box.focus()
    page.keyboard.press("Space")
    page.wait_for_function(
        "document.querySelectorAll('#chart-scaling g.mark-symbol path').length == 3"
    )
    box.check()
    page.wait_for_function(
        "document.querySelectorAll('#chart-scaling g.mark-symbol path').length == 6"
    )
    description = made_up_views.chart().description
    assert figure.get_by_role("img", name=description).count() == 1
    figure.get_by_text("Data of this chart").click()
    figure.locator("tbody tr").first.wait_for()
    assert figure.locator("tbody tr").count() == 6


def test_small_charts_stand_in_as_many_columns_as_fit(opened: Opened) -> None:
    spec = dict(made_up_views.chart().spec)
    panel = {"width": 230, "mark": spec.pop("mark"), "encoding": spec.pop("encoding")}
    spec |= {"columns": 2, "concat": [panel, panel]}
    sections = (Section(id="charts", title="Charts", chart=made_up_views.chart(spec=spec)),)
    places = "all => new Set(all.map(each => Math.round(each.getBoundingClientRect().left))).size"
    for width, columns in ((1280, 2), (360, 1)):
        page = opened(
            made_up_views.view(sections=sections), viewport={"width": width, "height": 800}
        )
        cells = page.locator("#chart-scaling g[class$=_group] > g > path.background")
        cells.first.wait_for()
        assert cells.evaluate_all(places) == columns


def test_a_phone_never_scrolls_the_page_sideways(opened: Opened) -> None:
    page = opened(made_up_views.view(quiet=20), viewport={"width": 360, "height": 740})
    page.locator("#chart-scaling svg").first.wait_for()
    page.locator("details").evaluate_all("all => all.forEach(each => { each.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.locator(".box").first.evaluate("el => el.scrollWidth > el.clientWidth")


def test_without_scripts_everything_can_be_read(opened: Opened) -> None:
    page = opened(made_up_views.view(), java_script_enabled=False)
    text = page.inner_text("main")
    for expected in ("2.500 ms", "Charts need JavaScript", "was not declared", "2.12.0"):
        assert expected in text
    assert not page.locator("#theme").is_visible()
    page.locator(".fold > summary").first.click()
    assert page.get_by_text("torch.add(x, y)").first.is_visible()


def test_hostile_text_is_text(opened: Opened) -> None:
    page = opened(made_up_views.hostile_view())
    page.locator("figure svg").first.wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert "{{ 7 * 7 }}" in page.inner_text("h1")
    page.locator("g.mark-symbol path").first.hover()
    page.locator("#vg-tooltip-element.visible").wait_for()
    assert page.locator("#vg-tooltip-element img").count() == 0


def test_a_page_without_vl_convert_says_how_to_get_the_charts(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "load_bundle", lambda: "")
    page = opened(made_up_views.view())
    assert "pip install 'torchmark[report]'" in page.inner_text("#charts")
    page.get_by_text("Data of this chart").click()
    page.locator("#chart-scaling tbody tr").first.wait_for()
    assert page.locator("#chart-scaling tbody tr").count() == 6


def test_a_finished_drawing_is_in_the_page(opened: Opened) -> None:
    picture = Picture(name="flame", title="difference", svg="<svg width='9' id='drawn'></svg>")
    section = Section(id="flames", title="Flame graphs", pictures=(picture,))
    page = opened(made_up_views.view(sections=(section,)))
    assert page.locator("svg#drawn").count() == 1


def test_the_page_is_small_and_carries_the_script_only_for_charts() -> None:
    view = made_up_views.view(quiet=500)
    assert len(html.render(view)) < 1_500_000
    without = html.render(made_up_views.view(sections=made_up_views.view().sections[:1]))
    assert len(without) < 60_000


def test_the_bundle_is_kept_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bundles = iter(["first", "second"])
    monkeypatch.setattr(vega, "_make_bundle", lambda: next(bundles))
    assert [vega.load_bundle(), vega.load_bundle()] == ["first", "first"]
    (file,) = tmp_path.rglob("vega-*")
    assert file.stat().st_mode & 0o077 == 0
    assert file.parent.stat().st_mode & 0o077 == 0


def test_a_cache_that_cannot_be_written_costs_only_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchmark").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vega, "_make_bundle", lambda: "abcd")
    assert vega.load_bundle() == "abcd"


def test_long_facts_fold_and_a_hint_is_written_once(opened: Opened) -> None:
    facts = FactTable(names=("",), facts=(("config", ("GCC 13\n - MKL",)), ("python", ("3.11",))))
    page = opened(made_up_views.view(environments=facts, settings=(("long", "word " * 99),)))
    config = page.locator("#environments dd").first
    assert "MKL" not in config.inner_text()
    config.locator("summary").click()
    assert "MKL" in config.inner_text()
    assert page.locator("#settings details").count() == 1
    assert page.locator("#environments details").count() == 1
    hints = page.locator("td.doubtful[title] abbr[title]")
    assert hints.count() == 0


def test_every_id_occurs_once() -> None:
    found = re.findall(r'\sid="([^"]*)"', html.render(made_up_views.view()))
    assert len(found) == len(set(found))


def test_an_escape_sequence_cannot_begin_in_one_text_and_end_in_another() -> None:
    first = Section("first", "one \x1b]", paragraphs=("between",))
    last = Section("last", "two \x07", paragraphs=("behind",))
    page = html.render(View(title="t", summary="", sections=(first, last), data=data_table((), ())))
    assert "<p>between</p>" in page
    assert "\x1b" not in page

"""The pages of a site in a real browser, from disk and from a web server."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import records, sites
from torchmark.commands.publish import publish
from torchmark.report.views.site import case_page, run_page
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from tests.browsing import Visit

    Opener = Callable[..., Page]

ADD_PAGE = case_page(sites.ADD.id)
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    place = sites.make_store(folder / "marks.db")
    many = [records.case("Pointwise", f"operator {number}") for number in range(60)]
    results = tuple(records.time_result(each) for each in many)
    with open_store(place) as store:  # enough to scroll
        store.create(records.run_of(*many, results=results, settings={"suites": ["many"]}))
    publish(folder / "site", store=place, processes=1, title="Our marks")
    return folder / "site"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


@pytest.fixture(params=["disk", "server"])
def opened(
    request: pytest.FixtureRequest, site: Path, visit: Callable[..., Visit]
) -> Callable[..., Page]:
    """Opens a page of the site; complaints and requests beyond the site fail the test."""

    def open_page(name: str = "index.html", **options: object) -> Page:
        if request.param == "disk":
            return visit(site / name, **options).page
        page = visit(request.getfixturevalue("server"), **options).page
        if name != "index.html":
            page.goto(f"{page.url}{name}")
        return page

    return open_page


def rows_of(page: Page) -> Locator:
    return page.locator("tr.case:visible")


def test_one_field_searches_the_cases_of_all_suites(opened: Opener) -> None:
    page = opened()
    assert page.title() == "Our marks"
    headings = page.locator("main h2:visible")
    assert headings.all_inner_texts() == ["many", "matrices", "standard"]
    field = page.get_by_role("searchbox")
    assert field.count() == 1
    field.fill("MM python")
    assert [text.split("\t")[0] for text in rows_of(page).all_inner_texts()] == [
        "bmm · Python, eager",
        "mm · Python, eager",
    ]
    assert headings.all_inner_texts() == ["matrices"]
    assert page.get_by_role("status").inner_text() == "2 of 68 rows"
    field.fill("")
    assert rows_of(page).count() == 68


def test_back_returns_to_the_search_the_order_and_the_place(opened: Opener) -> None:
    page = opened()
    page.get_by_role("searchbox").fill("operator")
    table = page.locator("table", has=page.get_by_text("operator 1 ·"))
    table.get_by_role("columnheader", name="case").locator("button").click()
    table.get_by_role("columnheader", name="case").locator("button").click()
    names = rows_of(page).all_inner_texts()
    assert names[0].startswith("Pointwise operator 59")
    page.get_by_role("link", name="operator 7 ·").click()
    page.wait_for_url(re.compile("/cases/"))
    page.go_back()
    page.wait_for_url(lambda url: "/cases/" not in url)
    assert page.get_by_role("searchbox").input_value() == "operator"
    assert rows_of(page).all_inner_texts() == names
    assert page.get_by_role("link", name="operator 7 ·").is_visible()
    box = table.locator("xpath=ancestor::div[@class='box']")
    assert box.evaluate("each => each.scrollTop") > 0


def test_a_table_is_sorted_by_the_last_change(opened: Opener) -> None:
    page = opened()
    table = page.locator("section", has=page.get_by_role("heading", name="standard")).locator(
        "table"
    )
    head = table.get_by_role("columnheader", name="time: last change")
    head.locator("button").click()
    head.locator("button").click()
    assert "add" in table.locator("tr.case").first.inner_text()
    assert head.get_attribute("aria-sort") == "descending"


def test_a_case_is_opened_and_its_points_tell_what_they_are(opened: Opener) -> None:
    page = opened()
    page.get_by_role("link", name="add · Python").click()
    page.wait_for_url(re.compile(ADD_PAGE))
    assert page.get_by_role("heading", level=1).inner_text() == "Pointwise / add · Python, eager"
    chart = page.locator("#chart-history-1")
    points = chart.locator(".mark-symbol path")
    points.first.wait_for()
    assert points.count() == sites.DAYS
    assert "µs" in (chart.locator(".role-axis-label").last.text_content() or "")
    points.nth(3).hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    told = tooltip.inner_text()
    assert "20260104-120000-000004" in told
    assert "2026-01-04" in told
    assert "004abc0000" in told
    assert re.search(r"(1\.0\d\dµs|99\d\.\dns)", told)


def test_dragging_moves_a_zoomed_chart_and_a_double_click_resets_it(opened: Opener) -> None:
    page = opened(ADD_PAGE)
    chart = page.locator("#chart-history-1")
    chart.locator(".mark-symbol path").first.wait_for()

    assert "Ctrl + wheel zooms" in chart.inner_text()
    before = page_labels(chart)
    box = chart.locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(CHANGED, arg=before)
    zoomed = page_labels(chart)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    page.wait_for_function(CHANGED, arg=zoomed)
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function(SAME, arg=before)


_LABELS = """[...document.querySelectorAll("#chart-history-1 .role-axis-label text")]
  .map(each => each.textContent).sort().join()"""
CHANGED = f"before => {_LABELS} !== before"
SAME = f"before => {_LABELS} === before"


def page_labels(chart: Locator) -> str:
    return str(chart.evaluate(f"() => {_LABELS}"))


def test_a_plain_wheel_scrolls_the_page(opened: Opener) -> None:
    page = opened(ADD_PAGE)
    chart = page.locator("#chart-history-1")
    chart.locator(".mark-symbol path").first.wait_for()
    before = page_labels(chart)
    chart.locator("svg").hover()
    page.mouse.wheel(0, 200)
    page.wait_for_function("scrollY > 0")
    assert page_labels(chart) == before


def test_dark_colours_are_kept_from_page_to_page(opened: Opener) -> None:
    page = opened()
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Use dark colours").click()
    dark = page.evaluate(ground)
    assert dark != light
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Changes").click()
    page.wait_for_url(re.compile("changes.html"))
    assert page.evaluate(ground) == dark


def test_the_bar_has_pages_and_not_sections(opened: Opener) -> None:
    page = opened(ADD_PAGE)
    bar = page.get_by_role("navigation", name="Pages")
    assert bar.get_by_role("link").all_inner_texts() == ["Overview", "Changes", "Runs", "Feed"]
    contents = page.get_by_role("navigation", name="On this page").get_by_role("link")
    assert contents.first.inner_text() == "Time of one run"
    assert page.locator("h1").inner_text() not in bar.inner_text()


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    for file in site.rglob("*.html"):
        text = file.read_text()
        for link in re.findall(r'(?:href|src|data-src)="([^"]*)"', text):
            if link.startswith("#"):
                assert f'id="{link[1:]}"' in text, (file, link)
            elif not link.startswith("data:"):
                assert (file.parent / link).is_file(), (file, link)


def test_hostile_names_are_text_on_every_page(site: Path, visit: Callable[..., Visit]) -> None:
    odd = sites.ODD
    page = visit(site / case_page(odd.id)).page
    heading = page.get_by_role("heading", level=1).inner_text()
    assert "<b>bold</b> </script><script>alert(1)</script> red" in heading
    assert "\"quoted\" 'it' [x](y) `c`" in heading
    assert page.locator("main b:not(:empty), main script:not([type])").count() == 0
    overview = visit(site / "index.html").page
    assert overview.get_by_text("<b>bold</b> </script>").count() == 1
    for file in site.rglob("*.html"):
        content = file.read_text()
        assert "<script>alert" not in content
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", content), file


@pytest.mark.parametrize("name", ["index.html", "changes.html", "runs.html", ADD_PAGE])
def test_a_page_fits_on_a_phone(site: Path, visit: Callable[..., Visit], name: str) -> None:
    page = visit(site / name, **PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_page_can_be_read_without_scripts(site: Path, visit: Callable[..., Visit]) -> None:
    page = visit(site / "index.html", java_script_enabled=False).page
    page.get_by_role("link", name="mm · Python", exact=False).first.click()
    assert "Matrix" in page.get_by_role("heading", level=1).inner_text()


def test_the_page_of_a_run_leads_to_its_cases_and_back(opened: Opener, site: Path) -> None:
    run = next(each for each in sites.runs() if not each.id.endswith("-other"))
    page = opened(run_page(run.id))
    page.get_by_role("link", name="add · Python").click()
    page.wait_for_url(re.compile(ADD_PAGE))
    page.get_by_role("link", name=run.id, exact=True).first.click()
    page.wait_for_url(re.compile(re.escape(run.id)))

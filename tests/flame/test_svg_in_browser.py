"""The pictures in a real browser: they open, zoom and search, and fetch nothing.

The fixture `visit` fails a test whose page wrote to the console, raised, or asked for anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.flame.samples import HOSTILE, LOOP
from torchmark.flame.stacks import Stack
from torchmark.flame.svg import difference_svg, flame_svg

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.browsing import Visit

    Open = Callable[[Path], Visit]

FULL = 1180


class Shown(NamedTuple):
    x: float
    width: float
    label: str
    classes: str


@pytest.fixture
def opened(visit: Open, tmp_path: Path) -> Callable[[str], Page]:
    """The picture as a file of its own."""

    def open_svg(svg: str) -> Page:
        file = tmp_path / "picture.svg"
        file.write_text(svg, encoding="utf-8")
        return visit(file).page

    return open_svg


def shown(picture: Locator | Page) -> dict[str, Shown]:
    """The frames that a reader sees, by name."""
    found = picture.locator(".frames > g:not(.hidden)").evaluate_all(
        """groups => groups.map(group => {
          const rect = group.querySelector("rect"), text = group.querySelector("text");
          return [group.querySelector("title").textContent.split("\\n")[0],
                  Number(rect.getAttribute("x")), Number(rect.getAttribute("width")),
                  text ? text.textContent : "", group.getAttribute("class") || ""];
        })"""
    )
    return {name: Shown(*facts) for name, *facts in found}


def frame(picture: Locator | Page, name: str) -> Locator:
    """The first frame of that name."""
    names = picture.locator(".frames title").all_text_contents()
    place = [text.partition("\n")[0] for text in names].index(name)
    return picture.locator(".frames rect").nth(place)


def loop() -> str:
    return flame_svg(LOOP, title="torch.add(x, y)", unit="samples")


def test_a_click_zooms_into_a_frame_and_reset_leads_back(opened: Callable[[str], Page]) -> None:
    page = opened(loop())
    before = shown(page)
    frame(page, "wrap (tensor.py:9)").click()
    zoomed = shown(page)
    assert zoomed.keys() == {"all", "main", "run (loop.py:3)", "wrap (tensor.py:9)"}
    assert {each.width for each in zoomed.values()} == {FULL}
    assert {name for name, each in zoomed.items() if each.classes == "above"} == {
        "all", "main", "run (loop.py:3)",
    }  # fmt: skip
    page.get_by_role("button", name="Reset zoom").click()
    assert shown(page) == before
    assert page.get_by_role("button", name="Reset zoom").count() == 0


def test_what_was_too_narrow_for_text_is_labelled_when_zoomed(
    opened: Callable[[str], Page],
) -> None:
    drawn = [
        Stack(("main", "at::native::small(at::Tensor const&)", "inner"), 5),
        Stack(("main", "at::native::small(at::Tensor const&)"), 5),
        Stack(("main", "wide"), 990),
    ]
    page = opened(flame_svg(drawn, title="t", unit="samples"))
    assert shown(page)["at::native::small(at::Tensor const&)"].label == ""
    frame(page, "at::native::small(at::Tensor const&)").click()
    zoomed = shown(page)
    assert (
        zoomed["at::native::small(at::Tensor const&)"].label
        == "at::native::small(at::Tensor const&)"
    )
    assert zoomed["inner"].label == "inner"
    assert zoomed["inner"].width == pytest.approx(FULL / 2, abs=0.1)
    assert "wide" not in zoomed


def test_zooming_on_from_a_zoomed_frame_and_escape(opened: Callable[[str], Page]) -> None:
    page = opened(loop())
    before = shown(page)
    frame(page, "add (libtorch.so)").click()
    assert shown(page)["empty_cpu (libtorch.so)"].width == pytest.approx(FULL * 2 / 7, abs=0.01)
    frame(page, "empty_cpu (libtorch.so)").click()
    assert shown(page)["empty_cpu (libtorch.so)"].width == pytest.approx(FULL)
    page.keyboard.press("Escape")
    assert shown(page) == before


def test_a_second_click_and_a_click_on_all_lead_back_too(opened: Callable[[str], Page]) -> None:
    page = opened(loop())
    before = shown(page)
    for way_back in ("add (libtorch.so)", "all"):
        frame(page, "add (libtorch.so)").click()
        assert shown(page) != before
        frame(page, way_back).click()
        assert shown(page) == before


def test_the_figures_of_the_frame_below_the_pointer_are_shown(
    opened: Callable[[str], Page],
) -> None:
    page = opened(loop())
    details = page.locator(".details")
    assert details.text_content() == "100 samples"
    frame(page, "add (libtorch.so)").hover()
    assert details.text_content() == "70 samples, 70.00 %: add (libtorch.so)"
    page.mouse.move(5, 5)
    assert details.text_content() == "100 samples"


def test_search_highlights_what_it_finds_and_says_how_much_that_is(
    opened: Callable[[str], Page],
) -> None:
    page = opened(loop())
    search = page.get_by_role("searchbox", name="Search frames")
    plain = frame(page, "add (libtorch.so)").evaluate("rect => getComputedStyle(rect).fill")
    search.fill("LIBTORCH")
    matched = {name for name, each in shown(page).items() if each.classes == "match"}
    assert matched == {"add (libtorch.so)", "empty_cpu (libtorch.so)"}
    # empty_cpu lies inside add, so it adds nothing to the 70.
    assert page.locator("output").text_content() == "70.00 % matched"
    assert frame(page, "add (libtorch.so)").evaluate("rect => getComputedStyle(rect).fill") != plain
    search.fill(".py:")
    assert page.locator("output").text_content() == "95.00 % matched"
    search.fill("no such frame")
    assert page.locator("output").text_content() == "0.00 % matched"
    search.press("Escape")
    assert page.locator("output").text_content() == ""
    assert {each.classes for each in shown(page).values()} == {""}


def test_hostile_names_are_text_and_run_nothing(visit: Open, tmp_path: Path) -> None:
    drawn = [Stack((name, "inner"), 10) for name in HOSTILE]
    svg = flame_svg(drawn, title=HOSTILE[0], unit=HOSTILE[2], note=HOSTILE[5])
    alone, inlined = tmp_path / "picture.svg", tmp_path / "page.html"
    alone.write_text(svg, encoding="utf-8")
    inlined.write_text(f'<!DOCTYPE html><meta charset="utf-8"><p>{svg}</p>', encoding="utf-8")
    for file in (alone, inlined):
        page = visit(file).page
        assert shown(page).keys() == {"all", "inner", *HOSTILE}
        for name in HOSTILE:
            frame(page, name).hover()
            frame(page, name).click()
            assert shown(page).keys() == {"all", "inner", name}
            page.keyboard.press("Escape")
        page.get_by_role("searchbox").fill(HOSTILE[0])
        assert page.locator("script").count() == 1
        assert page.locator("img, h1").count() == 0


def test_a_difference_has_red_for_what_grew_and_blue_for_what_shrank(
    opened: Callable[[str], Page],
) -> None:
    base = [
        Stack(("main", "grows"), 10),
        Stack(("main", "shrinks"), 60),
        Stack(("main", "stays"), 30),
    ]
    branch = [
        Stack(("main", "grows"), 40),
        Stack(("main", "new"), 30),
        Stack(("main", "stays"), 30),
    ]
    page = opened(difference_svg(base, branch, title="base → branch", unit="samples"))
    colours = {
        name: frame(page, name).evaluate(
            "rect => getComputedStyle(rect).fill.match(/\\d+/g).map(Number)"
        )
        for name in ("grows", "new", "shrinks", "stays", "main")
    }
    for name in ("grows", "new"):
        red, _, blue = colours[name]
        assert red > blue + 100
    red, _, blue = colours["shrinks"]
    assert blue > red + 100
    assert max(colours["stays"]) - min(colours["stays"]) < 5
    assert colours["main"] == colours["stays"]
    frame(page, "shrinks").hover()
    assert page.locator(".details").text_content() == (
        "60 → 0 samples, 60.00 % → 0.00 %; itself 60 → 0: shrinks"
    )
    frame(page, "grows").click()
    assert shown(page).keys() == {"all", "main", "grows"}


def test_two_pictures_on_one_page_do_not_disturb_each_other(visit: Open, tmp_path: Path) -> None:
    other = difference_svg(
        LOOP, [Stack(("main", "add (libtorch.so)"), 3)], title="b", unit="samples"
    )
    file = tmp_path / "page.html"
    # As our pages have it: rules for every svg on the page.
    style = "svg text { fill: red; font-size: 30px } svg rect { stroke: red }"
    file.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>{loop()}<p>and</p>{other}',
        encoding="utf-8",
    )
    page = visit(file).page
    first, second = page.locator("svg").first, page.locator("svg").last
    before = shown(first), shown(second)
    frame(first, "wrap (tensor.py:9)").click()
    first.get_by_role("searchbox").fill("wrap")
    assert shown(second) == before[1]
    assert second.locator("output").text_content() == ""
    second.get_by_role("searchbox").fill("libtorch")
    frame(second, "run (loop.py)").click()
    assert shown(first)["wrap (tensor.py:9)"].width == FULL
    page.keyboard.press("Escape")
    assert shown(second) == before[1]
    assert shown(first)["wrap (tensor.py:9)"].width == FULL
    first.press("Escape")
    assert shown(first) == before[0]
    assert (
        first.locator(".frames text").first.evaluate("t => getComputedStyle(t).fontSize") == "12px"
    )


def test_labels_stay_inside_their_frames_as_the_browser_draws_them(
    opened: Callable[[str], Page],
) -> None:
    """Letters wide and narrow, in frames of many widths, as they are and as the script has them."""
    names = [
        "WWW@@@MMMmmm%%%===WWW",
        "at::native::add(at::Tensor const&)",
        "日本語のフレーム",
        "ABCDEFGHIJKL",
        "t-r-f-t-r-f-t-r-f-t-r-f-t-r-f-t-r",
    ]
    drawn = [
        Stack((outer, *[f"{name}{number}"] * 2), number)
        for outer in ("left", "right")
        for name in names
        for number in (4, 9, 15, 22, 30)
    ]
    page = opened(flame_svg(drawn, title="t", unit="samples"))
    before = shown(page)
    assert _overhang(page) <= 0
    frame(page, "right").click()
    assert len({each.label for each in shown(page).values()}) > 10
    assert _overhang(page) <= 0
    page.keyboard.press("Escape")
    assert shown(page) == before


def _overhang(page: Page) -> float:
    """Pixels that the longest label reaches beyond its frame."""
    overhang: float = page.locator(".frames > g:not(.hidden)").evaluate_all(
        """groups => Math.max(...groups.map(group => {
          const text = group.querySelector("text"), rect = group.querySelector("rect");
          return text ? text.getComputedTextLength() + 3 - rect.width.baseVal.value : 0;
        }))"""
    )
    return overhang


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_a_light_and_on_a_dark_page(
    opened: Callable[[str], Page], scheme: str
) -> None:
    page = opened(loop())
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    brightness = {
        selector: page.locator(selector).first.evaluate(
            "e => getComputedStyle(e).fill.match(/\\d+/g).reduce((a, b) => a + Number(b), 0) / 3"
        )
        for selector in (".paper", ".title", ".details", ".frames rect", ".frames text")
    }
    assert (brightness[".paper"] > 128) == (scheme == "light")
    assert abs(brightness[".title"] - brightness[".paper"]) > 120
    assert abs(brightness[".details"] - brightness[".paper"]) > 100
    assert abs(brightness[".frames text"] - brightness[".frames rect"]) > 100

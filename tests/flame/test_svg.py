"""What a picture says without its script, as it is drawn into a PNG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given

from tests.flame.samples import HOSTILE, LOOP, stacks
from torchmark.flame.appearance import change_colour, name_colour, width_of
from torchmark.flame.stacks import Stack
from torchmark.flame.svg import difference_svg, flame_svg

SVG = "{http://www.w3.org/2000/svg}"


class Drawn(NamedTuple):
    name: str
    figures: str
    x: float
    y: float
    width: float
    fill: str
    label: str


def frames_of(svg: str) -> list[Drawn]:
    groups = ET.fromstring(svg).findall(f"{SVG}g[@class='frames']/{SVG}g")
    found = []
    for group in groups:
        name, _, figures = (group.findtext(f"{SVG}title") or "").partition("\n")
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width = (float(rect.attrib[key]) for key in ("x", "y", "width"))
        label = group.findtext(f"{SVG}text") or ""
        found.append(Drawn(name, figures, x, y, width, rect.attrib["fill"], label))
    return found


def texts_of(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def picture(drawn: list[Stack]) -> str:
    return flame_svg(drawn, title="torch.add(x, y)", unit="samples")


def changes(base: list[Stack], branch: list[Stack], *, normalise: bool = True) -> dict[str, Drawn]:
    svg = difference_svg(base, branch, title="t", unit="samples", normalise=normalise)
    return {frame.name: frame for frame in frames_of(svg)}


def test_a_frame_is_as_wide_as_its_share_and_says_what_it_weighs() -> None:
    frames = {frame.name: frame for frame in frames_of(picture(LOOP))}
    assert frames["all"].width == 1180
    assert frames["add (libtorch.so)"].width == pytest.approx(1180 * 0.7)
    assert frames["add (libtorch.so)"].figures == "70 samples, 70.00 %"
    assert frames["wrap (tensor.py:9)"].figures == "15 samples, 15.00 %"


@given(stacks())
def test_frames_lie_inside_their_callers_and_beside_each_other(drawn: list[Stack]) -> None:
    rows: dict[float, list[Drawn]] = {}
    for frame in frames_of(picture(drawn)):
        rows.setdefault(frame.y, []).append(frame)
    tolerance = 2e-4  # pixels: what four places round off
    for y, row in rows.items():
        for left, right in pairwise(row):
            assert left.x + left.width <= right.x + tolerance
        for frame in row:
            callers = rows.get(y - 18, [Drawn("", "", 10, 0, 1180, "", "")])
            assert any(
                caller.x <= frame.x + tolerance
                and frame.x + frame.width <= caller.x + caller.width + tolerance
                for caller in callers
            )


@given(stacks())
def test_labels_fit_into_their_frames(drawn: list[Stack]) -> None:
    for frame in frames_of(picture(drawn)):
        assert width_of(frame.label, 12) <= max(0, frame.width - 6)


def test_title_unit_total_and_note_are_there_to_read() -> None:
    texts = texts_of(flame_svg(LOOP, title="torch.add(x, y)", unit="samples", note="On one core."))
    assert texts[:2] == ["torch.add(x, y)", "100 samples"]
    assert texts[2] == "On one core"


def test_a_long_title_and_a_long_note_go_on_in_the_next_line() -> None:
    title, note = "a case with a long name " * 6, "a remark on what was recorded " * 9
    texts = texts_of(flame_svg(LOOP, title=title, unit="samples", note=note))
    read = " ".join(texts)
    assert title.strip() in read
    assert note.strip() in read
    assert all(width_of(text, 13) <= 1180 for text in texts)


def test_python_and_native_frames_have_a_legend_where_a_picture_has_both() -> None:
    assert texts_of(picture(LOOP))[2:4] == ["Python", "native"]
    assert "native" not in texts_of(picture([Stack(("at::add",), 3)]))


def test_colours_follow_the_name_and_not_the_line() -> None:
    assert name_colour("f (a.py:3)") == name_colour("f (a.py:33)")
    assert len({name_colour(f"function_{number}") for number in range(50)}) > 40
    for number in range(200):
        red, _, blue = _channels(name_colour(f"native_{number}"))
        assert red > blue + 40
        red, green, _ = _channels(name_colour(f"python_{number} (a.py:3)"))
        assert green > red + 20


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def test_what_is_too_narrow_to_see_is_not_drawn_but_counted() -> None:
    drawn = [Stack(("main", "wide"), 10**6), Stack(("main", "narrow"), 50)]
    svg = picture(drawn)
    frames = {frame.name: frame for frame in frames_of(svg)}
    assert frames.keys() == {"all", "main", "wide"}
    assert frames["main"].figures.startswith("1,000,050 samples")
    assert "too narrow to be drawn" in svg
    assert "too narrow" not in picture(LOOP)


def test_a_picture_of_nothing_can_be_drawn() -> None:
    assert [frame.figures for frame in frames_of(picture([]))] == ["0 samples, 0.00 %"]
    assert changes([], []).keys() == {"all"}


def test_many_and_deep_stacks_give_a_file_that_a_browser_likes() -> None:
    outer = tuple(f"outer_{depth}" for depth in range(196))
    names = [f"at::native::function_{number}(at::Tensor const&)" for number in range(100)]
    drawn = [
        Stack((*outer, names[n % 97], names[n % 53], "call", "redispatch"), 1 + n % 7)
        for n in range(20_000)
    ]
    svg = picture(drawn)
    assert len(svg) < 3_000_000
    frames = frames_of(svg)
    assert len(frames) == 10_000
    assert frames[0].figures.startswith(f"{sum(stack.weight for stack in drawn):,} samples")
    assert {frame.y for frame in frames} >= {frames[0].y + 18 * row for row in range(200)}


def test_hostile_names_stay_names() -> None:
    svg = picture([Stack((name,), 10) for name in HOSTILE])
    assert [frame.name for frame in frames_of(svg)[1:]] == sorted(HOSTILE)
    assert svg.count("<script") == 1


@given(stacks())
def test_any_names_make_a_valid_file(drawn: list[Stack]) -> None:
    assert frames_of(picture(drawn))[0].name == "all"


def test_characters_that_no_file_may_have_are_replaced() -> None:
    svg = picture([Stack(("a\x00b\x1b[31m\ud800\u202ec\uffff",), 1)])
    assert frames_of(svg)[1].name == "a\ufffdb\ufffd[31m\ufffd\ufffdc\ufffd"
    svg.encode()


def test_what_grew_is_red_and_what_shrank_is_blue() -> None:
    base = [
        Stack(("main", "grows"), 10),
        Stack(("main", "shrinks"), 60),
        Stack(("main", "stays"), 30),
    ]
    branch = [
        Stack(("main", "grows"), 40),
        Stack(("main", "shrinks"), 30),
        Stack(("main", "stays"), 30),
    ]
    found = changes(base, branch)
    assert {name: frame.fill for name, frame in found.items()} == {
        "all": change_colour(0),
        "main": change_colour(0),
        "grows": change_colour(0.3),
        "shrinks": change_colour(-0.3),
        "stays": change_colour(0),
    }
    red, _, blue = _channels(found["grows"].fill)
    assert red > blue + 100
    red, _, blue = _channels(found["shrinks"].fill)
    assert blue > red + 100
    assert found["grows"].figures == "10 → 40 samples, 10.00 % → 40.00 %; itself 10 → 40"


def test_a_small_change_is_paler_than_a_large_one() -> None:
    greens = [_channels(change_colour(share))[1] for share in (0, 0.002, 0.01, 0.04, 0.1, 0.5)]
    assert greens[:5] == sorted(set(greens[:5]), reverse=True)
    assert greens[4] == greens[5]


def test_new_and_vanished_frames_can_both_be_seen() -> None:
    found = changes([Stack(("old",), 50)], [Stack(("new",), 80)])
    assert found["old"].width == found["new"].width == pytest.approx(590)


def test_samples_are_compared_as_shares_and_instructions_as_they_are() -> None:
    base, branch = [Stack(("f",), 100)], [Stack(("f",), 200)]
    assert changes(base, branch)["f"].fill == change_colour(0)
    assert changes(base, branch, normalise=False)["f"].fill == change_colour(0.5)


def test_moved_lines_and_addresses_are_no_difference() -> None:
    base = [Stack(("0x7f01 (libc.so.6)", "f (a.py:3)", "0x7f09 (libtorch.so)"), 9)]
    branch = [Stack(("0x5501 (libc.so.6)", "f (a.py:5)", "0x5509 (libtorch.so)"), 9)]
    found = changes(base, branch)
    assert list(found) == ["all", "[libc.so.6]", "f (a.py)", "[libtorch.so]"]
    assert {frame.fill for frame in found.values()} == {change_colour(0)}


def test_nothing_has_an_id_and_nothing_refers_to_another_place() -> None:
    root = ET.fromstring(difference_svg(LOOP, LOOP, title="t", unit="samples"))
    for element in root.iter():
        assert not {key for key in element.attrib if key == "id" or "href" in key or key == "src"}

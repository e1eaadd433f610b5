"""Charts as pictures by themselves."""

from __future__ import annotations

import struct
import sys
from typing import Any

import pytest

from tests.report import made_up_views
from torchmark.errors import MissingToolError
from torchmark.report.formats.vega import (
    find_series,
    light_colours,
    png_of,
    spec_for_page,
    svg_of,
)


def test_a_png_is_sharp_and_an_svg_has_the_words() -> None:
    png = png_of(made_up_views.chart())
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width > 2 * 600
    assert height > 2 * 200
    svg = svg_of(made_up_views.chart())
    for word in ("Time by size", "Medians of one run.", "eager", "compile", "seconds"):
        assert word in svg
    assert "var(" not in svg
    assert light_colours()["plot-1"] in svg


def test_a_picture_without_vl_convert_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingToolError, match=r"pip install 'torchmark\[report\]'"):
        png_of(made_up_views.chart())


def test_series_are_in_the_order_of_the_data_with_colours_that_stay() -> None:
    series = find_series(made_up_views.chart().spec)
    assert series is not None
    assert series.names == ("eager", "compile")
    assert series.colours == ("var(--plot-1)", "var(--plot-2)")


def test_colours_that_a_chart_gives_are_taken() -> None:
    spec: dict[str, Any] = {
        "data": {"values": [{"v": "same"}, {"v": "slower"}]},
        "layer": [
            {"mark": "rule", "encoding": {"color": {"field": "v", "type": "nominal"}}},
            {
                "mark": "point",
                "encoding": {
                    "color": {
                        "field": "v",
                        "type": "nominal",
                        "scale": {
                            "domain": ["faster", "slower", "same"],
                            "range": ["var(--good)", "var(--bad)", "var(--quiet)"],
                        },
                    }
                },
            },
        ],
    }
    series = find_series(spec)
    assert series is not None
    assert series.names == ("slower", "same")
    assert series.colours == ("var(--bad)", "var(--quiet)")
    page = spec_for_page(made_up_views.chart(spec=spec))
    assert [layer["encoding"]["color"]["legend"] for layer in page["layer"]] == [None, None]
    assert "legend" not in spec["layer"][0]["encoding"]["color"]  # the view's own is untouched

"""A chart as a picture by itself, light on white: drawn by vl-convert in this process, offline."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from torchmark.errors import MissingToolError
from torchmark.report.charts import spec_for_picture

if TYPE_CHECKING:
    from torchmark.report.view import Chart

_SHARPNESS = 2
"""Pixels of a PNG for each of the drawing, so that it can be enlarged and printed."""


def svg_of(chart: Chart) -> str:
    return str(_drawer().vegalite_to_svg(spec_for_picture(chart, light_colours())))


def png_of(chart: Chart) -> bytes:
    spec = spec_for_picture(chart, light_colours())
    return bytes(_drawer().vegalite_to_png(spec, scale=_SHARPNESS))


@cache
def light_colours() -> dict[str, str]:
    """The colours of the page's stylesheet by their names, in the light form."""
    style = (
        resources.files("torchmark.report").joinpath("templates", "style.css").read_text("utf-8")
    )
    return dict(re.findall(r"--([\w-]+):\s*light-dark\((#\w+),", style))


def _drawer() -> Any:
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "pictures of charts need vl-convert: pip install 'torchmark[report]'"
        ) from error
    return vl_convert

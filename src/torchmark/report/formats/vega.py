"""What draws charts: vl-convert, in this process and offline, or in a page Vega as that brings it.

A picture stands by itself, light on white. A page carries the script: vl-convert takes seconds to
bundle it, so it is kept in the user's cache. 0.9 MB of script are 0.4 MB in a page; browsers unpack
it themselves.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import importlib.metadata
import os
import re
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from torchmark.errors import MissingToolError
from torchmark.report.charts import spec_for_picture

if TYPE_CHECKING:
    from torchmark.report.view import Chart

_SHARPNESS = 2
"""Pixels of a PNG for each of the drawing, so that it can be enlarged and printed."""

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


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


def load_bundle() -> str:
    """gzip in base64; empty where vl-convert, the extra `report`, is not installed."""
    try:
        version = importlib.metadata.version("vl-convert-python")
    except importlib.metadata.PackageNotFoundError:
        return ""
    folder = Path(platformdirs.user_cache_dir("torchmark", appauthor=False)) / "report"
    file = folder / f"vega-{version}.js.gz.base64"
    with contextlib.suppress(OSError):
        if file.stat().st_uid == os.getuid():
            return file.read_text("ascii")
    bundle = _make_bundle()
    with contextlib.suppress(OSError):  # a page is made without a cache too
        _keep(file, bundle)
    return bundle


def _make_bundle() -> str:
    script = _drawer().javascript_bundle(_SNIPPET)
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _keep(file: Path, text: str) -> None:
    """Whole or not at all, and only for its user: others must not put a script into pages."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(text)
        os.replace(temporary, file)
    except OSError:
        os.unlink(temporary)
        raise


def _drawer() -> Any:
    try:
        import vl_convert  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingToolError(
            "pictures of charts need vl-convert: pip install 'torchmark[report]'"
        ) from error
    return vl_convert

"""Render a view as a self-contained HTML page, which loads nothing from elsewhere.

The page can be read without scripts. With scripts, tables can be sorted and filtered, and charts
are drawn. Templates escape all text except torchmark's own style, scripts and drawings.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import markupsafe
import msgspec

from torchmark import __version__
from torchmark.printable import printable
from torchmark.report.formats.values import (
    axes_of,
    interval_text,
    is_figure,
    quiet_text,
    value_text,
)
from torchmark.report.formats.vega import find_series, load_bundle, read_template, spec_for_page
from torchmark.report.view import Cell, View

_LONGEST_CODE = 20_000
"""Maximum characters of code or output in a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The site that a page belongs to. Its pages share style and scripts in `assets`."""

    title: str
    root: str
    """The way from the page to the root of the site: "" or "../"."""

    here: str = ""
    """The page, as one of `pages`; empty for others."""

    pages: tuple[tuple[str, str], ...]
    """The names and addresses of the main pages."""

    has_vega: bool
    """Whether `assets` has Vega's script."""

    source: str
    """The digest of what the page is made from."""


def render(view: View, site: Site | None = None) -> str:
    """Render a page by itself, or as a page of a site."""
    has_charts = any(section.chart for section in view.sections)
    if site is None:
        own: dict[str, Any] = {
            "style": _own("style.css"),
            "script": _own("page.js"),
            "vega": markupsafe.Markup(load_bundle()) if has_charts else "",  # noqa: S704 - base64
        }
    else:
        own = {"style": "", "script": "", "vega": has_charts and site.has_vega}
    page = _environment().get_template("page.html.j2")
    return printable(page.render(view=view, site=site, version=__version__, **own))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("torchmark.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
    )
    environment.filters |= {"json": _json, "shorten": _shorten, "svg": markupsafe.Markup}
    environment.tests["differs"] = lambda values: len(set(values)) > 1
    environment.globals |= {
        "axes_of": axes_of,
        "find_series": find_series,
        "interval_text": interval_text,
        "is_figure": is_figure,
        "quiet_text": quiet_text,
        "sorted_by": _sorted_by,
        "spec_for_page": spec_for_page,
        "value_text": value_text,
    }
    return environment


def _clean(value: object) -> object:
    """Clean each text by itself: an escape sequence must not begin in one and end in another."""
    is_text = isinstance(value, str) and not isinstance(value, markupsafe.Markup)
    return printable(str(value)) if is_text else value


def _json(content: object) -> markupsafe.Markup:
    """JSON that may be in a script element; a long series takes a tenth of the time of `tojson`."""
    text = msgspec.json.encode(content).decode()
    for sign in "<>&'":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return markupsafe.Markup(text)  # noqa: S704 - signs with a meaning in HTML are escaped


def _own(name: str) -> markupsafe.Markup:
    return markupsafe.Markup(read_template(name))  # noqa: S704 - our own


def _sorted_by(cell: Cell) -> str:
    """A number as JavaScript reads it; empty for cells that are sorted by their text."""
    if isinstance(cell.value, str) or cell.value is None:
        return ""
    return f"{float(cell.value):.9g}".replace("inf", "Infinity")


def _shorten(text: str) -> str:
    """The beginning and the end of a long text, which usually show the cause."""
    if len(text) <= _LONGEST_CODE:
        return text
    half = _LONGEST_CODE // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"

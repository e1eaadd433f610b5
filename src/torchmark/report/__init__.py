"""What a run says, in every format.

`view_of` makes the view of a run: pure data, by the module of its kind in `views`. `render` turns
it into text, by the module of the format in `formats`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from torchmark.report.formats import json

if TYPE_CHECKING:
    from torchmark.model.run import Run
    from torchmark.report.view import View

FORMATS = ("text", "markdown", "csv", "json", "html")

_VIEWS = {
    "overrides ladder": "ladder",
    "overrides report": "overrides",
}
"""The module in `torchmark.report.views`, where it is not called like the kind of the run."""


def view_of(run: Run) -> View:
    kind = run.kind.value
    module = importlib.import_module(f"torchmark.report.views.{_VIEWS.get(kind, kind)}")
    view: View = module.make_view(run)
    return view


def render(run: Run, form: str, width: int = 80) -> str:
    """The run in one of the `FORMATS`; only text has a width."""
    view = view_of(run)
    return json.render(run, view) if form == "json" else render_view(view, form, width)


def render_view(view: View, form: str, width: int = 80) -> str:
    """A view in one of the `FORMATS`, except JSON, which needs a record beside it."""
    renderer = importlib.import_module(f"torchmark.report.formats.{form}")
    return str(renderer.render(view, width) if form == "text" else renderer.render(view))

"""Reports of runs, in every format.

`view_of` makes the view of a run, which is pure data, with the function for its kind in `views`.
`render` turns the view into text with the module for the format in `formats`.
"""

from __future__ import annotations

import importlib

from torchmark.model.run import Run, RunKind
from torchmark.report.formats import data, text
from torchmark.report.view import View

FORMATS = ("text", "markdown", "csv", "json", "html")

_VIEWS = {
    RunKind.RUN: "run.make_view",
    RunKind.AB: "ab.make_view",
    RunKind.REPLAY: "replay.make_view",
    RunKind.SWEEP: "sweep.make_view",
    RunKind.TIME: "statements.view_times",
    RunKind.COUNT: "statements.view_counts",
    RunKind.LADDER: "overrides.view_ladders",
    RunKind.OVERRIDES: "overrides.view_report",
}
"""Modules and functions in `torchmark.report.views`, imported when they are needed."""


def view_of(run: Run) -> View:
    module, _, function = _VIEWS[run.kind].partition(".")
    make_view = getattr(importlib.import_module(f"torchmark.report.views.{module}"), function)
    view: View = make_view(run)
    return view


def render(run: Run, form: str, width: int = 80) -> str:
    """Render a run in one of the `FORMATS`; `width` applies to text only."""
    view = view_of(run)
    return data.render_json(run, view) if form == "json" else render_view(view, form, width)


def render_view(view: View, form: str, width: int = 80) -> str:
    """Render a view in one of the `FORMATS`, except JSON, which also needs the run."""
    if form == "text":
        return text.render(view, width)
    if form == "csv":
        return data.render_csv(view.data)
    renderer = importlib.import_module(f"torchmark.report.formats.{form}")
    return str(renderer.render(view))

"""The forms in which a run is written to a file, by the names of the options."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from torchmark.report import run_csv, run_json, run_markdown, run_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.model.result import Result
    from torchmark.model.run import Run

RENDERERS: dict[str, Callable[[Run, Sequence[Result]], str]] = {
    "json": partial(run_json.render, samples=True),
    "csv": run_csv.render,
    "markdown": run_markdown.render,
    "html": run_page.render,
}

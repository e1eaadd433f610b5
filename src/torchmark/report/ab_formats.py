"""The forms in which A/B comparisons are written to a file, by the names of the options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchmark.report import ab_csv, ab_json, ab_markdown, ab_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.analyse.ab import Understood

RENDERERS: dict[str, Callable[[Sequence[Understood]], str]] = {
    "json": ab_json.render,
    "csv": ab_csv.render,
    "markdown": ab_markdown.render,
    "html": ab_page.render,
}
"""Each takes the environments one by one, all of them beside the same first."""

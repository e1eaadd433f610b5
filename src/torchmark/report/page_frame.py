"""What all pages have around their parts: one file with its style in it, and nothing to fetch."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from torchmark.report.figures import printable

if TYPE_CHECKING:
    from collections.abc import Iterable


def text_of(text: str) -> str:
    """Somebody's text as a page can hold it.

    >>> text_of("a < b")
    'a &lt; b'
    """
    return escape(printable(text))


def page(title: str, style: str, parts: Iterable[str], *, script: str = "") -> str:
    """The page; parts that are empty are left out."""
    return printable(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text_of(title)}</title>
<style>{style}</style>
</head>
<body>
<main>
{chr(10).join(part for part in parts if part)}
</main>{f"{chr(10)}<script>{script}</script>" if script else ""}
</body>
</html>
"""
    )

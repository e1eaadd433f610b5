"""The browser's helper sees what it is there to see; or no test of a page would prove anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browsing import Visit


def test_messages_errors_and_requests_are_complaints(
    visit: Callable[[Path], Visit], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text(
        '<img src="https://example.invalid/a.png">'
        '<script>console.log("hello"); nothing.at()</script>'
    )
    complaints = visit(file).taken_complaints()
    assert "request: https://example.invalid/a.png" in complaints
    assert "console: hello" in complaints
    assert any("nothing is not defined" in complaint for complaint in complaints)


def test_a_page_with_everything_inside_it_has_no_complaints(
    visit: Callable[[Path], Visit], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    file.write_text('<img alt="" src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><p>ü</p>')
    assert visit(file).complaints == []

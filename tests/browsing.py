"""A real browser, Debian's chromium, for tests of what people open: SVG files and HTML pages.

`visit` opens a file and gives the page. What a reader would not see is an error there: messages on
the console, exceptions, and requests for anything that is not in the file. Whatever of it a test
has not asked for makes it fail in the end.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Request, Route

_HARMLESS = ("file:", "data:", "about:", "blob:")


@dataclass
class Visit:
    """One page that was opened."""

    page: Page

    complaints: list[str] = field(default_factory=list)
    """Messages on the console, exceptions, and requests beyond the file, as they came."""

    def taken_complaints(self) -> list[str]:
        """The complaints so far, which are then no failure of the test."""
        taken, self.complaints = self.complaints, []
        return taken


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests; each visit has a context of its own in it."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - most sessions need no browser

    executable = shutil.which("chromium")
    if executable is None:
        pytest.fail("these tests need a browser: call scripts/test_tools.sh (apt: chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, timeout=300_000)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a file in a page 1280 pixels wide, and fails in the end if there were complaints.

    Or the address of a server on this machine, which may be asked for everything then. Options are
    those of a context of playwright, such as `java_script_enabled=False`.
    """
    visits: list[Visit] = []
    contexts = []

    def opened(file: Path | str, **options: Any) -> Visit:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.set_default_timeout(120_000)  # milliseconds; for a page that hangs
        visits.append(visit)
        address = file if isinstance(file, str) else file.resolve().as_uri()
        server = address.rpartition("/")[0] + "/"
        _listen(visit, _HARMLESS if not isinstance(file, str) else (*_HARMLESS, server))
        visit.page.goto(address)
        return visit

    yield opened
    for context in contexts:
        context.close()
    assert [visit.complaints for visit in visits if visit.complaints] == []


def _listen(visit: Visit, harmless: tuple[str, ...]) -> None:
    def asked(request: Request) -> None:
        if not request.url.startswith(harmless):
            visit.complaints.append(f"request: {request.url}")

    def answered(route: Route) -> None:
        if route.request.url.startswith(harmless):
            route.continue_()
        else:
            route.abort()

    visit.page.on("request", asked)
    visit.page.on("console", lambda message: visit.complaints.append(f"console: {message.text}"))
    visit.page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
    visit.page.route("**/*", answered)

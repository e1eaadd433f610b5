"""Publish a made-up history and take the pictures of docs/guides/publish-site.md.

    PYTHONPATH=. python docs/make_site_pictures.py [FOLDER]

It writes site-overview.png, site-case.png and site-changes.png to FOLDER (docs/guides/pictures
unless given), with the chromium that the tests use. The figures are drawn at random with a fixed
seed, so the pictures show what a site looks like, and nothing about torch.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from playwright.sync_api import Page, sync_playwright

from tests import histories, records
from torchmark.commands.publish import publish
from torchmark.model.case import Case
from torchmark.report.views.site import case_page
from torchmark.store import open_store

FOLDER = Path(__file__).parent / "guides" / "pictures"

RUNS = 90

OPERATORS = {
    "Pointwise": ("add", "mul", "relu", "exp"),
    "Reductions": ("sum", "softmax", "cumsum"),
    "Matrix": ("mm", "linear", "conv1d"),
}
CASES = [records.case(group, name) for group, names in OPERATORS.items() for name in names]
SLOWER = CASES[5]

WIDTH, HEIGHT = 1200, 820


def levels_of(at: int, case: Case) -> list[float]:
    """A level for each run: one case becomes slower, one faster, one is slower for a while."""
    level = (at + 1) * 1.7e-6
    factors = [1.0] * RUNS
    if case is SLOWER:
        factors = [1.0] * 52 + [1.061] * (RUNS - 52)
    elif at == 2:
        factors = [1.0] * 30 + [0.93] * (RUNS - 30)
    elif at == 7:
        factors = [1.0] * 40 + [1.12] * 9 + [1.0] * (RUNS - 49)
    return [level * factor for factor in factors]


def make_site(folder: Path) -> Path:
    times = {
        case: histories.noisy(levels_of(at, case), spread=0.006, seed=at)
        for at, case in enumerate(CASES)
    }
    counts = {
        case: [100 * (8_000 + 900 * at)] * 61
        + [100 * (8_000 + 900 * at + 132 * (case is SLOWER))] * (RUNS - 61)
        for at, case in enumerate(CASES)
    }
    place = folder / "marks.db"
    with open_store(place) as store:
        for run in histories.runs_of(times, counts):
            store.create(msgspec.structs.replace(run, settings={"suites": ["operators"]}))
    commits = "https://example.org/pytorch/commit/{commit}"
    publish(folder / "site", store=place, title="Operators", commit_url=commits)
    return folder / "site"


def take(page: Page, file: Path, name: str) -> None:
    page.screenshot(path=file / f"site-{name}.png", clip={"x": 0, "y": 0, "width": WIDTH,
                                                         "height": HEIGHT})  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        site = make_site(Path(scratch))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto((site / "index.html").as_uri())
        take(page, folder, "overview")
        page.goto((site / "changes.html").as_uri())
        take(page, folder, "changes")
        page.goto((site / case_page(SLOWER.id)).as_uri())
        points = page.locator("#chart-history-1 .mark-symbol path")
        points.first.wait_for()
        points.nth(RUNS - 20).hover()
        page.locator("#vg-tooltip-element.visible").wait_for()
        take(page, folder, "case")
        browser.close()


if __name__ == "__main__":
    main()

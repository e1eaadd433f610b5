"""`torchmark publish`: write a static site of a store, or bring it up to date.

Pages depend on the store alone, so the same store gives the same bytes. Only pages that changed are
written, and pages of removed runs are deleted. A publish that was killed leaves complete pages, and
the next one makes the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from torchmark.commands.site_folder import has_content, remove_pages, use_site, write_file
from torchmark.commands.site_pages import (
    Job,
    Made,
    SiteSettings,
    digest_of,
    make_pages,
    render_page,
)
from torchmark.commands.spine import Place, use_store
from torchmark.errors import InvalidArgumentError
from torchmark.model.run import RunSummary
from torchmark.report.formats.vega import load_script, read_template
from torchmark.report.view import View
from torchmark.report.views import site as views
from torchmark.report.views.site_feed import atom_feed
from torchmark.settings import settings_for

TITLE = "torchmark"

Told: TypeAlias = Callable[[int, int], None]
"""Hears how many of how many pages are ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What `publish` did."""

    directory: Path
    pages: int
    """Files of the site."""

    written: int
    """Those that changed."""

    removed: int
    """Pages of cases and runs that are no longer in the store."""


def publish(
    directory: str | os.PathLike[str],
    *,
    store: Place = None,
    title: str | None = None,
    commit_url: str | None = None,
    site_url: str | None = None,
    processes: int | None = None,
    progress: Told | None = None,
) -> Published:
    """Write a static site of the whole store into a directory, or bring it up to date.

    `commit_url` is the address of a commit with {commit} in it, such as
    "https://github.com/pytorch/pytorch/commit/{commit}". `site_url` is the address at which the
    site will be, for its feed. The settings may have both, and the title. `processes` is as many as
    there are cores by default; a script that uses several must be importable (`if __name__ ==
    "__main__":`).
    """
    folder = Path(directory)
    given = settings_for(Path.cwd()).publish
    script = load_script()
    shared = SiteSettings(
        title=title or given.title or TITLE,
        commit_url=_checked_url(commit_url or given.commit_url or "", "{commit}"),
        site_url=_checked_url(site_url or given.site_url or ""),
        has_vega=bool(script),
    )
    with use_store(store) as kept, use_site(folder) as before:
        case_ids, runs = sorted(kept.cases()), kept.runs()
        job = Job(place=kept.place, folder=str(folder), shared=shared, before=dict(before))
        made: list[Made] = []
        count = processes or len(os.sched_getaffinity(0))
        for each in make_pages(job, kept, case_ids, runs, count):
            made.append(each)
            if progress is not None:
                progress(len(made), len(case_ids) + len(runs))
        cases = [each.case for each in made if each.case is not None]
        made += _main_pages(folder, shared, before, cases, runs)
        made += _other_files(folder, shared, cases, script)
        removed = remove_pages(folder, sorted(set(before) - {each.page for each in made}))
        return Published(
            directory=folder,
            pages=len(made),
            written=sum(each.is_new for each in made),
            removed=removed,
        )


def _checked_url(url: str, needed: str = "") -> str:
    if url and not url.startswith(("https://", "http://")):
        raise InvalidArgumentError(f"{url!r} is not an address: it must begin with https://")
    if url and needed not in url:
        raise InvalidArgumentError(f"the address {url!r} must have {needed} in it")
    return url


def _main_pages(
    folder: Path,
    shared: SiteSettings,
    before: Mapping[str, str],
    cases: Sequence[views.CaseSummary],
    runs: Sequence[RunSummary],
) -> Iterator[Made]:
    """The pages about all cases and all runs."""
    links = views.Links(root="", commit_url=shared.commit_url)
    changes = [change for each in cases for change in each.changes]
    pages: dict[str, tuple[object, Callable[[], View]]] = {
        "index.html": (
            [cases, len(runs)],
            lambda: views.overview(shared.title, cases, len(runs), links),
        ),
        "changes.html": (changes, lambda: views.changes_page(changes, links)),
        "runs.html": (runs, lambda: views.runs_page(runs, links)),
    }
    for page, (content, make) in pages.items():
        source = digest_of(shared, content)
        is_new = before.get(page) != source
        if is_new:
            write_file(folder, page, render_page(make(), shared, page, source))
        yield Made(page=page, is_new=is_new)


def _other_files(
    folder: Path, shared: SiteSettings, cases: Sequence[views.CaseSummary], script: str
) -> Iterator[Made]:
    """The feed, and the style and scripts that pages share."""
    changes = [change for each in cases for change in each.changes]
    files = {
        "feed.xml": atom_feed(shared.title, shared.site_url, changes),
        "assets/style.css": read_template("style.css"),
        "assets/page.js": read_template("page.js"),
        **({"assets/vega.js": script} if script else {}),
    }
    for name, text in files.items():
        content = text.encode()
        is_new = not has_content(folder, name, content)
        if is_new:
            write_file(folder, name, content)
        yield Made(page=name, is_new=is_new)

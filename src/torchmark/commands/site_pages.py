"""Makes the pages of cases and runs, in several processes if there are many.

Each process has its own connection to the store. The URL of the store may have a password, so it
goes through a pipe and not into arguments.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from torchmark import __version__
from torchmark.analyse.history import History, history_of
from torchmark.callgrind.parse import parse_text
from torchmark.commands.site_folder import write_file
from torchmark.errors import TorchmarkError
from torchmark.flame.counted import average_stacks
from torchmark.flame.svg import flame_svg
from torchmark.model.result import Counts, Metric, Result
from torchmark.model.run import RunSummary
from torchmark.model.series import Origin, Quantity
from torchmark.model.units import collect
from torchmark.report import view_of
from torchmark.report.formats import html
from torchmark.report.view import Picture, View
from torchmark.report.views import site as views
from torchmark.report.views.site_case import case_view
from torchmark.store import Store, open_store

_PAGES = (
    ("Overview", "index.html"),
    ("Changes", "changes.html"),
    ("Runs", "runs.html"),
    ("Feed", "feed.xml"),
)
_AT_ONCE = 25
"""Pages that a process makes before it gets the next ones."""

_FEW = 60
"""With fewer pages, starting processes would take longer than making the pages."""

_METRICS = {Quantity.TIME: Metric.TIME, Quantity.INSTRUCTIONS: Metric.INSTRUCTIONS}

Task: TypeAlias = "Sequence[str] | Sequence[RunSummary]"
"""The ids of cases, or runs."""


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all pages of a site share."""

    title: str
    commit_url: str = ""
    """The address of a commit, with {commit} in it."""

    site_url: str = ""
    has_vega: bool = False


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to make pages."""

    place: str
    """What opens the store; it may have a password."""

    folder: str
    shared: SiteSettings
    before: dict[str, str]
    """The digests of the pages that are there."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A page that is up to date now."""

    page: str
    is_new: bool
    """Whether it was written."""

    case: views.CaseSummary | None = None
    """What other pages need of it, if it is the page of a case."""


def make_pages(
    job: Job, store: Store, case_ids: Sequence[str], runs: Sequence[RunSummary], processes: int
) -> Iterator[Made]:
    """Write the pages that changed, and yield all in the order of the arguments."""
    tasks: list[Task] = [*_split(case_ids), *_split(runs)]
    if processes < 2 or len(case_ids) + len(runs) < _FEW:
        maker = _Maker(job, store)
        for task in tasks:
            yield from maker.make(task)
        return
    context = multiprocessing.get_context("spawn")  # a fork would share connections
    with ProcessPoolExecutor(processes, context, _begin_process, (job,)) as pool:
        try:
            for found in pool.map(_make_in_process, tasks):
                yield from found
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what was begun ends; nothing else is begun
            raise


def _split(things: Sequence[str] | Sequence[RunSummary]) -> list[Task]:
    return [things[at : at + _AT_ONCE] for at in range(0, len(things), _AT_ONCE)]


_maker: list[_Maker] = []
"""The maker of a process of the pool."""


def _begin_process(job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that shares the work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _maker.append(_Maker(job, open_store(job.place, read_only=True)))


def _end_with_parent() -> None:
    """A killed parent cannot end its workers, and they would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make_in_process(task: Task) -> list[Made]:
    return list(_maker[0].make(task))


class _Maker:
    """Makes pages of cases and runs; what all of them need is read once."""

    def __init__(self, job: Job, store: Store) -> None:
        self._job, self._store = job, store
        self._origins = store.origins()
        self._links = views.Links(root="../", commit_url=job.shared.commit_url)

    def make(self, task: Task) -> Iterator[Made]:
        ids = [each for each in task if isinstance(each, str)]
        if ids:
            yield from self._make_cases(ids)
        for each in task:
            if isinstance(each, RunSummary):
                page = views.run_page(each.id)
                source = digest_of(self._job.shared, each)
                yield self._update(page, source, partial(self._view_of_run, each))

    def _make_cases(self, ids: Sequence[str]) -> Iterator[Made]:
        found = self._store.series(ids, origins=self._origins)
        for case_id, series in collect((each.case_id, each) for each in found).items():
            histories = [history_of(each) for each in series]
            summary = views.summarise(histories[0].series.case, histories)
            points = [([point.origin.run for point in each.points], each.values) for each in series]
            source = digest_of(self._job.shared, summary, points)
            page = views.case_page(case_id)
            yield self._update(page, source, partial(self._view_of_case, histories), summary)

    def _update(
        self,
        page: str,
        source: str,
        make: Callable[[], View],
        case: views.CaseSummary | None = None,
    ) -> Made:
        """Write a page if it was made from something else."""
        is_new = self._job.before.get(page) != source
        if is_new:
            content = render_page(make(), self._job.shared, page, source)
            write_file(Path(self._job.folder), page, content)
        return Made(page=page, is_new=is_new, case=case)

    def _view_of_case(self, histories: Sequence[History]) -> View:
        results = self._newest_results(histories)
        pictures = [each for result in results for each in _pictures(result)]
        return case_view(histories, results, self._links, pictures)

    def _newest_results(self, histories: Sequence[History]) -> list[Result]:
        """The newest result of each metric, with samples and counts by function."""
        newest: dict[Quantity, Origin] = {}
        for each in histories:
            known = newest.get(each.series.quantity)
            if known is None or each.latest.origin.place > known.place:
                newest[each.series.quantity] = each.latest.origin
        case_id = histories[0].series.case_id
        results = [
            self._store.result(newest[quantity].run, case_id, metric)
            for quantity, metric in _METRICS.items()
            if quantity in newest
        ]
        return [each for each in results if each is not None]

    def _view_of_run(self, summary: RunSummary) -> View:
        has_own_view = not views.is_run_of_cases(summary)
        whole = None
        if has_own_view or summary.failed or summary.skipped:
            with contextlib.suppress(TorchmarkError):  # damaged, or removed by now
                whole = self._store.run(summary.id)
        if has_own_view and whole is not None:
            return view_of(whole)
        origins = [each for each in self._origins if each.run == summary.id]
        series = self._store.series(origins=origins)
        return views.run_view(summary, series, self._links, whole=whole)


def _pictures(result: Result) -> list[Picture]:
    """The flame graph of counts whose callgrind file was kept."""
    counts = result.payload
    if not isinstance(counts, Counts) or not counts.callgrind_out:
        return []
    try:
        stacks = average_stacks(parse_text(counts.callgrind_out), counts.runs)
    except TorchmarkError:
        return []
    title = result.case.title
    return [
        Picture(name="flame", title=title, svg=flame_svg(stacks, title=title, unit="instructions"))
    ]


def digest_of(*source: object) -> str:
    """The digest of what a page is made from; another version of torchmark makes other pages."""
    content = msgspec.json.encode([__version__, *source], order="sorted")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def render_page(view: View, shared: SiteSettings, page: str, source: str) -> bytes:
    site = html.Site(
        title=shared.title,
        root="../" if "/" in page else "",
        here=page,
        pages=_PAGES,
        has_vega=shared.has_vega,
        source=source,
    )
    return html.render(view, site).encode()

"""`torchmark publish`: write a static site of a store.

A manifest in the folder has the digest of what each page was made from, so the next time only pages
that changed are written, and pages of removed runs are deleted. Nothing else in the folder is
touched. Pages depend on the store alone, so the same store gives the same bytes.

Cases are divided among processes, each with its own connection to the store.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec

from torchmark import __version__
from torchmark.analyse.history import History, history_of
from torchmark.callgrind.parse import parse_text
from torchmark.commands.spine import Place, use_store
from torchmark.errors import InvalidArgumentError, OutputFileError, TorchmarkError
from torchmark.files import write_whole
from torchmark.flame.counted import average_stacks
from torchmark.flame.svg import flame_svg
from torchmark.model.case import Case
from torchmark.model.result import Counts, Metric, Result
from torchmark.model.run import RunSummary
from torchmark.model.series import Origin, Quantity
from torchmark.model.units import collect
from torchmark.report import view_of
from torchmark.report.formats import html
from torchmark.report.formats.vega import load_script, read_template
from torchmark.report.view import Cell, Picture, View
from torchmark.report.views import site as views
from torchmark.settings import settings_for
from torchmark.store import Store, open_store

MANIFEST = ".torchmark-site.json"

TITLE = "torchmark"
_PAGES = (
    ("Overview", "index.html"),
    ("Changes", "changes.html"),
    ("Runs", "runs.html"),
    ("Feed", "feed.xml"),
)
_AT_ONCE = 25
"""Pages that a process makes before it hears of the next ones."""

_FEW = 60
"""With fewer pages, starting processes would take longer than making the pages."""

_METRICS = {Quantity.TIME: Metric.TIME, Quantity.INSTRUCTIONS: Metric.INSTRUCTIONS}

Told: TypeAlias = Callable[[int, int], None]
"""Hears how many of how many pages are ready."""


class SiteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all pages of a site share."""

    title: str = TITLE
    commit_url: str = ""
    """The address of a commit, with {commit} in it."""

    site_url: str = ""
    has_vega: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of a site, each with the digest of what it was made from."""

    version: str
    pages: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What `publish` did."""

    directory: Path
    pages: int
    written: int
    removed: int
    damage: tuple[str, ...] = ()
    """Messages about data that could not be read."""


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or what the overview needs of it."""

    page: str
    digest: str
    is_new: bool
    case: views.CaseSummary | None = None


def publish(
    directory: str | os.PathLike[str],
    *,
    store: Place = None,
    title: str | None = None,
    commit_url: str | None = None,
    site_url: str | None = None,
    progress: Told | None = None,
) -> Published:
    """Write a static site of the whole store into a directory, or bring it up to date.

    `commit_url` is the address of a commit with {commit} in it, such as
    "https://github.com/pytorch/pytorch/commit/{commit}". `site_url` is the address at which the
    site will be, for its feed. The settings may have both.
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
    with use_store(store) as kept:
        before = _read_manifest(folder)
        made = list(_pages(kept, folder, shared, before, script, progress or (lambda *_: None)))
        pages = {each.page: each.digest for each in made}
        removed = _remove_pages(folder, set(before) - set(pages))
        _write(folder, MANIFEST, _encode(Manifest(version=__version__, pages=pages)))
        return Published(
            directory=folder,
            pages=len(pages),
            written=sum(each.is_new for each in made),
            removed=removed,
            damage=tuple(kept.damage),
        )


def _checked_url(url: str, needed: str = "") -> str:
    if url and not url.startswith(("https://", "http://")):
        raise InvalidArgumentError(f"{url!r} is not an address: it must begin with https://")
    if url and needed not in url:
        raise InvalidArgumentError(f"the address {url!r} must have {needed} in it")
    return url


def _read_manifest(folder: Path) -> dict[str, str]:
    """The digests of the pages that are there; raise if the folder has something else."""
    file = folder / MANIFEST
    try:
        if not folder.exists() or not any(folder.iterdir()):
            return {}
        manifest = msgspec.json.decode(file.read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError) as error:
        raise InvalidArgumentError(
            f"{folder} has files that `torchmark publish` did not make; name an empty or a new "
            "directory"
        ) from error
    except OSError as error:
        raise OutputFileError(f"{folder} cannot be read: {error.strerror}") from error
    if manifest.version != __version__:  # pages of another version look different
        return dict.fromkeys(manifest.pages, "")
    return {
        page: digest if (folder / page).is_file() else ""
        for page, digest in manifest.pages.items()
        if _is_inside(page)
    }


def _is_inside(page: str) -> bool:
    """A manifest comes from a file, so its pages might lead elsewhere."""
    return not os.path.isabs(page) and ".." not in Path(page).parts


def _remove_pages(folder: Path, pages: set[str]) -> int:
    for page in pages:
        (folder / page).unlink(missing_ok=True)
    return len(pages)


def _pages(
    store: Store,
    folder: Path,
    shared: SiteSettings,
    before: dict[str, str],
    script: str,
    tell: Told,
) -> Iterator[_Made]:
    """Make all pages, and yield each with whether it was written."""
    assets = {"style.css": read_template("style.css"), "page.js": read_template("page.js")}
    for name, text in {**assets, **({"vega.js": script} if script else {})}.items():
        yield _update(folder, f"assets/{name}", text.encode(), before)
    case_ids = sorted(store.cases())
    runs = store.runs()
    job = _Job(place=store.url, folder=folder, shared=shared, before=before)
    total = len(case_ids) + len(runs)
    cases = []
    for done, made in enumerate(_make(job, store, case_ids, [each.id for each in runs]), 1):
        tell(done, total)
        cases += [made.case] if made.case is not None else []
        yield made
    links = views.Links(root="", commit_url=shared.commit_url)
    cases.sort(key=lambda each: each.case.id)
    overall = {
        "index.html": views.overview(shared.title, cases, len(runs), links),
        "changes.html": views.changes_page(cases, links),
        "runs.html": views.runs_page(runs, links),
    }
    for page, view in overall.items():
        yield _update(folder, page, _render(view, shared, page), before)
    changes = [change for each in cases for change in each.changes]
    feed = views.atom_feed(shared.title, shared.site_url, changes)
    yield _update(folder, "feed.xml", feed.encode(), before)


class _Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to make pages."""

    place: str
    folder: Path
    shared: SiteSettings
    before: dict[str, str]


def _make(
    job: _Job, store: Store, case_ids: Sequence[str], run_ids: Sequence[str]
) -> Iterator[_Made]:
    tasks: list[tuple[str, Sequence[str]]] = [
        *(("case", some) for some in _split(case_ids)),
        *(("run", some) for some in _split(run_ids)),
    ]
    if len(case_ids) + len(run_ids) < _FEW:
        worker = _Worker(job, store)
        for task in tasks:
            yield from worker.make(*task)
        return
    context = multiprocessing.get_context("spawn")  # a fork would share connections
    with ProcessPoolExecutor(
        max_workers=len(os.sched_getaffinity(0)),
        mp_context=context,
        initializer=_begin_process,
        initargs=(job,),
    ) as pool:
        for found in pool.map(_make_in_process, tasks):
            yield from found


def _split(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[at : at + _AT_ONCE] for at in range(0, len(ids), _AT_ONCE)]


_worker: list[_Worker] = []
"""The worker of a process of the pool."""


def _begin_process(job: _Job) -> None:
    _worker.append(_Worker(job, open_store(job.place, read_only=True)))


def _make_in_process(task: tuple[str, Sequence[str]]) -> list[_Made]:
    return list(_worker[0].make(*task))


class _Worker:
    """Makes pages of cases and runs; what all of them need is read once."""

    def __init__(self, job: _Job, store: Store) -> None:
        self._job, self._store = job, store
        self._origins = store.origins()
        self._runs: dict[str, RunSummary] = {}
        self._cases: dict[str, Case] = {}
        self._links = views.Links(root="../", commit_url=job.shared.commit_url)

    def make(self, what: str, ids: Sequence[str]) -> Iterator[_Made]:
        if what == "case":
            yield from self._make_cases(ids)
        else:
            for run_id in ids:
                yield self._make_run(run_id)

    def _make_cases(self, ids: Sequence[str]) -> Iterator[_Made]:
        found = self._store.series(ids, origins=self._origins)
        for case_id, series in collect((each.case_id, each) for each in found).items():
            histories = [history_of(each) for each in series]
            summary = views.summarise(histories[0].series.case, histories)
            page = views.case_page(case_id)
            digest = _digest(
                *_versions(self._job.shared),
                *(_encode([each.series.values, each.series.machine]) for each in histories),
                _encode([[p.origin.run for p in each.series.points] for each in histories]),
                _encode(summary),
            )
            if is_new := self._job.before.get(page) != digest:
                results = self._newest_results(histories)
                pictures = [each for result in results for each in _pictures(result)]
                view = views.case_view(histories, results, self._links, pictures)
                _write(self._job.folder, page, _render(view, self._job.shared, page))
            yield _Made(page=page, digest=digest, is_new=is_new, case=summary)

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

    def _make_run(self, run_id: str) -> _Made:
        if not self._runs:
            self._runs = {each.id: each for each in self._store.runs()}
            self._cases = self._store.cases()
        summary = self._runs[run_id]
        page = views.run_page(run_id)
        digest = _digest(*_versions(self._job.shared), _encode(summary))
        if is_new := self._job.before.get(page) != digest:
            _write(
                self._job.folder,
                page,
                _render(self._view_of_run(summary), self._job.shared, page),
            )
        return _Made(page=page, digest=digest, is_new=is_new)

    def _view_of_run(self, summary: RunSummary) -> View:
        if not views.is_run_of_cases(summary):
            try:
                return view_of(self._store.run(summary.id))
            except TorchmarkError:  # its record is damaged; what is listed is shown
                return views.run_view(summary, [], self._links)
        origins = [each for each in self._origins if each.run == summary.id]
        figures: dict[str, dict[Quantity, Cell]] = {}
        for series in self._store.series(origins=origins):
            point = series.points[-1]
            ends = None if point.low is None or point.high is None else (point.low, point.high)
            figures.setdefault(series.case_id, {})[series.quantity] = Cell(
                point.value, interval=ends
            )
        known = [
            (self._cases[each], found) for each, found in figures.items() if each in self._cases
        ]
        return views.run_view(summary, known, self._links)


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


def _versions(shared: SiteSettings) -> tuple[bytes, ...]:
    return __version__.encode(), _encode(shared)


def _encode(content: object) -> bytes:
    return msgspec.json.encode(content, order="sorted")


def _digest(*parts: bytes) -> str:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def _render(view: View, shared: SiteSettings, page: str) -> bytes:
    site = html.Site(
        title=shared.title,
        root="../" if "/" in page else "",
        here=page,
        pages=_PAGES,
        has_vega=shared.has_vega,
    )
    return html.render(view, site).encode()


def _update(folder: Path, page: str, content: bytes, before: dict[str, str]) -> _Made:
    """Write a page if its content changed."""
    digest = _digest(content)
    is_new = before.get(page) != digest
    if is_new:
        _write(folder, page, content)
    return _Made(page=page, digest=digest, is_new=is_new)


def _write(folder: Path, page: str, content: bytes) -> None:
    file = folder / page
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)
    except OSError as error:
        raise OutputFileError(
            f"{file} cannot be written: {error.strerror}; free some space, or name another "
            "directory, and publish again"
        ) from error

"""`torchmark publish` and `torchmark report`, as people call them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests import records, sites
from tests.cli.test_stored import Done, call  # noqa: F401 - a fixture
from tests.engine.zygote_cases import wait_until
from tests.report.test_pages_of_every_kind import RUNS
from torchmark.model.run import RunKind
from torchmark.report.views.site import case_page
from torchmark.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.browsing import Visit

ADD_PAGE = case_page(sites.ADD.id)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return sites.make_store(tmp_path / "marks.db")


def test_publish_says_what_it_wrote(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    done = call("publish", "site", "--store", place, "--title", "Our marks")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("site/index.html: 4")
    assert "0 removed" in done.out
    assert "<title>Our marks</title>" in Path("site/index.html").read_text()
    assert call("publish", "site", "--store", place, "--title", "Our marks").out.endswith(
        ", 0 written, 0 removed\n"
    )
    assert call("publish", "site", "--store", place, "--quiet").out == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["."], "has files that `torchmark publish` did not make"),
        (["site", "--commit-url", "https://example.org"], "must have {commit} in it"),
        (["site", "--site-url", "ftp://example.org"], "it must begin with https://"),
        (["site", "--store", "missing.db"], "there is no store missing.db"),
    ],
)
def test_wrong_arguments_are_refused(
    call: Callable[..., Done],  # noqa: F811
    place: str,
    options: list[str],
    told: str,
) -> None:
    done = call("publish", "--store", place, *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not Path("site").exists()


def test_a_full_disk_is_exit_code_4(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    assert call("publish", "site", "--store", place).code == 0
    page = Path("site", ADD_PAGE)
    page.unlink()
    page.symlink_to("/dev/full")
    done = call("publish", "site", "--store", place)
    assert (done.code, done.out) == (4, "")
    assert f"{page} cannot be written: No space left on device; free some space" in done.err


def test_a_damaged_run_is_told_and_the_rest_is_published(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    sites.damage_run(place, sites.runs()[0].id)
    done = call("publish", "site", "--store", place)
    assert done.code == 4
    assert "damaged: a record of run" in done.err
    assert Path("site", ADD_PAGE).is_file()


def test_sigterm_ends_publish_and_its_processes(place: str, tmp_path: Path) -> None:
    """As a cancelled job does; the exit code is that of shells."""
    for day in range(40):  # more pages than one process would make
        sites.add_run(place, day + 17)
    command = [sys.executable, "-m", "torchmark", "publish", "site", "--store", place]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(list(tmp_path.glob("site/cases/*.html"))))
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate()
    assert (process.returncode, told.strip()) == (143, "torchmark: terminated")
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0


def test_report_of_one_run_is_its_page(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    done = call("report", "latest", "--store", place)
    assert done.code == 0
    assert "written to report.html" in done.err
    shown = call("show", "latest", "--store", place, "--html", "show.html")
    assert shown.code == 0
    assert Path("report.html").read_text() == Path("show.html").read_text()


def test_a_report_names_an_unknown_run(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    done = call("report", "nowhere", "--store", place)
    assert done.code == 2
    assert "there is no run 'nowhere'" in done.err
    assert not Path("report.html").exists()


def test_a_report_that_cannot_be_written_is_refused_first(
    call: Callable[..., Done],  # noqa: F811
    place: str,
) -> None:
    done = call("report", "latest", "-o", "missing/report.html", "--store", place)
    assert done.code == 2
    assert "missing/report.html cannot be written" in done.err


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[str, list[str]]:
    """A store with two runs of every kind, and their ids."""
    place = str(tmp_path / "mixed.db")
    names = []
    with open_store(place) as store:
        for number, (kind, make) in enumerate(2 * list(RUNS.items())):
            name = f"20261115-2215{number:02}-aaaaaa"
            tags = (f"{kind.name}-{number}",)
            store.create(msgspec.structs.replace(make(), id=name, tags=tags))
            names.append(name)
    return place, names


def test_a_report_of_runs_of_every_kind_is_one_page(
    call: Callable[..., Done],  # noqa: F811
    mixed: tuple[str, list[str]],
    visit: Callable[..., Visit],
) -> None:
    place, names = mixed
    done = call("report", *names, "-o", "all.html", "--store", place)
    assert done.code == 0, done.err
    page = visit(Path("all.html")).page
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    links = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].map(each => each.getAttribute('href'))"
    )
    assert len([each for each in links if "failure" in each]) >= 2
    assert {each[1:] for each in links} <= set(ids)
    headings = " ".join(page.locator("h2").all_inner_texts())
    assert [kind for kind in RunKind if f"{kind.name}-" not in headings] == []
    _follow_a_failure(page)


def _follow_a_failure(page: Page) -> None:
    """The second of two equal runs leads to its own failure."""
    link = page.locator("a[href*='failure']").last
    target = link.get_attribute("href")
    link.click()
    assert target is not None
    assert page.locator(f"[id='{target[1:]}']").is_visible()


def test_runs_of_suites_have_a_common_table(
    call: Callable[..., Done],  # noqa: F811
    tmp_path: Path,
) -> None:
    place = str(tmp_path / "two.db")
    case = records.case("Pointwise", sites.HOSTILE)
    with open_store(place) as store:
        for number, tag in enumerate(("before", "after")):
            results = (records.time_result(case, (number + 1) * 1e-6),)
            name = f"20261115-22153{number}-aaaaaa"
            store.create(records.run_of(case, id=name, tags=(tag,), results=results))
    assert call("report", "before", "after", "before", "--store", place).code == 0
    page = Path("report.html").read_text()
    assert "2 runs: before, after." in page
    assert "Times of all runs" in page
    assert "<script>alert(1)" not in page
    assert "\x1b" not in page


def test_a_damaged_result_is_told(call: Callable[..., Done], place: str) -> None:  # noqa: F811
    run = sites.runs()[0]
    sites.damage_result(place, run.id, sites.ADD.id)
    done = call("report", run.id, "--store", place)
    assert done.code == 4
    assert "its record in the store is damaged" in done.err
    assert "the page has everything except the damaged records" in done.err
    assert "its record in the store is damaged" in Path("report.html").read_text()

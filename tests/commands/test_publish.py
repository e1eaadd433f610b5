"""`torchmark.commands.publish`: what is written, what is left alone, and what a kill leaves."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests import histories, records, sites
from tests.sites import add_run, content_of
from tests.store.conftest import postgres  # noqa: F401 - a fixture
from tests.store.postgres import Server
from torchmark.commands import site_pages
from torchmark.commands.publish import Published, publish
from torchmark.commands.site_folder import MARKER
from torchmark.errors import InvalidArgumentError, OutputFileError
from torchmark.model.run import RunKind
from torchmark.report.views.site import case_page, run_page
from torchmark.store import open_store

ATOM = "{http://www.w3.org/2005/Atom}"
ADD_PAGE = case_page(sites.ADD.id)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "marks.db"
    sites.make_store(path)
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> str:
    """A copy of the store of `tests.sites`, which a test may change."""
    copy = tmp_path / "marks.db"
    copy.write_bytes(made.read_bytes())
    return str(copy)


def into(folder: Path, place: str, **options: Any) -> Published:
    return publish(folder, store=place, **{"processes": 1, **options})


def test_the_same_store_gives_the_same_bytes(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into(tmp_path / "one", place)
    monkeypatch.setattr(site_pages, "_FEW", 0)
    into(tmp_path / "two", place, processes=2)
    first = content_of(tmp_path / "one")
    assert first == content_of(tmp_path / "two")
    assert len(first) > len(sites.CASES) + 2 * sites.DAYS
    assert multiprocessing.active_children() == []


def test_nothing_is_written_if_nothing_changed(place: str, tmp_path: Path) -> None:
    found = into(tmp_path / "site", place)
    assert (found.written, found.removed) == (found.pages, 0)
    again = into(tmp_path / "site", place)
    assert (again.pages, again.written, again.removed) == (found.pages, 0, 0)


def test_a_new_run_changes_only_what_it_is_about(place: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    into(site, place)
    before = content_of(site)
    run = add_run(place)
    into(site, place)
    after = content_of(site)
    changed = {name for name in after if after[name] != before.get(name)}
    about_it = {run_page(run), ADD_PAGE, "index.html", "runs.html"}
    assert about_it <= changed <= {*about_it, "changes.html", "feed.xml"}


def test_the_page_of_a_removed_run_disappears(place: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run = add_run(place)
    into(site, place)
    with open_store(place) as store:
        store.remove(run)
    assert into(site, place).removed == 1
    assert not (site / run_page(run)).exists()
    into(tmp_path / "fresh", place)
    assert content_of(site) == content_of(tmp_path / "fresh")


@pytest.mark.parametrize("name", ["index.html", "notes.txt", "cases"])
def test_a_folder_with_other_files_is_refused(place: str, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).mkdir() if name == "cases" else (folder / name).write_text("mine")
    before = content_of(folder)
    with pytest.raises(InvalidArgumentError, match=r"has files that .* did not make; name an emp"):
        into(folder, place)
    assert content_of(folder) == before
    assert [each.name for each in folder.iterdir()] == [name]


def test_files_of_others_in_a_site_are_left_alone(place: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    into(site, place)
    mine = {"CNAME": "example.org", "about.html": "<p>mine", "cases/mine.html": "<p>mine"}
    for name, text in mine.items():
        (site / name).write_text(text)
    assert into(site, place).removed == 0
    assert {name: (site / name).read_text() for name in mine} == mine


def test_a_file_is_not_a_directory(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is a file; name a directory"):
        into(tmp_path / "file", place)


@pytest.mark.parametrize("name", [ADD_PAGE, "index.html", "assets/page.js", "feed.xml"])
def test_a_page_deleted_by_hand_is_written_again(place: str, tmp_path: Path, name: str) -> None:
    site = tmp_path / "site"
    into(site, place)
    before = content_of(site)
    (site / name).unlink()
    assert into(site, place).written == 1
    assert content_of(site) == before


_KILLED = """
import os, signal, sys
from torchmark.commands.publish import publish
def told(done, total):
    if done == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
publish(sys.argv[1], store=sys.argv[2], processes=1, progress=told)
"""


@pytest.mark.parametrize("pages", [1, 12, len(sites.CASES + sites.OTHERS) + 2 * sites.DAYS + 1])
def test_a_killed_publish_is_repaired_by_the_next(place: str, tmp_path: Path, pages: int) -> None:
    """Killed with a run that is removed afterwards: its pages must not stay."""
    site = tmp_path / "site"
    into(site, place)
    run = add_run(place, seconds=9e-6)
    command = [sys.executable, "-c", _KILLED, str(site), place, str(pages)]
    assert subprocess.run(command, check=False).returncode == -9
    (site / "cases" / ".torchmark-0.part").write_text("cut off")
    with open_store(place) as store:
        store.remove(run)
    into(site, place)
    into(tmp_path / "fresh", place)
    assert content_of(site) == content_of(tmp_path / "fresh")


def test_a_first_publish_that_was_killed_is_continued(place: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-c", _KILLED, str(site), place, "5"]
    assert subprocess.run(command, check=False).returncode == -9
    found = into(site, place)
    assert found.written == found.pages - 5
    into(tmp_path / "fresh", place)
    assert content_of(site) == content_of(tmp_path / "fresh")


def test_ctrl_c_ends_all_processes(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(site_pages, "_FEW", 0)
    monkeypatch.setattr(site_pages, "_AT_ONCE", 1)
    with pytest.raises(KeyboardInterrupt):
        into(tmp_path / "site", place, processes=2, progress=interrupt)
    assert multiprocessing.active_children() == []
    assert len(content_of(tmp_path / "site")) < 2 * sites.DAYS


def test_a_full_disk_is_a_clear_error(place: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    into(site, place)
    (site / ADD_PAGE).unlink()
    (site / ADD_PAGE).symlink_to("/dev/full")
    with pytest.raises(OutputFileError, match=r"cannot be written: No space left .*; free some"):
        into(site, place)


def test_an_error_in_another_process_arrives(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    into(site, place)
    (site / ADD_PAGE).unlink()
    (site / ADD_PAGE).symlink_to("/dev/full")
    monkeypatch.setattr(site_pages, "_FEW", 0)
    with pytest.raises(OutputFileError, match="cannot be written: No space left"):
        into(site, place, processes=2)


def test_an_empty_store_has_a_site_that_says_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "empty.db"):
        pass
    into(tmp_path / "site", str(tmp_path / "empty.db"))
    text = (tmp_path / "site" / "index.html").read_text()
    assert "the store has no times or counts yet" in text
    assert "The store has no runs yet." in (tmp_path / "site" / "runs.html").read_text()


def test_one_run_has_figures_but_no_history(tmp_path: Path) -> None:
    place = str(tmp_path / "one.db")
    run = add_run(place)
    into(tmp_path / "site", place)
    page = (tmp_path / "site" / ADD_PAGE).read_text()
    assert "One run so far; a history needs a second one." in page
    assert f"../{run_page(run)}" in page
    assert "chart-history" not in page


def test_statements_without_a_suite_are_a_section_of_their_own(tmp_path: Path) -> None:
    place = str(tmp_path / "one.db")
    result = records.time_result(records.case(stmt="x + 1"))
    with open_store(place) as store:
        store.create(records.run_of(result.case, kind=RunKind.TIME, results=(result,)))
    into(tmp_path / "site", place)
    assert "<h2>Single statements</h2>" in (tmp_path / "site" / "index.html").read_text()


def test_commits_are_linked_by_the_template(place: str, tmp_path: Path) -> None:
    odd = "<script>alert(1)</script>"
    add_run(place, 18, commit=odd)
    add_run(place, 19, commit="javascript:alert(1)", branch='"><img src=x onerror=alert(1)>')
    into(tmp_path / "site", place, commit_url="https://example.org/{commit}?a=1&b=2")
    page = (tmp_path / "site" / ADD_PAGE).read_text()
    assert f'href="https://example.org/{histories.commit(3)}?a=1&amp;b=2"' in page
    everything = b"".join(content_of(tmp_path / "site").values())
    assert b'href="javascript:' not in everything
    assert b"<img src=x" not in everything
    for name, content in content_of(tmp_path / "site").items():
        assert odd.encode() not in content, name


@pytest.mark.parametrize("url", ["javascript:alert('{commit}')", "//example.org/{commit}"])
def test_only_web_addresses_are_linked(place: str, tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must begin with https://"):
        into(tmp_path / "site", place, commit_url=url)
    with pytest.raises(InvalidArgumentError, match="must begin with https://"):
        into(tmp_path / "site", place, site_url=url)
    with pytest.raises(InvalidArgumentError, match=r"must have \{commit\} in it"):
        into(tmp_path / "site", place, commit_url="https://example.org")
    assert not (tmp_path / "site").exists()


def test_the_feed_is_valid_and_names_the_lasting_changes(place: str, tmp_path: Path) -> None:
    title = f"marks {sites.HOSTILE}"
    into(tmp_path / "site", place, site_url="https://example.org/marks", title=title)
    feed = ET.parse(tmp_path / "site" / "feed.xml").getroot()
    assert feed.findtext(f"{ATOM}title", "").startswith("marks <b>bold</b> </script>")
    titles = [each.findtext(f"{ATOM}title", "") for each in feed.iter(f"{ATOM}entry")]
    assert len([each for each in titles if "Pointwise / add" in each]) == 2
    assert not any("/ mul" in each for each in titles)
    links = [each.get("href") for each in feed.iter(f"{ATOM}link")]
    assert f"https://example.org/marks/{ADD_PAGE}" in links
    ids = [each.findtext(f"{ATOM}id") for each in feed.iter(f"{ATOM}entry")]
    assert len(ids) == len(set(ids))


def test_settings_name_the_site(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchmark.toml").write_text(
        '[publish]\ntitle = "Our marks"\ncommit_url = "https://example.org/{commit}"\n'
        'site_url = "https://marks.example.org"\n'
    )
    monkeypatch.chdir(tmp_path)
    into(tmp_path / "site", place)
    assert "<title>Our marks</title>" in (tmp_path / "site" / "index.html").read_text()
    assert "https://example.org/" in (tmp_path / "site" / ADD_PAGE).read_text()
    assert "https://marks.example.org/" in (tmp_path / "site" / "feed.xml").read_text()


def test_a_store_with_an_odd_path_is_opened_by_all_processes(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a?b=c #1%20.db"
    Path(place).rename(odd)
    monkeypatch.setattr(site_pages, "_FEW", 0)
    assert into(tmp_path / "site", str(odd), processes=2).written > sites.DAYS


def test_a_password_of_a_store_is_nowhere(
    postgres: Server,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not in pages, and not in the arguments and variables of processes that others can list."""
    secret = "hunter" + "2hunter2"
    url = postgres.new_schema("published").replace("//torchmark@", f"//torchmark:{secret}@")
    with open_store(url) as store:
        for run in sites.runs():
            store.create(run)
    monkeypatch.setattr(site_pages, "_FEW", 0)
    seen: list[bytes] = []

    def look(done: int, total: int) -> None:
        for child in multiprocessing.active_children():
            for name in ("cmdline", "environ"):
                seen.append(Path(f"/proc/{child.pid}/{name}").read_bytes())

    into(tmp_path / "site", url, processes=2, progress=look)
    content = content_of(tmp_path / "site")
    assert ADD_PAGE in content
    assert seen
    assert [each for each in (*content.values(), *seen) if secret.encode() in each] == []


def test_the_marker_alone_makes_a_folder_a_site(place: str, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / MARKER).write_text("")
    (tmp_path / "site" / "CNAME").write_text("example.org")
    assert into(tmp_path / "site", place).written > sites.DAYS


def test_the_page_of_a_run_says_what_failed(tmp_path: Path) -> None:
    place = str(tmp_path / "one.db")
    results = records.failed_result(sites.ADD), records.time_result(sites.MUL)
    run = histories.run_on(1, *results)
    with open_store(place) as store:
        store.create(run)
    into(tmp_path / "site", place)
    page = (tmp_path / "site" / run_page(run.id)).read_text()
    assert "the case crashed its process with SIGSEGV" in page
    assert "1 done, 1 failed" in page

"""The commands that read the store, as people call them, with their exit codes."""

from __future__ import annotations

import csv
import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import torchmark
from tests import records
from torchmark.cli import cli, main
from torchmark.cli.shell import ExitCode, code_of
from torchmark.engine.files import own_run
from torchmark.errors import (
    CaseFailedError,
    CompileError,
    CompilerMissingError,
    InvalidArgumentError,
    MissingToolError,
    MissingTorchError,
    StoreError,
    UnknownRunError,
    ZygoteError,
)
from torchmark.model.codec import decode_run, json_schema
from torchmark.model.run import Environment, RunKind, RunState
from torchmark.store import artifact_folder, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

ADD, MUL = records.case("Pointwise", "add"), records.case("Pointwise", "mul", stmt="x * y")
SITE = str(Path(torchmark.__file__).resolve().parent.parent)
FIRST, SECOND = "20261115-221530-aaaaaa", "20261116-080000-bbbbbb"


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Done]:
    """`torchmark` with these arguments, in an empty directory and without a user's own store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("COLUMNS", raising=False)

    def called(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["torchmark", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return called


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with two runs: the second is slower, takes more, and breaks a case."""
    path = tmp_path / "marks.db"
    with open_store(path) as store:
        for run_id, day, tag in ((FIRST, 15, "before"), (SECOND, 16, "after")):
            started = f"2026-11-{day}T08:00:00Z"
            store.create(records.run_of(ADD, MUL, id=run_id, started=started, tags=(tag,)))
            store.finish(run_id, RunState.FINISHED)
        for result in (
            records.time_result(ADD, 1e-6),
            records.count_result(ADD, 100_000),
            records.time_result(MUL, 1e-6),
        ):
            store.add(FIRST, result)
        for result in (
            records.time_result(ADD, 2e-6),
            records.count_result(ADD, 100_100),
            records.failed_result(MUL, reason="\x1b[31mit crashed"),
        ):
            store.add(SECOND, result)
    return str(path)


def test_rm_takes_the_files_of_a_run_along(call: Callable[..., Done], place: str) -> None:
    kept, gone = (artifact_folder(place, run) for run in (FIRST, SECOND))
    for folder in (kept, gone):
        folder.mkdir(parents=True)
        (folder / "model.pt").write_bytes(b"x")
    assert call("rm", SECOND, "--store", place).code == 0
    assert kept.exists()
    assert not gone.exists()


def test_runs_lists_them_the_oldest_first(
    call: Callable[..., Done], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = call("runs", "--store", place)
    assert done.out.splitlines()[:4] == [
        "run                        date  kind  suite           state              tags",
        "  20261115-221530-aaaaaa  11-15  run   Pointwise / a…  finished 3/4       before",
        "  20261116-080000-bbbbbb  11-16  run   Pointwise / a…  finished 2/4, 1    after",
        "                                                         failed",
    ]
    assert "2 runs in" in done.out
    assert done.out.endswith("; torch 2.13.0.\n")
    assert (done.code, done.err) == (0, "")
    newest = call("runs", "--limit", "1", "--store", place).out
    assert FIRST not in newest
    assert SECOND in newest
    assert "The newest 1 of 2 runs" in newest
    assert [
        each["id"]
        for each in json.loads(call("runs", "--json", "--limit", "1", "--store", place).out)
    ] == [SECOND]


def test_runs_has_columns_for_host_and_torch_where_they_differ_or_there_is_room(
    call: Callable[..., Done], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Environment(facts={"machine": {"host": "far"}, "torch": {"version": "2.13.0"}})
    with open_store(place) as store:
        settings = {"suites": ["standard", "/home/me/bench_mine.py"]}
        run = records.run_of(id="20261117-000000-cccccc", started="2026-11-17T00:00:00Z")
        store.create(replace(run, environments=(elsewhere,), settings=settings))
    lines = call("runs", "--limit", "1", "--store", place).out.splitlines()
    assert lines[0].split() == ["run", "date", "kind", "suite", "state", "tags"]
    lines = call("runs", "--store", place).out.splitlines()
    assert lines[0].split()[-2:] == ["host", "tags"]
    assert max(map(len, lines[:-2])) <= 80
    monkeypatch.setenv("COLUMNS", "140")
    lines = call("runs", "--limit", "1", "--store", place).out.splitlines()
    assert lines[0].split()[-3:] == ["host", "torch", "tags"]
    assert "standard, bench_mine.py" in lines[1]


def test_runs_never_breaks_an_id_in_two(call: Callable[..., Done], place: str) -> None:
    with open_store(place) as store:
        store.tag(FIRST, "a-rather-long-tag-for-a-run")
    lines = call("runs", "--store", place).out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert sum(FIRST in line for line in lines) == sum(SECOND in line for line in lines) == 1


@pytest.mark.parametrize("kind", RunKind)
def test_every_kind_of_run_is_listed_tagged_and_removed(
    call: Callable[..., Done], tmp_path: Path, kind: RunKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    place = str(tmp_path / "marks.db")
    facts = [{"torch": {"version": version}} for version in ("2.12.0", "2.13.0", "2.13.0")]
    environments = tuple(
        Environment(name=name, facts=of) for name, of in zip("ABC", facts, strict=True)
    )
    with open_store(place) as store:
        store.create(records.run_of(ADD, id=FIRST, kind=kind, environments=environments))
    listed = call("runs", "--store", place).out
    assert FIRST in listed
    assert all(word in listed for word in kind.value.split())
    assert max(map(len, listed.splitlines()[:-2])) <= 80
    assert "torch 2.12.0, 2.13.0." in " ".join(listed.split())
    (record,) = json.loads(call("runs", "--store", place, "--json").out)
    assert record["kind"] == kind.value
    assert [each["name"] for each in record["environments"]] == ["A", "B", "C"]
    assert call("tag", "latest", "kept", "--store", place).code == 0
    assert call("rm", "kept", "--store", place).out == f"removed {FIRST}\n"
    assert call("runs", "--store", place, "--json").out == "[]\n"


def test_a_run_that_nobody_carries_out_any_more_was_cut_short(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    place = str(tmp_path / "marks.db")
    here = Environment(facts={"machine": {"host": platform.node()}})
    run = records.run_of(ADD, id=FIRST, environments=(here,))
    with open_store(place) as store:
        store.create(run)
    assert "cut short" in call("runs", "--store", place).out
    with own_run(FIRST):
        assert "running" in call("runs", "--store", place).out
        refused = call("rm", FIRST, "--store", place)
    assert refused.code == 2
    assert "is being measured" in refused.err
    assert call("rm", FIRST, "--store", place).code == 0


def test_runs_prints_json(call: Callable[..., Done], place: str) -> None:
    first, second = json.loads(call("runs", "--store", place, "--json").out)
    assert (first["id"], first["tags"], first["done"]) == (FIRST, ["before"], 3)
    assert (second["kind"], second["failed"]) == ("run", 1)
    assert second["environments"][0]["facts"]["torch"]["version"] == "2.13.0"


def test_an_empty_store_says_how_to_fill_it(call: Callable[..., Done], tmp_path: Path) -> None:
    done = call("runs")
    assert (done.code, done.out) == (0, "")
    assert "`torchmark run`" in done.err
    assert call("runs", "--json").out == "[]\n"
    assert (tmp_path / "data" / "torchmark" / "store.sqlite3").is_file()


@pytest.mark.parametrize("name", ["latest", "after", "20261116", SECOND])
def test_show_has_the_results_and_the_failures(
    call: Callable[..., Done], place: str, name: str
) -> None:
    done = call("show", name, "--store", place)
    assert done.code == 0
    assert done.out.startswith(f"Run {SECOND} (after)\nfinished, started 2026-11-16")
    for part in ("2.000 us", "1,001", "Pointwise / mul", "it crashed"):
        assert part in done.out
    assert "\x1b" not in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_show_takes_the_latest_unless_told(call: Callable[..., Done], place: str) -> None:
    assert call("show", "--store", place) == call("show", "latest", "--store", place)


def test_show_writes_json(call: Callable[..., Done], place: str) -> None:
    done = call("show", "before", "--store", place, "--json", "run.json")
    assert done.err == "torchmark: written to run.json\n"
    assert call("show", "before", "--store", place, "--json").err == ""
    record = json.loads(Path("run.json").read_text())
    assert record["record"]["id"] == FIRST
    assert record["table"][0]["samples"] == 99


def test_compare_has_a_verdict_for_each_case(call: Callable[..., Done], place: str) -> None:
    done = call("compare", "before", "after", "--store", place)
    assert done.code == 0, "no failure was asked for"
    for part in ("+100.0 ±", "slower", "+1.00", "more", "failed in the second run"):
        assert part in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())
    call("compare", "before", "after", "--store", place, "--json", "changes.json")
    table = json.loads(Path("changes.json").read_text())["table"]
    verdicts = [(row["metric"], row["verdict"]) for row in table if row["verdict"]]
    assert ("time", "slower") in verdicts


def test_compare_writes_every_format(call: Callable[..., Done], place: str) -> None:
    files = {form: Path(f"changes.{form}") for form in ("csv", "markdown", "html")}
    options = [part for form, file in files.items() for part in (f"--{form}", str(file))]
    assert call("compare", "before", "after", "--store", place, *options).code == 0
    for file in files.values():
        assert "slower" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["before", "after"], 0),
        (["before", "after", "--fail-on", "slower"], 1),
        (["before", "after", "--fail-on", "any"], 1),
        (["after", "before", "--fail-on", "slower"], 0),
        (["after", "before", "--fail-on", "any"], 1),
        (["before", "before", "--fail-on", "any"], 2),
        (["after", "latest"], 2),
        (["before", "after", "--fail-on", "slower", "--threshold", "200"], 3),
        (["before", "after", "--fail-on", "slower", "--threshold", "0.05"], 1),
        (
            ["before", "after", "--fail-on", "any", "--threshold", "200", "--count-threshold", "0"],
            1,
        ),
        (["before", "after", "--threshold", "-1"], 2),
        (["before", "after", "--threshold", "nan"], 2),
        (["before", "after", "--fail-on", "faster"], 2),
        (["before"], 2),
        (["before", "nothing"], 2),
    ],
)
def test_compare_fails_on_what_it_was_asked_to(
    call: Callable[..., Done], place: str, arguments: list[str], code: int
) -> None:
    assert call("compare", *arguments, "--store", place).code == code


def test_thresholds_may_stand_in_the_settings(
    call: Callable[..., Done], place: str, tmp_path: Path
) -> None:
    arguments = ("compare", "before", "after", "--fail-on", "slower")
    settings = tmp_path / "torchmark.toml"
    settings.write_text('store = "marks.db"\n[thresholds]\ntime = 150\ncount = 1')
    assert call(*arguments).code == 3
    assert call(*arguments, "--threshold", "1").code == 1
    settings.write_text('store = "marks.db"\n[thresholds]\ntime = "much"')
    done = call(*arguments)
    assert done.code == 2
    assert f"{settings}: thresholds.time" in done.err


def test_export_writes_all_of_it_to_a_file(
    call: Callable[..., Done], place: str, tmp_path: Path
) -> None:
    for form in ("json", "csv", "markdown", "html"):
        file = tmp_path / f"run.{form}"
        printed = call("export", "before", "--format", form, "--store", place)
        quiet = call("export", "before", "--format", form, "--store", place, "-o", str(file))
        assert (printed.code, quiet.code, quiet.out) == (0, 0, "")
        assert (printed.err, quiet.err) == ("", f"torchmark: written to {file}\n")
        assert file.read_text() == printed.out
    with open_store(place) as store:
        assert decode_run((tmp_path / "run.json").read_text()) == store.run("before")
    assert len(list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))) == 3


def test_export_says_what_is_wrong_with_its_file(call: Callable[..., Done], place: str) -> None:
    done = call("export", "--format", "csv", "--store", place, "-o", "no/such/directory/x.csv")
    assert done.code == 2
    assert "no/such/directory/x.csv cannot be written" in done.err
    assert call("export", "--store", place).code == 2, "the format must be named"


def test_a_misspelt_store_is_told_and_not_made(call: Callable[..., Done], tmp_path: Path) -> None:
    for command in (["runs"], ["show"], ["rm", "latest"], ["export", "--format", "csv"]):
        done = call(*command, "--store", "typo.db")
        assert done.code == 2
        assert "there is no store typo.db" in done.err
    assert list(tmp_path.iterdir()) == []


def test_rm_removes_what_it_is_told_or_nothing(call: Callable[..., Done], place: str) -> None:
    assert call("rm", "before", "nothing", "--store", place).code == 2
    assert len(json.loads(call("runs", "--json", "--store", place).out)) == 2
    done = call("rm", "before", FIRST, "--store", place)
    assert (done.code, done.out) == (0, f"removed {FIRST}\n")
    assert [run["id"] for run in json.loads(call("runs", "--json", "--store", place).out)] == [
        SECOND
    ]


def test_tag_gives_a_run_another_name(
    call: Callable[..., Done], place: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert call("tag", "latest", "v2", "--store", place) == (0, f"tagged {SECOND} v2\n", "")
    assert call("show", "v2", "--store", place).code == 0
    assert call("tag", "before", "v2", "--store", place).code == 0
    assert f"moved the tag v2 from {SECOND} to" in caplog.text
    assert FIRST in call("show", "v2", "--store", place).out
    assert call("tag", "before", "latest", "--store", place).code == 2
    assert call("tag", "before", SECOND, "--store", place).code == 2


def test_untag_takes_a_name_away(call: Callable[..., Done], place: str) -> None:
    assert (
        call("untag", "before", "--store", place).out == f"{FIRST} no longer has the tag before\n"
    )
    assert call("show", "before", "--store", place).code == 2
    assert call("untag", "before", "--store", place).code == 2
    assert call("show", FIRST, "--store", place).code == 0


def damage_time(place: str, run_id: str) -> None:
    connection = sqlite3.connect(place)
    change = "UPDATE torchmark_results SET record = 'x' WHERE run_id = ? AND case_id = ?"
    with connection:
        connection.execute(f"{change} AND metric = 'time'", (run_id, ADD.id))
    connection.close()


def test_a_damaged_result_is_told_and_the_others_are_shown(
    call: Callable[..., Done], place: str
) -> None:
    damage_time(place, FIRST)
    told = f"the time of case {ADD.id}"
    remedy = f"torchmark run --resume {FIRST} --store {place}"
    for arguments in (
        ["show", "before"],
        ["export", "before", "--format", "csv"],
        ["export", "before", "--format", "json"],
        ["compare", "before", "after"],
        ["compare", "after", "before", "--fail-on", "slower"],
    ):
        done = call(*arguments, "--store", place)
        assert done.code == ExitCode.ENVIRONMENT, arguments
        assert told in done.err
        assert remedy in done.err
        assert "mul" in done.out
        assert "damaged" in done.out
    assert call("compare", "before", "after", "--fail-on", "slower", "--store", place).code == 1


def test_a_damaged_run_is_told_and_the_others_are_listed(
    call: Callable[..., Done], place: str
) -> None:
    connection = sqlite3.connect(place)
    with connection:
        connection.execute("UPDATE torchmark_runs SET kind = 'party' WHERE id = ?", (FIRST,))
    connection.close()
    done = call("runs", "--store", place)
    assert done.code == ExitCode.ENVIRONMENT
    assert SECOND in done.out
    assert FIRST not in done.out
    assert f"torchmark rm {FIRST} --store {place}" in done.err
    assert call("rm", FIRST, "--store", place).code == 0
    assert call("runs", "--store", place).code == 0


def test_show_and_compare_take_some_cases_in_another_order(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    place = str(tmp_path / "some.db")
    cases = [records.case("Pointwise", name, stmt=name) for name in ("b", "c", "a")]
    with open_store(place) as store:
        for run_id, day, seconds in ((FIRST, 15, (1, 2, 3)), (SECOND, 16, (1, 6, 4))):
            store.create(records.run_of(*cases, id=run_id, started=f"2026-11-{day}T08:00:00Z"))
            for case, each in zip(cases, seconds, strict=True):
                store.add(run_id, records.time_result(case, each * 1e-6))
                store.add(run_id, records.count_result(case, each * 1000))

    def order(*arguments: str) -> str:
        done = call(*arguments, "--store", place)
        assert done.code == 0, done.err
        return "".join(re.findall(r"^  (\w) · Python", done.out, re.M))

    assert order("show") == "bca"
    assert order("show", "--sort", "name") == "abc"
    assert order("show", FIRST, "--sort", "time") == "acb"
    assert order("show", "-k", "not '/ b'") == "ca"
    assert order("compare", FIRST, SECOND) == "bca" * 2
    assert order("compare", FIRST, SECOND, "--sort", "name") == "abc" * 2
    assert order("compare", FIRST, SECOND, "--sort", "time") == "cab" * 2
    assert order("compare", FIRST, SECOND, "--sort", "change") == "cab" * 2
    assert order("compare", FIRST, SECOND, "-k", "'/ a' or '/ b'", "--sort", "change") == "ab" * 2
    done = call("show", "-k", "nothing", "--store", place)
    assert done.code == 2
    assert "no case of" in done.err
    assert call("show", "-k", "(", "--store", place).code == 2


def test_a_misspelt_command_is_told_with_those_that_are_near(call: Callable[..., Done]) -> None:
    done = call("shw")
    assert (done.code, "Did you mean show?" in done.err) == (2, True)
    assert "torchmark --help" in call("xyzzy").err
    assert "--format" in call("export", "--formt", "json").err


def test_reading_commands_leave_a_store_as_it_is(call: Callable[..., Done], place: str) -> None:
    before = {path: path.read_bytes() for path in Path(place).parent.iterdir() if path.is_file()}
    for arguments in (
        ["runs"], ["show"], ["compare", "before", "after"], ["export", "--format", "csv"],
    ):  # fmt: skip
        assert call(*arguments, "--store", place).code == 0
    after = {path: path.read_bytes() for path in Path(place).parent.iterdir() if path.is_file()}
    assert after == before


def test_a_store_that_cannot_be_used_is_an_environment_that_cannot(
    call: Callable[..., Done], tmp_path: Path
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes " * 1000)
    for place in (str(notes), str(tmp_path), "postgresql://127.0.0.1:1/x"):
        done = call("runs", "--store", place)
        assert done.code == 4
        assert done.err.startswith("torchmark: ")
        assert "Traceback" not in done.err
    assert call("runs", "--store", "mysql://x/y").code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgumentError(""), 2),
        (UnknownRunError(""), 2),
        (CaseFailedError("", kind="crashed"), 3),
        (CompileError(""), 3),
        (MissingTorchError(""), 4),
        (MissingToolError(""), 4),
        (CompilerMissingError(""), 4),
        (ZygoteError(""), 4),
        (StoreError(""), 4),
    ],
)
def test_every_error_has_its_code(error: torchmark.TorchmarkError, code: int) -> None:
    assert code_of(error) == code


def test_a_defect_of_torchmark_is_not_taken_for_a_regression(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("torchmark.cli.stored.opened", broken)
    done = call("runs")
    assert done.code == ExitCode.DEFECT
    assert "ZeroDivisionError: ours" in done.err


def test_the_commands_of_the_store_import_no_torch(place: str, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not needed here')")
    site = str(Path(torchmark.__file__).resolve().parent.parent)
    for arguments in (["runs"], ["show"], ["compare", "before", "after"]):
        subprocess.run(
            [sys.executable, "-m", "torchmark", *arguments, "--store", place],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{site}"},
        )


def test_schema_is_printed_or_written_to_a_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["schema"])
    assert printed.exit_code == 0
    assert json.loads(printed.output) == json.loads(json.dumps(json_schema()))
    file = tmp_path / "schema.json"
    written = CliRunner().invoke(cli, ["schema", "--output", str(file)])
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr == f"torchmark: written to {file}\n"
    assert file.read_text() == printed.output


def test_a_schema_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["schema", "-o", str(tmp_path / "none" / "schema.json")])
    assert isinstance(done.exception, InvalidArgumentError)
    assert "cannot be written" in str(done.exception)


def test_an_export_to_a_full_disk_leaves_the_file_that_was_there(
    place: str, tmp_path: Path
) -> None:
    """In a process of its own, whose files can take no more than 40 kB."""
    file = tmp_path / "before.json"
    file.write_text("the old one")
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); "
        "from torchmark.cli import main; main()"
    )
    for arguments in (
        ["export", "before", "--format", "html", "-o", str(file)],
        ["show", "before", "--html", str(file)],
        ["compare", "before", "after", "--html", str(file)],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments, "--store", place],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": SITE},
        )
        assert done.returncode == ExitCode.ENVIRONMENT, done.stderr
        assert f"{file} cannot be written: File too large" in done.stderr
        assert file.read_text() == "the old one"

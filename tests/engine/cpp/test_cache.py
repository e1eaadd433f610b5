"""The cache: several processes at once, its size, damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchmark.engine.cpp import cache as cache_module
from torchmark.engine.cpp.cache import Cache
from torchmark.engine.zygote.cases import NativeCase

if TYPE_CHECKING:
    from .conftest import FakeBuilds

WORKER = """
import sys
from pathlib import Path
from tests.engine.cpp.conftest import FakeBuilds, fake_toolchain
from torchmark.engine.cpp.cache import Cache
builds = FakeBuilds(Cache(Path(sys.argv[1])), fake_toolchain(Path(sys.argv[2])), Path("unused"))
print("ready", flush=True)
sys.stdin.readline()
for result in builds.build(*sys.argv[3:]):
    print(result.library, result.symbol)
"""


def build_at_once(fake: FakeBuilds, batches: list[list[str]]) -> list[list[str]]:
    """One process a batch, all let go at the same moment; what each printed."""
    command = [sys.executable, "-c", WORKER, str(fake.cache.root),
               str(fake.toolchain.api_folders[0])]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    workers = [
        subprocess.Popen(
            [*command, *batch],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for batch in batches
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    printed = [worker.communicate(timeout=900)[0].splitlines() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * len(workers)
    return printed


def test_processes_that_want_the_same_build_it_once(fake: FakeBuilds) -> None:
    printed = build_at_once(fake, [["a;", "b;"]] * 4)
    assert fake.runs() == ["unit 0 1"]
    assert all(lines == printed[0] for lines in printed)


def test_processes_with_different_batches_do_not_break_each_other(fake: FakeBuilds) -> None:
    printed = build_at_once(fake, [["a;", "b;"], ["b;", "c;"], ["c;", "a;", "d;"]])
    for line in [line for lines in printed for line in lines]:
        library, symbol = line.split()
        assert symbol in Path(library).read_text()
    fake.runs()
    assert all(isinstance(result, NativeCase) for result in fake.build("a;", "b;", "c;", "d;"))
    assert fake.runs() == []


def test_without_locks_builds_still_work(fake: FakeBuilds, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr("fcntl.flock", refuse)
    (built,) = fake.build("a;")
    assert fake.build("a;") == [built]


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"library": "x.so"}', '{"library": 3}'])
def test_a_damaged_entry_is_built_again(fake: FakeBuilds, damage: str) -> None:
    fake.build("a;", precompile=False)
    (entry,) = (fake.cache.root / "entries").iterdir()
    entry.write_text(damage)
    fake.build("a;", precompile=False)
    assert fake.runs() == ["unit 0", "unit 0"]


def test_a_library_that_was_cut_is_built_again(fake: FakeBuilds) -> None:
    (built,) = fake.build("a;", precompile=False)
    assert isinstance(built, NativeCase)
    whole = Path(built.library).read_text()
    Path(built.library).write_text(whole[:10])
    fake.build("a;", precompile=False)
    assert fake.runs() == ["unit 0", "unit 0"]
    assert Path(built.library).read_text() == whole


def stored(cache: Cache, name: str, age: float) -> Path:
    """A library of 100 bytes that was last used `age` seconds ago, by a process that is gone."""
    with cache.workspace() as workspace:
        file = workspace / "unit.so"
        file.write_text(name.ljust(100))
        library = Path(cache.keep(file, {name: "torchmark_run_0"}, {})[name].library)
    os.close(cache_module._pinned.pop(str(library)))
    os.utime(library, (time.time() - age,) * 2)
    return library


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=250)
    old, older, new = (stored(cache, name, age) for name, age in
                       (("old", 100), ("older", 200), ("new", 1)))  # fmt: skip
    cache.trim()
    assert [path.exists() for path in (old, older, new)] == [True, False, True]
    assert cache.find("older") is None
    assert sorted(path.stem for path in tmp_path.glob("entries/*")) == ["new", "old"]


def test_a_use_makes_a_build_recent(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=250)
    used, unused = stored(cache, "used", 200), stored(cache, "unused", 100)
    found = cache.find("used")
    assert found is not None
    os.close(cache_module._pinned.pop(str(found.library)))
    stored(cache, "new", 1)
    cache.trim()
    assert used.exists()
    assert not unused.exists()


def test_what_a_process_uses_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=0)
    used, unused = stored(cache, "used", 200), stored(cache, "unused", 100)
    assert cache.find("used") is not None
    cache.trim()
    assert used.exists()
    assert not unused.exists()
    os.close(cache_module._pinned.pop(str(used)))


def test_a_header_in_use_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=0)
    with cache.workspace() as workspace:
        header = workspace / "prelude.h.gch"
        header.write_text("x" * 100)
        cache.keep_header("key", [header])
    with cache.header_in_use("key", "prelude.h.gch") as path:
        cache.trim()
        assert path is not None
        assert path.exists()
    cache.trim()
    with cache.header_in_use("key", "prelude.h.gch") as path:
        assert path is None


def test_workspaces_of_killed_processes_go_after_a_day(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for name, age in (("left", 2 * 24 * 3600), ("busy", 60)):
        folder = tmp_path / "work" / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    cache.trim()
    assert os.listdir(tmp_path / "work") == ["busy"]


def test_entries_are_plain_json(fake: FakeBuilds) -> None:
    fake.build("a;")
    (entry,) = (fake.cache.root / "entries").iterdir()
    record = json.loads(entry.read_text())
    assert record["symbol"] == "torchmark_run_0"
    assert record["depends"] == {}


def test_a_unit_and_its_header_never_share_a_lock(fake: FakeBuilds) -> None:
    """Whoever builds a statement may hold both: one file for the two would be a deadlock."""
    fake.build("a;", precompile=True)
    locks = os.listdir(fake.cache.root / "locks")
    assert sorted(name.partition("-")[0] for name in locks) == ["header", "unit"]

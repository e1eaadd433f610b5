"""Several processes at once, and processes that are killed: nothing that was added is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import torchmark
from tests.store import writer
from torchmark.store import open_store

CASES = 181
"""As many as the standard suite has."""


class Writer:
    """A process that adds the cases of these numbers to a run, once it is told to begin."""

    def __init__(self, place: str, run_id: str, numbers: list[int]) -> None:
        site = str(Path(torchmark.__file__).resolve().parent.parent)
        self.process = subprocess.Popen(
            [sys.executable, writer.__file__, place, run_id, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": site},
        )
        self._in, self._out = _given(self.process.stdin), _given(self.process.stdout)

    def wait_until_open(self) -> Writer:
        assert self._out.readline() == "open\n"
        return self

    def begin(self) -> None:
        self._in.write("\n")
        self._in.flush()

    def read(self, count: int) -> list[int]:
        """The next numbers that it says are stored."""
        return [int(self._out.readline()) for _ in range(count)]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> list[int]:
        """What it said last."""
        rest = [int(line) for line in self._out.readlines() if line.strip().isdigit()]
        self.process.wait(timeout=900)
        self._in.close()
        self._out.close()
        return rest


def _given(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def held(place: str, run_id: str) -> list[int]:
    with open_store(place) as store:
        return [int(result.case.label[1]) for result in store.run(run_id).results]


def test_two_runs_at_the_same_time_into_one_store_lose_nothing(place: str) -> None:
    with open_store(place) as store:
        for run_id in ("run-a", "run-b"):
            store.create(writer.planned_run(run_id, CASES))
    numbers = list(range(CASES))
    writers = [Writer(place, run_id, numbers) for run_id in ("run-a", "run-b")]
    for each in writers:
        each.wait_until_open()
    for each in writers:
        each.begin()
    for each in writers:
        assert each.end() == numbers
        assert each.process.returncode == 0
    with open_store(place) as store:
        for run_id in ("run-a", "run-b"):
            results = store.run(run_id).results
            assert results == tuple(writer.result(number) for number in numbers)


def test_two_processes_that_go_on_with_one_run_complete_it(place: str) -> None:
    with open_store(place) as store:
        store.create(writer.planned_run("run", 40))
    writers = [Writer(place, "run", list(range(start, 40, 2))) for start in (0, 1)]
    for each in writers:
        each.begin()
    for each in writers:
        each.end()
        assert each.process.returncode == 0
    assert sorted(held(place, "run")) == list(range(40))


def test_processes_that_make_one_new_store_at_the_same_time_all_get_it(place: str) -> None:
    openers = [Writer(place, "run", []) for _ in range(4)]
    for each in openers:
        each.wait_until_open().begin()
        each.end()
        assert each.process.returncode == 0
    with open_store(place) as store:
        assert store.runs() == []


def test_a_writer_that_is_killed_again_and_again_loses_nothing_that_it_had_added(
    place: str,
) -> None:
    draw = random.Random(3)
    with open_store(place) as store:
        store.create(writer.planned_run("run", 100))
    acknowledged: list[int] = []
    for _ in range(10):
        missing = sorted(set(range(100)) - set(held(place, "run")))
        if not missing:
            break  # it was done before the machine let us kill it
        process = Writer(place, "run", missing).wait_until_open()
        process.begin()
        acknowledged += process.read(draw.randrange(min(9, len(missing))))
        process.kill()
        found = held(place, "run")
        assert len(found) == len(set(found)), "a case is held twice"
        assert set(acknowledged) <= set(found), "a case that was stored is gone"


@pytest.mark.parametrize("seed", range(5))
def test_a_process_that_is_killed_while_it_makes_the_store_leaves_one_that_opens(
    tmp_path: Path, seed: int
) -> None:
    place = tmp_path / "store.db"
    process = Writer(str(place), "run", [])
    while not place.exists() and process.process.poll() is None:
        pass
    for _ in range(random.Random(seed).randrange(20_000)):
        pass
    process.kill()
    with open_store(place) as store:
        store.create(writer.planned_run("run", 1))
        assert store.add("run", writer.result(0))
        assert len(store.run("run").results) == 1

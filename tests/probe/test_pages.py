"""Code and data in other pages of the machine's memory, at the addresses that they had."""

from __future__ import annotations

import ctypes
import mmap
import random
import resource
import subprocess
import sys
import weakref
from pathlib import Path

import numpy
import pytest
import torch

from torchmark_probe import memory, pages
from torchmark_probe.loops.snippets import PythonLoop
from torchmark_probe.pages import DataMover, TensorMemory, tensor_memory

LARGE = 50_000
"""Elements of 4 bytes: 200 KB, in pages of their own or in a part of the heap."""


def holds(found: list[TensorMemory], tensor: torch.Tensor) -> bool:
    """Whether one has all but the first and the last page of the tensor."""
    start = tensor.data_ptr()
    inner = (start + mmap.PAGESIZE, start + tensor.nbytes - mmap.PAGESIZE)
    return any(each.pages.start <= inner[0] and inner[1] <= each.pages.end for each in found)


def test_tensors_are_found_wherever_a_statement_holds_them() -> None:
    setup = """
x = torch.rand(50_000)
nested = [{"deep": (torch.rand(50_000),)}]
module = torch.nn.Linear(200, 250)
made.extend([x, nested[0]["deep"][0], module.weight])
made.clear() if forgets else None
"""
    for forgets in (False, True):  # reached by a global, and by local variables alone
        made: list[torch.Tensor] = []
        names = {"torch": torch, "made": made, "forgets": forgets}
        blocks = PythonLoop("pass", setup, globals=names).blocks()
        found = tensor_memory(blocks.held(), torch)
        assert len(found) == 3
        assert all(holds(found, tensor) for tensor in made)


def test_memory_that_others_can_see_stays_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "values"
    file.write_bytes(bytes(4 * LARGE))
    shared = torch.rand(LARGE)
    shared.share_memory_()  # type: ignore[no-untyped-call]
    of_file = torch.from_file(str(file), shared=True, size=LARGE)
    read_only = torch.from_file(str(file), shared=False, size=LARGE)
    assert tensor_memory([[shared, of_file, read_only]], torch) == []


def test_nothing_is_moved_where_an_accelerator_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.rand(LARGE)
    assert tensor_memory([[tensor]], torch)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert tensor_memory([[tensor]], torch) == []


def test_tensors_without_memory_are_passed_over() -> None:
    sparse = torch.eye(LARGE // 100).to_sparse()
    meta = torch.empty(LARGE, device="meta")
    assert not any(holds(tensor_memory([[meta, sparse]], torch), each) for each in (meta,))


class Clock:
    """Stands still unless something takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def moves_of(held: object, clock: Clock, run_seconds: float, rounds: int) -> int:
    """How often the data is moved in so many rounds, if the run after a move takes so long."""
    mover = DataMover([held], torch, random.Random(1), clock)
    runs = []

    def run() -> None:
        runs.append(clock.now)
        clock.now += run_seconds

    mover.start(run)
    first = len(runs)
    for _ in range(rounds):
        mover.move_if_due(run)
        clock.now += 1.0
    return len(runs) - first


def test_moving_takes_its_share_of_the_time_and_no_more() -> None:
    clock = Clock()
    moves = moves_of([torch.rand(LARGE)], clock, run_seconds=0.6, rounds=1000)
    assert 0.5 * pages._SHARE < 0.6 * moves / clock.now <= pages._SHARE


@pytest.mark.parametrize("elements", [4, pages._MOST_MOVED // 4 + 4096], ids=["small", "large"])
def test_what_fits_the_first_cache_or_no_cache_is_not_moved(elements: int) -> None:
    assert moves_of([torch.rand(elements)], Clock(), run_seconds=0.6, rounds=1000) == 0


_RESULTS = """
import random, resource, torch
from torchmark_probe import memory
from torchmark_probe.pages import DataMover

memory.keep_heap()
x = torch.rand({elements})
for _ in range(10):
    x.clone()

def faults_of_a_clone():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    x.clone()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

assert faults_of_a_clone() < 8
seen = []
mover = DataMover([x], torch, random.Random(1))
mover.start(lambda: seen.append(faults_of_a_clone()))
assert seen[0] > {elements} * 4 // 4096 - 3, seen
"""


def test_results_get_other_pages_too() -> None:
    subprocess.run([sys.executable, "-c", _RESULTS.format(elements=LARGE)], check=True)


def test_a_moved_tensor_has_its_address_and_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.rand(LARGE)
    address, values = tensor.data_ptr(), tensor.tolist()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    mover = DataMover([[tensor]], torch, random.Random(1))
    moved = moved_addresses(mover, monkeypatch)
    inner = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    assert moved == [inner]
    assert (tensor.data_ptr(), tensor.tolist()) == (address, values)
    got = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert got >= tensor.nbytes // mmap.PAGESIZE - 2


def moved_addresses(mover: DataMover, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    moved: list[int] = []
    real = memory.libc.mremap

    def mremap(*arguments: int) -> int:
        moved.append(arguments[-1])
        return int(real(*arguments))

    monkeypatch.setattr(memory.libc, "mremap", mremap)
    mover.start(lambda: None)
    return moved


def test_memory_that_a_statement_drops_is_kept() -> None:
    memory_of_tensor = numpy.ones(LARGE, dtype=numpy.float32)
    is_there = weakref.ref(memory_of_tensor)
    held = [torch.from_numpy(memory_of_tensor)]
    mover = DataMover(held, torch, random.Random(1))
    del memory_of_tensor
    held.clear()
    mover.start(lambda: None)
    assert is_there() is not None


def test_a_resized_tensor_is_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = torch.rand(LARGE)
    mover = DataMover([[tensor]], torch, random.Random(1))
    tensor.resize_(2 * LARGE)
    assert moved_addresses(mover, monkeypatch) == []


_STRESS = """
import random, torch
from torchmark_probe import memory
from torchmark_probe.pages import DataMover

rng = random.Random(3)
memory.keep_heap()
held = [torch.arange(rng.randrange(10, 30_000)) for _ in range(8)]
sums = [int(each.sum()) for each in held]
mover = DataMover(held, torch, rng)

def run():
    made = [torch.full((rng.randrange(10, 60_000),), 7) for _ in range(rng.randrange(6))]
    assert all(bool((each == 7).all()) for each in made)
    texts = [str(number) * 300 for number in range(200)]
    assert len(set(map(len, texts))) == 3
    assert [int(each.sum()) for each in held] == sums

for _ in range(300):
    mover._move(run)
"""


def test_nothing_is_lost_however_often_data_is_moved() -> None:
    subprocess.run([sys.executable, "-c", _STRESS], check=True)


_COPIED = r"""
import ctypes, random, re
from torchmark_probe import pages

def run_from_file():
    found = [re.match(r"(\S+)-(\S+) r-xp .*/libm\.so", line) for line in open("/proc/self/maps")]
    return sum(int(each[2], 16) - int(each[1], 16) for each in found if each)

libm = ctypes.CDLL("libm.so.6")
libm.floor.restype, libm.floor.argtypes = ctypes.c_double, [ctypes.c_double]
whole = run_from_file()
assert libm.floor(2.5) == 2.0
pages.copy_code(random.Random(1))
assert run_from_file() < whole
assert libm.floor(2.5) == 2.0
"""


def test_code_that_has_run_goes_on_in_a_copy_of_it() -> None:
    subprocess.run([sys.executable, "-c", _COPIED], check=True)


def test_without_memory_for_a_copy_everything_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = ctypes.c_void_p(-1).value
    tensor = torch.rand(LARGE)
    values = tensor.tolist()
    monkeypatch.setattr(memory.libc, "mmap", lambda *_: failed)
    DataMover([[tensor]], torch, random.Random(1)).start(lambda: None)
    assert tensor.tolist() == values

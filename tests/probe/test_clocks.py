"""There is no accelerator here: torch is played by a fake that counts the synchronisations."""

from __future__ import annotations

import itertools
import time
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from torchmark_probe.loops.clocks import StoppedClockError, clock_facts, synchroniser, wall_clock
from torchmark_probe.loops.sampling import Limits, ReferenceLoop, sample
from torchmark_probe.loops.snippets import PythonLoop


class FakeDevice:
    """A device module with the lazy state that CUDA and XPU have."""

    def __init__(self, *, used: bool) -> None:
        self.used = used
        self.synchronisations = 0

    def is_initialized(self) -> bool:
        return self.used

    def is_available(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.synchronisations += 1


def with_accelerator(device: Any) -> Any:
    accelerator = SimpleNamespace(
        is_available=lambda: True,
        current_accelerator=lambda: "fake",
        synchronize=device.synchronize,
    )
    return SimpleNamespace(accelerator=accelerator, get_device_module=lambda _: device)


def test_without_accelerator_the_clock_is_the_plain_one() -> None:
    assert synchroniser(torch) is None
    assert wall_clock(torch) is time.perf_counter


def test_an_accelerator_in_use_is_waited_for_at_every_reading() -> None:
    device = FakeDevice(used=True)
    clock = wall_clock(with_accelerator(device))
    clock()
    clock()
    assert device.synchronisations == 2


def test_an_accelerator_that_is_not_in_use_is_left_alone() -> None:
    device = FakeDevice(used=False)
    clock = wall_clock(with_accelerator(device))
    clock()
    assert device.synchronisations == 0
    device.used = True  # the setup moved a tensor there
    clock()
    assert device.synchronisations == 1


def test_an_accelerator_without_lazy_state_counts_as_in_use() -> None:
    calls = []
    device = SimpleNamespace(synchronize=lambda: calls.append(1))
    wall_clock(with_accelerator(device))()
    assert calls == [1]


def test_an_older_torch_is_asked_for_cuda() -> None:
    device = FakeDevice(used=True)
    wall_clock(SimpleNamespace(cuda=device))()
    assert device.synchronisations == 1
    nothing = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    assert wall_clock(nothing) is time.perf_counter


def test_a_block_is_synchronised_twice_however_many_runs_it_has() -> None:
    device = FakeDevice(used=True)
    blocks = PythonLoop("pass", timer=wall_clock(with_accelerator(device))).blocks()
    blocks.run(1)
    assert device.synchronisations == 2
    blocks.run(1000)
    assert device.synchronisations == 4


def test_a_whole_sampling_synchronises_twice_a_block() -> None:
    device = FakeDevice(used=True)
    clock = wall_clock(with_accelerator(device))
    loop = PythonLoop("x = 1", timer=clock)
    blocks = loop.blocks()
    facts = clock_facts(time.perf_counter)
    (sampling,) = sample([blocks], Limits(1.0, 1e-3, 1e-2), Random(0), facts, ReferenceLoop())
    assert device.synchronisations % 2 == 0
    assert device.synchronisations < 4 * (len(sampling.wall) + 60)


def test_the_facts_of_a_clock_are_its_step_and_its_cost() -> None:
    readings = itertools.count()
    facts = clock_facts(lambda: next(readings) // 10 * 0.5)
    assert facts.resolution == 0.5
    assert facts.cost == pytest.approx(0.05, rel=0.1)


def test_a_pause_of_the_machine_is_not_what_a_reading_costs() -> None:
    readings = itertools.count()
    facts = clock_facts(lambda: (reading := next(readings)) * 50e-9 + (reading > 100) * 1e-3)
    assert facts.cost == pytest.approx(50e-9, rel=0.1)


def test_a_coarse_clock_is_waited_for() -> None:
    readings = itertools.count()
    facts = clock_facts(lambda: next(readings) // 10_000 * 0.02)
    assert facts.resolution == pytest.approx(0.02)


def test_a_clock_that_stands_still_is_told() -> None:
    with pytest.raises(StoppedClockError):
        clock_facts(lambda: 1.0)

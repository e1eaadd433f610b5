"""Lanes for times and cores for the rest, on machines of every size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchmark.engine.cores import Core, divide_cores, usable_cores

if TYPE_CHECKING:
    from pathlib import Path


def machine(nodes: int, physical: int, hardware_threads: int = 1) -> list[Core]:
    """Numbered as Linux does: all first hardware threads, then all second ones."""
    per_machine = nodes * physical
    return [
        Core(node=node, physical=(node, core), number=thread * per_machine + node * physical + core)
        for thread in range(hardware_threads)
        for node in range(nodes)
        for core in range(physical)
    ]


def test_a_single_core_does_everything() -> None:
    division = divide_cores(machine(1, 1), widest=4)
    assert (division.lanes, division.others) == (((0,),), ())


def test_two_cores_are_one_for_times_and_one_for_the_rest() -> None:
    division = divide_cores(machine(1, 2), widest=2)
    assert (division.lanes, division.others) == (((0,),), (1,))
    assert division.everything == (0, 1)


def test_two_hardware_threads_of_one_core_do_one_thing_after_the_other() -> None:
    division = divide_cores(machine(1, 1, 2), widest=1)
    assert (division.lanes, division.others) == (((0,),), ())
    assert division.everything == (0, 1)


def test_the_other_hardware_thread_of_a_lane_stays_idle() -> None:
    division = divide_cores(machine(1, 4, 2), widest=2)
    assert division.lanes == ((0, 1),)
    assert division.others == (2, 6, 3, 7)


def test_each_memory_node_has_a_lane_of_its_own() -> None:
    division = divide_cores(machine(2, 32, 2), widest=4)
    assert division.lanes == ((0, 1, 2, 3), (32, 33, 34, 35))
    assert len(division.others) == 128 - 16


@given(st.integers(1, 4), st.integers(1, 32), st.integers(1, 2), st.integers(1, 64))
def test_nobody_shares_a_core_with_a_lane(
    nodes: int, physical: int, hardware_threads: int, widest: int
) -> None:
    cores = machine(nodes, physical, hardware_threads)
    division = divide_cores(cores, widest)
    in_lanes = [number for lane in division.lanes for number in lane]
    assert len(in_lanes) == len(set(in_lanes))
    assert not set(in_lanes) & set(division.others)
    assert {*in_lanes, *division.others} <= set(division.everything)
    assert bool(division.others) == (nodes * physical > 1)
    assert {len(lane) for lane in division.lanes} == {division.lane_width}
    assert 1 <= division.lane_width <= widest


def test_the_kernel_is_asked_for_the_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 5})
    node = tmp_path / "node" / "node1"
    node.mkdir(parents=True)
    (node / "cpulist").write_text("4-7\n")
    topology = tmp_path / "cpu" / "cpu5" / "topology"
    topology.mkdir(parents=True)
    (topology / "physical_package_id").write_text("1\n")
    (topology / "core_id").write_text("3\n")
    assert usable_cores(tmp_path, tmp_path / "none") == [
        Core(node=0, physical=(-1, 0), number=0),
        Core(node=1, physical=(1, 3), number=5),
    ]


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 4), ("150000 100000", 2), ("1 100000", 1), ("", 4)]
)
def test_a_container_uses_no_more_cores_than_it_has_time_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    (tmp_path / "cpu.max").write_text(quota)
    assert len(usable_cores(tmp_path, tmp_path / "cpu.max")) == cores


def test_this_machine_has_cores() -> None:
    assert divide_cores(usable_cores(), 2).lanes

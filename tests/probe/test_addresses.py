"""Where memory lies: alike in two real zygotes of one layout, elsewhere in those of another."""

from __future__ import annotations

import os
import random
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests import light_torch
from tests.engine.zygote_cases import case
from torchmark.engine.environments import activate_environment
from torchmark.engine.zygote.process import Launch
from torchmark.engine.zygote.zygote import Zygote
from torchmark_probe.memory import addresses

if TYPE_CHECKING:
    from pathlib import Path

MAPS = case("print(open('/proc/self/maps').read())")


def libraries(zygote: Zygote) -> dict[str, int]:
    """Where each of torch's libraries begins."""
    places: dict[str, int] = {}
    for line in zygote.run(MAPS).stdout.splitlines():
        found = re.match(r"([0-9a-f]+)-.* (/\S*/torch/\S+\.so\S*)$", line)
        if found:
            places.setdefault(os.path.basename(found[2]), int(found[1], 16))
    return places


@pytest.fixture(scope="module")
def layouts() -> dict[str, dict[str, int]]:
    """Two starts of one layout, of which one has more variables, and one of another layout."""
    found = {}
    for name, layout, variables in (
        ("one", 1, {}),
        ("with variables", 1, {"SOMETHING": "x" * 1000, "PYTHONPATH": "/nowhere/at/all"}),
        ("other layout", 2, {}),
    ):
        with Zygote(Launch(layout=layout, environment=tuple(variables.items()))) as zygote:
            assert zygote.start()["fixed_addresses"], "this machine lets us choose"
            found[name] = libraries(zygote)
    return found


def test_libraries_lie_at_the_same_places_whatever_the_variables(
    layouts: dict[str, dict[str, int]],
) -> None:
    assert {"libtorch_cpu.so", "libtorch_python.so", "libc10.so"} <= layouts["one"].keys()
    assert layouts["one"] == layouts["with variables"]


def test_another_layout_has_every_one_of_them_elsewhere(
    layouts: dict[str, dict[str, int]],
) -> None:
    one, other = layouts["one"], layouts["other layout"]
    assert one.keys() == other.keys()
    # This one has no code, and finds room in the same hole.
    same = {name for name in one if one[name] == other[name]} - {"libtorch_global_deps.so"}
    assert same == set()


@pytest.mark.parametrize(("layout", "fixed"), [(None, False), (0, True)])
def test_without_a_layout_the_kernel_draws(
    tmp_path: Path, layout: int | None, *, fixed: bool
) -> None:
    light = activate_environment("A", light_torch.put_into(tmp_path))
    with Zygote(Launch(interpreter=light.interpreter, layout=layout)) as zygote:
        assert zygote.start()["fixed_addresses"] is fixed


def moved(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sizes of all that is taken from the heap by this seed."""
    held: list[list[bytes] | bytearray] = []
    monkeypatch.setattr(addresses, "_held", held)
    addresses.move_heap(random.Random(seed))
    return [[len(each)] if isinstance(each, bytearray) else list(map(len, each)) for each in held]


def test_a_seed_moves_the_heap_and_another_moves_it_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, again, other = (moved(seed, monkeypatch) for seed in (1, 1, 2))
    assert one == again != other
    small = {size for sizes in one for size in sizes if size < 512}
    assert len(small) > 20, "of nearly every size for which Python has its own places"
    assert max(map(max, filter(None, one))) > 1024


def depth() -> int:
    frame = sys._getframe()
    count = 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_the_stack_is_moved_by_what_is_drawn_and_the_result_comes_back() -> None:
    depths = [addresses.with_moved_stack(random.Random(seed), depth) for seed in range(20)]
    assert len(set(depths)) > 10
    again = [addresses.with_moved_stack(random.Random(seed), depth) for seed in range(20)]
    assert depths == again


def test_what_the_work_raises_passes_through_and_it_runs_once() -> None:
    runs = []

    def work() -> None:
        runs.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        addresses.with_moved_stack(random.Random(1), work)
    assert runs == [1]


def test_a_torch_without_a_library_is_left_to_itself() -> None:
    addresses.choose(0, "/nowhere/torch/__init__.py")

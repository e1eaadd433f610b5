"""The probe in a real old environment: Debian's torch 1.13, by the system's own Python."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.run.zygote_cases import QUICK, case, instructions
from torchmark.errors import CaseFailedError
from torchmark.run.zygote import Zygote

if TYPE_CHECKING:
    from collections.abc import Iterator

# `make test` installs it: scripts/test_tools.sh.
OLD_PYTHON = os.environ.get("TORCHMARK_OLD_PYTHON", "/usr/bin/python3")

TRAINING = case(
    "m(x).sum().backward()", "m = torch.nn.Linear(4, 4); x = torch.ones((4, 4)); print('made')"
)


@pytest.fixture(scope="module")
def counting() -> Iterator[Zygote]:
    with Zygote(python=OLD_PYTHON, under_callgrind=True) as zygote:
        yield zygote


@pytest.fixture(scope="module")
def timing() -> Iterator[Zygote]:
    with Zygote(python=OLD_PYTHON) as zygote:
        yield zygote


@pytest.fixture(params=["timing", "counting"])
def old(request: pytest.FixtureRequest) -> Zygote:
    zygote: Zygote = request.getfixturevalue(request.param)
    return zygote


def test_an_old_torch_is_timed(old: Zygote) -> None:
    assert int(old.start()["torch"].partition(".")[0]) < 2
    sample = old.sample(TRAINING, limits=QUICK)
    assert all(time > 0 for time in sample.sampling.wall)
    assert sample.output.stdout == "made\n"


def test_a_failure_in_an_old_torch_costs_only_itself(old: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="In the statement, line 1") as caught:
        old.sample(case("torch.ones(2) @ torch.ones(3)"), limits=QUICK)
    assert caught.value.kind == "raised"
    assert old.sample(TRAINING, limits=QUICK).sampling.wall


def test_counts_of_an_old_torch_repeat_to_the_instruction(counting: Zygote) -> None:
    counts = {instructions(counting.count(TRAINING).out_file) for _ in range(3)}
    assert len(counts) == 1
    assert counts.pop() > 100_000

"""The calls of a step in their order, in a real zygote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.zygote_cases import QUICK
from tests.probe.test_replay_calls import tensor, text
from torchmark.engine.replaying_in_order import replay_in_order
from torchmark.errors import CaseFailedError

if TYPE_CHECKING:
    from torchmark.engine.zygote.zygote import Zygote

LONG = text("aten.mm.default", tensor(300, 300), tensor(300, 300))
SHORT = text("aten.add_.Tensor", tensor(2), tensor(2))


def test_every_position_is_timed_and_what_does_not_run_is_said(plain_zygote: Zygote) -> None:
    unknown = text("aten.nope.default")
    failing = text("aten.mm.default", tensor(2, 3), tensor(2, 3))
    calls, order = [LONG, SHORT, unknown, failing], [1, 0, 2, 1, 3, 0]
    replay = replay_in_order(plain_zygote, calls, order, limits=QUICK)
    assert len(replay.seconds) == 4
    assert min(replay.seconds[1], replay.seconds[3]) > max(replay.seconds[0], replay.seconds[2])
    assert min(replay.sampling.wall) > 0
    unknown_left_out, failing_left_out = replay.left_out
    assert (unknown_left_out.number, failing_left_out.number) == (2, 3)
    assert "no operator aten.nope.default" in unknown_left_out.reason
    assert "cannot be multiplied" in failing_left_out.reason


def test_a_result_for_which_no_memory_is_free_is_left_out(plain_zygote: Zygote) -> None:
    made = text("aten.zeros.default", [250 * 10**9])
    grown = text("aten.add.Tensor", tensor(10**6, 1), tensor(1, 25 * 10**4))
    replay = replay_in_order(plain_zygote, [made, grown, SHORT], [0, 1, 2], limits=QUICK)
    assert len(replay.seconds) == 1
    assert [each.number for each in replay.left_out] == [0, 1]
    assert all("can't allocate memory" in each.reason for each in replay.left_out)


def test_a_step_of_megabytes_passes(plain_zygote: Zygote) -> None:
    calls = [SHORT.replace("{", "{" + " " * 100)] * 2000
    assert sum(map(len, calls)) > 1_000_000
    replay = replay_in_order(plain_zygote, calls, list(range(2000)) * 2, limits=QUICK)
    assert len(replay.seconds) == 4000


def test_an_order_that_names_no_call_costs_the_case_alone(plain_zygote: Zygote) -> None:
    with pytest.raises(CaseFailedError, match="IndexError"):
        replay_in_order(plain_zygote, [SHORT], [5], limits=QUICK)
    assert replay_in_order(plain_zygote, [SHORT], [0], limits=QUICK).seconds

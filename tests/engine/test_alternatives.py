"""What is proposed in place of calls, and that it is measured next to them in a real zygote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.replays import call as made_call
from tests.replays import done, replay
from torchmark.analyse.replay import analyse_replay
from torchmark.engine.alternatives import Proposal, measure_alternatives, propose
from torchmark.model.run import Change, Effort, Run
from torchmark.model.run_settings import CallPlace
from torchmark_probe.loops.sampling import Limits

if TYPE_CHECKING:
    from tests.replays import MadeCall
    from torchmark.engine.zygote.zygote import Zygote


def tensor(*shape: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"tensor": {"shape": list(shape), "dtype": dtype, **more}}


def made(
    number: int, op: str, *args: Any, seconds: float = 1.0, count: int = 1, function: str = "f"
) -> MadeCall:
    call = made_call(
        number, op, done(seconds), count=count,
        places=(CallPlace(phase="optimizer", module=None, function=function, count=count),),
    )  # fmt: skip
    record = json.dumps({"op": op, "schema": None, "args": list(args), "kwargs": {}})
    traced = msgspec.structs.replace(call.traced, record=record)
    return type(call)(traced, call.came)


def run_of(*calls: MadeCall, **more: Any) -> Run:
    return replay(*calls, steps=1, **more)


def proposals(*calls: MadeCall, **more: Any) -> list[Proposal]:
    return list(propose(analyse_replay(run_of(*calls, **more))))


TRANSPOSED = tensor(300, 200, strides=[1, 300])


def test_contiguous_inputs_are_proposed_with_the_copies_that_make_them() -> None:
    (proposal,) = proposals(made(0, "aten.sort.default", TRANSPOSED, count=7))
    assert (proposal.change, proposal.times) == (Change.CONTIGUOUS, 7)
    assert "strides" in proposal.present.setup
    assert "strides" not in proposal.changed.setup
    (copy,) = proposal.copies
    assert "aten.clone.default" in copy.setup
    assert "strides" in copy.setup


@pytest.mark.parametrize(
    "argument",
    [
        tensor(300, 200),
        tensor(300, 200, strides=[1, 300], storage=0),
        tensor(4, layout="sparse_coo", parts={"values": tensor(2, strides=[2])}),
    ],
    ids=["contiguous", "others see its memory", "sparse"],
)
def test_a_layout_that_is_right_or_needed_is_left_alone(argument: dict[str, Any]) -> None:
    assert proposals(made(0, "aten.sort.default", argument)) == []


def test_float32_is_proposed_for_calls_in_fewer_bits_alone() -> None:
    half, whole = tensor(8, 8, dtype="float16", storage_bytes=128), tensor(8, 8)
    (proposal,) = proposals(made(0, "aten.mm.default", half, half))
    assert proposal.change is Change.FLOAT32
    assert "float16" not in proposal.changed.setup
    assert '"storage_bytes":256' in proposal.changed.setup
    assert proposals(made(0, "aten.mm.default", whole, whole)) == []
    assert proposals(made(0, "aten.copy_.default", whole, half)) == [], "it converts"
    converting = made(0, "aten._to_copy.default", half, {"dtype": "float32"})
    assert proposals(converting) == []


def test_a_call_with_little_of_the_time_is_not_worth_a_try() -> None:
    small = made(0, "aten.sort.default", TRANSPOSED, seconds=0.01)
    assert proposals(small, made(1, "aten.relu.default", tensor(4))) == []


PARAMETER = tensor(8, 4, parameter=True)


def adamw(*ops: str) -> list[MadeCall]:
    update = made(0, "aten.addcdiv_.default", PARAMETER, tensor(8, 4), tensor(8, 4), count=6,
                  function="torch.optim.AdamW.step")  # fmt: skip
    others = [
        made(1 + at, op, tensor(8, 4), function="torch.optim.AdamW.step")
        for at, op in enumerate(ops)
    ]
    return [update, *others]


def test_an_optimizer_is_tried_fused_on_the_same_parameters() -> None:
    (proposal,) = proposals(*adamw("aten.sqrt.default", "aten.maximum.out"))
    assert proposal.change is Change.FUSED
    assert proposal.what == "AdamW.step on 6 parameters"
    assert proposal.calls == (0, 1, 2)
    assert '[[[8, 4], "float32", 6]]' in proposal.present.setup
    assert '"foreach": false, "amsgrad": true' in proposal.present.setup
    assert '"fused": true' in proposal.changed.setup


def test_an_optimizer_that_is_fused_or_unknown_or_not_whole_is_left_alone() -> None:
    assert proposals(*adamw("aten._fused_adamw_.default")) == []
    assert proposals(*adamw("aten.sqrt.default"), is_whole=False) == []
    mine = made(0, "aten.addcdiv_.default", PARAMETER, function="mine.Lion.step")
    assert proposals(mine) == []


def test_alternatives_are_measured_and_what_fails_is_none(plain_zygote: Zygote) -> None:
    calls = [
        made(0, "aten.cumsum.default", TRANSPOSED, -1),
        made(1, "aten.no_such_thing.default", TRANSPOSED),
        made(2, "aten.addcdiv_.default", PARAMETER, count=20, function="torch.optim.AdamW.step"),
    ]
    effort = Effort(limits=Limits(0.1, 0.01, 0.05))
    found = list(measure_alternatives(run_of(*calls), plain_zygote, effort, ()))
    assert [(each.change, each.calls) for each in found] == [
        (Change.CONTIGUOUS, (0,)),
        (Change.FUSED, (2,)),
    ]
    for each in found:
        assert each.present.median > 0
        assert each.changed.low <= each.changed.median <= each.changed.high
    assert found[0].copying is not None
    assert found[1].copying is None
    assert found[1].changed.median < found[1].present.median, "one call in place of two hundred"

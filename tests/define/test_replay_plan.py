"""From a trace to the plan of a replay: which calls, which cases, which results."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial

import msgspec
import pytest

from tests.replays import recorded
from torchmark.define.recorded import plan_replay
from torchmark.errors import InvalidArgumentError
from torchmark.model.result import Metric
from torchmark.model.run_settings import Backend, ReplayMode, ReplaySettings
from torchmark.model.trace import Place, Step, Trace

RELUS = tuple(recorded("aten.relu.default", size) for size in (1, 2, 3))
TRACE = Trace(
    source="capture",
    calls=RELUS,
    places=(Place(phase="forward", module="a"), Place(phase="backward")),
    steps=(
        Step(calls=(2, 0), places=(0, 0)),
        Step(calls=(0, 1, 0), places=(0, 0, 1), repeats=3),
        Step(calls=(1,), places=(0,), repeats=2),
    ),
    counts={(2, 0): 1, (0, 0): 4, (1, 0): 5, (0, 1): 3},
)


def test_every_call_and_backend_and_metric_is_a_result_in_the_order_of_measuring() -> None:
    settings, planned = plan_replay(
        TRACE,
        "t",
        backends=(Backend.COMPILE, Backend.EAGER),
        metrics=(Metric.TIME, Metric.INSTRUCTIONS),
    )
    said = [(each.metric, each.case.params[0][1], each.case.label[1]) for each in planned]
    assert said == [
        *((Metric.TIME, "compile", f"float32[{size}]") for size in (1, 2, 3)),
        *((Metric.TIME, "eager", f"float32[{size}]") for size in (1, 2, 3)),
        *((Metric.INSTRUCTIONS, "eager", f"float32[{size}]") for size in (1, 2, 3)),
    ]
    assert len({each.key for each in planned}) == 9
    ids = {each.case.id for each in planned}
    assert ids == {case_id for call in settings.calls for case_id in call.cases.values()}


def test_a_case_follows_from_the_call_and_not_from_its_place_in_the_trace() -> None:
    turned = replace(TRACE, calls=RELUS[::-1], steps=(), counts={(0, 0): 1, (2, 0): 9})
    hot = partial(plan_replay, mode=ReplayMode.HOT)
    ids = {call.signature: call.cases for call in hot(TRACE, "t")[0].calls}
    assert {call.signature: call.cases for call in hot(turned, "u")[0].calls} == {
        signature: cases for signature, cases in ids.items() if signature != "float32[2]"
    }
    (other, *_) = hot(TRACE, "t", seed=1)[0].calls
    assert other.cases != ids[other.signature], "other inputs are another case"


def test_the_setup_of_a_case_holds_the_record_as_one_text() -> None:
    hostile = "'''\n\"\"\"\\\nimport os; os.abort()\x00\u2028\ud800{}{0}"
    trace = replace(TRACE, calls=(msgspec.structs.replace(RELUS[0], args=(hostile,)), *RELUS[1:]))
    for backend in Backend:
        (planned, *_) = plan_replay(trace, "t", backends=(backend,))[1]
        assert planned.case.setup.isascii()
        kinds = [type(each).__name__ for each in ast.parse(planned.case.setup).body]
        assert kinds == ["ImportFrom", "Assign"]


def test_calls_are_counted_over_the_trace_or_in_the_step_that_repeats_the_most() -> None:
    settings, _ = plan_replay(TRACE, "t", mode=ReplayMode.HOT)
    assert {each.number: each.count for each in settings.calls} == {0: 7, 1: 5, 2: 1}
    assert settings.steps == 6
    in_order, planned = plan_replay(TRACE, "t", mode=ReplayMode.ORDER)
    assert [(each.number, each.count) for each in in_order.calls] == [(0, 2), (1, 1)]
    assert [(place.phase, place.module, place.count) for place in in_order.calls[0].places] == [
        ("forward", "a", 1),
        ("backward", None, 1),
    ]
    assert (in_order.order, in_order.steps) == ((0, 1, 0), 1)
    assert planned[-1].case.id == in_order.pass_case
    assert planned[-1].case.label == ("whole step", "3 calls in their order")


def test_of_steps_that_repeat_as_often_the_last_whole_one_is_replayed() -> None:
    steps = (*TRACE.steps, Step(calls=(2, 0), places=(0, 0), repeats=3))
    chosen, _ = plan_replay(replace(TRACE, steps=steps), "t", mode=ReplayMode.ORDER)
    assert chosen.order == (2, 0)
    steps = (*TRACE.steps, Step(calls=(2,), places=(0,), repeats=3))
    chosen, _ = plan_replay(replace(TRACE, steps=steps), "t", mode=ReplayMode.ORDER)
    assert chosen.order == (0, 1, 0), "the other is less than half as long: what was left over"


def test_a_call_in_its_order_is_not_the_case_that_it_is_by_itself() -> None:
    hot, _ = plan_replay(TRACE, "t", mode=ReplayMode.HOT)
    in_order, _ = plan_replay(TRACE, "t", mode=ReplayMode.ORDER)
    assert hot.calls[0].cases != in_order.calls[0].cases


@pytest.mark.parametrize(
    ("trace", "options", "mode", "why"),
    [
        (TRACE, {}, ReplayMode.ORDER, ""),
        (TRACE, {"mode": ReplayMode.HOT}, ReplayMode.HOT, ""),
        (replace(TRACE, steps=()), {}, ReplayMode.HOT, "the trace has no order"),
        (TRACE, {"backends": tuple(Backend)}, ReplayMode.HOT, "backends other than eager need"),
        (TRACE, {"metrics": (Metric.INSTRUCTIONS,)}, ReplayMode.HOT, "counts need this"),
    ],
)
def test_calls_are_in_their_order_unless_something_needs_each_by_itself(
    trace: Trace, options: dict[str, object], mode: ReplayMode, why: str
) -> None:
    settings, _ = plan_replay(trace, "t", **options)  # type: ignore[arg-type]
    assert settings.mode is mode
    assert settings.mode_reason.startswith(why)
    assert bool(settings.mode_reason) == bool(why)


def test_words_choose_calls_and_the_pass_has_only_them() -> None:
    settings, planned = plan_replay(TRACE, "t", mode=ReplayMode.ORDER, pattern="'[2]'")
    assert [call.number for call in settings.calls] == [1]
    assert settings.order == (1,)
    assert not settings.is_whole, "so a real step is nothing to compare with"
    assert len(planned) == 2


def test_settings_come_back_from_json_as_they_were() -> None:
    for mode in ReplayMode:
        settings, _ = plan_replay(TRACE, "t", mode=mode)
        assert msgspec.json.decode(msgspec.json.encode(settings), type=ReplaySettings) == settings


@pytest.mark.parametrize(
    ("trace", "options", "said"),
    [
        (TRACE, {"pattern": "tanh"}, "none of the 2 distinct calls matches 'tanh'"),
        (replace(TRACE, steps=(), counts={}), {}, "t: the trace has no calls"),
        (replace(TRACE, steps=()), {"mode": ReplayMode.ORDER}, "has no order of calls"),
        (TRACE, {"mode": ReplayMode.ORDER, "backends": (Backend.ORT,)}, "only with eager"),
        (TRACE, {"mode": ReplayMode.ORDER, "metrics": (Metric.INSTRUCTIONS,)}, "use mode hot"),
        (TRACE, {"backends": (Backend.ORT,), "metrics": (Metric.INSTRUCTIONS,)}, "add eager"),
        (TRACE, {"backends": ()}, "at least one backend"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    trace: Trace, options: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        plan_replay(trace, "t", **options)  # type: ignore[arg-type]

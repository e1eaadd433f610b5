"""What a replay says: shares, what the time is for, speed-ups, parts of the model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replays import (
    SPEEDS,
    call,
    done,
    not_done,
    recorded,
    replay,
    sampled,
    with_count,
)
from torchmark.analyse.call_costs import Nature, seconds_needed
from torchmark.analyse.replay import analyse_replay
from torchmark.analyse.replay_parts import split_by_module, split_by_phase
from torchmark.model.codec import decode_run, encode_run
from torchmark.model.result import Metric, Status
from torchmark.model.run_settings import Backend, CallPlace


@given(st.lists(st.tuples(st.floats(1e-9, 1.0), st.integers(1, 1000)), min_size=1, max_size=8))
def test_shares_add_up_to_one(calls: list[tuple[float, int]]) -> None:
    table = analyse_replay(
        replay(
            *(
                call(number, f"aten.op{number % 3}.default", done(seconds), count=count)
                for number, (seconds, count) in enumerate(calls)
            )
        )
    )
    assert sum(operator.share or 0 for operator in table.operators) == pytest.approx(1)
    assert sum(table.by_nature.values()) == pytest.approx(1)
    shares = [operator.share or 0 for operator in table.operators]
    assert shares == sorted(shares, reverse=True)


def test_a_long_product_is_work_and_a_short_call_overhead_and_a_long_small_one_slow() -> None:
    table = analyse_replay(
        replay(
            call(0, "aten.mm.default", done(2.2e-3, flops=100_000_000)),  # 2 ms at 50 GFLOP/s
            call(1, "aten.relu.default", done(2e-6)),
            call(2, "aten.sort.default", done(1e-3)),
        )
    )
    natures = {operator.op: operator.nature for operator in table.operators}
    assert natures == {
        "aten.mm.default": Nature.WORK,
        "aten.relu.default": Nature.OVERHEAD,
        "aten.sort.default": Nature.SLOW,
    }
    (mm,) = table.operators[0].calls
    assert mm.explained == pytest.approx(2 / 2.2)


def test_bytes_count_at_the_speed_of_a_copy_of_their_size() -> None:
    record = recorded("aten.relu.default", 4, 4)
    small = seconds_needed(record, 1000, None, SPEEDS)
    large = seconds_needed(record, 10**9, None, SPEEDS)
    assert small == pytest.approx(1000 / 100e9)
    assert large == pytest.approx(10**9 / 10e9)
    between = seconds_needed(record, 1024**2, None, SPEEDS)
    assert between == pytest.approx(1024**2 / 75e9)  # half way between the two sizes' logarithms
    assert seconds_needed(record, None, None, SPEEDS) is None


def test_what_was_not_measured_has_no_share_and_no_nature() -> None:
    skipped = not_done(Status.SKIPPED, "no such operator")
    table = analyse_replay(
        replay(call(0, "aten.relu.default", done(1e-6)), call(1, "aten.nope.default", skipped),
               call(2, "aten.late.default"))
    )  # fmt: skip
    relu, *others = table.operators
    assert relu.share == 1
    assert [(each.share, each.seconds, each.nature) for each in others] == [(None, None, None)] * 2
    assert [(row.call.number, why.reason) for row, why in table.failures()] == [
        (1, "no such operator")
    ]
    assert table.missing() == 1


def test_figures_of_an_operator_are_of_all_calls_and_unknown_if_one_is() -> None:
    known = analyse_replay(
        replay(
            call(0, "aten.mm.default", done(1e-3, flops=128), count=3),
            call(1, "aten.mm.default", done(1e-3, flops=1000), count=2),
        )
    ).operators[0]
    assert (known.flops, known.count) == (3 * 128 + 2 * 1000, 5)
    assert known.bytes == 5 * 2 * 64
    unknown = analyse_replay(
        replay(call(0, "aten.mm.default", done(1.0, flops=128)), call(1, "aten.mm.default"))
    ).operators[0]
    assert unknown.flops is None


def test_a_speedup_is_over_what_both_have() -> None:
    fast = done(1e-6, Backend.COMPILE)
    broken = not_done(Status.SKIPPED, "graph break", Backend.COMPILE)
    table = analyse_replay(
        replay(
            call(0, "aten.relu.default", done(4e-6), fast),
            call(1, "aten.relu.default", done(1.0), broken),
            backends=(Backend.EAGER, Backend.COMPILE),
        )
    )
    assert table.speedup(table.operators[0].calls, Backend.COMPILE) == pytest.approx(4)
    assert table.speedup(table.operators[0].calls, Backend.ORT) is None


def test_without_times_shares_are_of_instructions() -> None:
    table = analyse_replay(
        replay(
            call(0, "aten.a.b", with_count(300)),
            call(1, "aten.c.d", with_count(100)),
            speeds=None,
        )
    )
    assert [operator.share for operator in table.operators] == [0.75, 0.25]
    assert table.seconds == 0


def test_a_count_joins_the_time_that_is_there_and_a_failed_one_says_why() -> None:
    crashed = not_done(Status.FAILED, "crashed", metric=Metric.INSTRUCTIONS)
    table = analyse_replay(
        replay(
            call(0, "aten.a.b", sampled(2e-6), with_count(100)),
            call(1, "aten.c.d", sampled(2e-6), crashed),
        )
    )
    both, no_count = (row.outcomes[0] for row in table.calls)
    assert both.time is not None
    assert both.time.median == pytest.approx(2e-6)
    assert both.instructions == 100
    assert (no_count.status, no_count.reason) == (Status.FAILED, "crashed")
    assert no_count.time is not None


def test_a_module_has_the_shares_of_what_is_inside_of_it() -> None:
    places = (
        CallPlace(phase="backward", module="decoder.10", count=1),
        CallPlace(phase="forward", module="encoder.2", count=2),
        CallPlace(phase="forward", module=None, count=1),
    )
    run = replay(call(0, "aten.relu.default", done(1e-6), count=4, places=places))
    table = analyse_replay(run)
    modules = [(row.name, row.depth, row.count, row.share) for row in split_by_module(table)]
    assert modules == [
        ("", 0, 3, 0.75),
        ("encoder.2", 1, 2, 0.5),
        ("decoder.10", 1, 1, 0.25),
        ("outside of all modules", 0, 1, 0.25),
    ]
    assert [(row.name, row.share) for row in split_by_phase(table)] == [
        ("forward", 0.75),
        ("backward", 0.25),
    ]


def test_a_run_says_the_same_after_a_way_through_json() -> None:
    run = replay(
        call(0, "aten.mm.default", done(2.2e-3, flops=100)), call(1, "aten.late.default"), whole=1.0
    )
    assert analyse_replay(decode_run(encode_run(run))) == analyse_replay(run)

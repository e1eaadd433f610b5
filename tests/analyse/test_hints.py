"""Hints: what is clearly faster and noticed in a step, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from tests.replays import call, done, replay, summary
from torchmark.analyse.hints import Hint, find_hints
from torchmark.analyse.replay import analyse_replay
from torchmark.model.result import TimeSummary
from torchmark.model.run import Alternative, Change
from torchmark.model.trace import PlainSteps


def wide(seconds: float) -> TimeSummary:
    return TimeSummary(samples=9, median=seconds, low=seconds * 0.5, high=seconds * 1.5)


def tried(
    present: TimeSummary, changed: TimeSummary, copying: TimeSummary | None = None
) -> Alternative:
    return Alternative(
        change=Change.FLOAT32 if copying is None else Change.CONTIGUOUS,
        calls=(0,),
        times=1,
        what="",
        present=present,
        changed=changed,
        copying=copying,
    )


def hints_of(*alternatives: Alternative, plain: PlainSteps | None = None) -> list[Hint]:
    """Of ten steps whose calls take 100 us."""
    run = replay(
        call(0, "aten.mm.default", done(90e-6), count=10),
        call(1, "aten.relu.default", done(10e-6), count=10),
        plain_steps=plain,
    )
    return find_hints(analyse_replay(run), alternatives)


def test_what_saves_much_is_a_hint_with_its_share_of_the_step() -> None:
    (hint,) = hints_of(tried(summary(90e-6), summary(40e-6)))
    assert hint.seconds == pytest.approx(50e-6)
    assert hint.share == pytest.approx(0.5)
    assert [each.op for each in hint.calls] == ["aten.mm.default"]


def test_the_share_is_of_the_real_step_where_that_is_known() -> None:
    plain = PlainSteps(seconds=(1e-3,) * 10, threads=1)
    (hint,) = hints_of(tried(summary(90e-6), summary(40e-6)), plain=plain)
    assert hint.share == pytest.approx(0.05)
    slow = PlainSteps(seconds=(1e-2,) * 10, threads=1)
    assert hints_of(tried(summary(90e-6), summary(40e-6)), plain=slow) == []


@pytest.mark.parametrize(
    ("present", "changed"),
    [
        (summary(90e-6), wide(60e-6)),
        (summary(90e-6), summary(88.9e-6)),
        (summary(40e-6), summary(90e-6)),
    ],
    ids=["intervals that touch", "less than two per cent of the step", "slower"],
)
def test_what_is_not_certain_or_not_noticed_is_none(
    present: TimeSummary, changed: TimeSummary
) -> None:
    assert hints_of(tried(present, changed)) == []


def test_a_call_cannot_save_more_than_it_takes() -> None:
    """The replay says 90 us: the machine was disturbed while the alternative was measured."""
    assert hints_of(tried(summary(16e-3), summary(40e-6))) == []


def test_a_fused_optimizer_saves_python_too() -> None:
    alternative = msgspec.structs.replace(
        tried(summary(300e-6), summary(40e-6)), change=Change.FUSED, what="Adam.step"
    )
    assert len(hints_of(alternative)) == 1


def test_a_copy_pays_only_if_both_together_are_clearly_faster() -> None:
    cheap, dear = (tried(summary(90e-6), summary(40e-6), summary(c)) for c in (10e-6, 60e-6))
    assert [hint.pays_with_copy for hint in hints_of(cheap, dear)] == [True, False]


def test_alternatives_come_back_from_json() -> None:
    alternative = tried(summary(90e-6), summary(40e-6), summary(1e-6))
    text = msgspec.json.encode(alternative)
    assert msgspec.json.decode(text, type=Alternative) == alternative

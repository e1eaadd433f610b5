"""`torchmark.ab`: two functions of this very process, in real forks of it."""

from __future__ import annotations

import functools
import gc
import math
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

import torchmark
from tests.ab_records import alone
from torchmark.analyse.estimates import Verdict
from torchmark.analyse.pairs import judge_alone
from torchmark.commands.functions import FunctionsCompared
from torchmark.errors import CaseFailedError, CaseTimeoutError, InvalidArgumentError
from torchmark.model.result import PairedTiming
from torchmark.model.run import FEWEST_REPLICATES

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = 0.01
"""A budget that is over with the fewest replicates."""


def once() -> None:
    sum(range(50))


def often() -> None:
    for _ in range(100):
        once()


@pytest.fixture(scope="module")
def compared() -> FunctionsCompared:
    return torchmark.ab(once, often)


def test_clearly_more_work_is_slower(compared: FunctionsCompared) -> None:
    assert compared.verdict is Verdict.SLOWER
    assert 20 < compared.ratio < 500
    assert compared.interval.low <= compared.ratio <= compared.interval.high
    assert compared.b_seconds == pytest.approx(compared.a_seconds * compared.ratio)
    assert compared.effect.replicates >= FEWEST_REPLICATES


def test_functions_may_print_and_only_the_call_here_is_seen(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def prints() -> None:
        os.write(1, b"y" * 50_000 + b"\n")

    assert torchmark.ab(prints, prints, budget=QUICK).effect.replicates == FEWEST_REPLICATES
    assert len(capfd.readouterr().out.split()) == 2


def test_a_budget_that_is_over_ends_it_after_the_fewest_replicates() -> None:
    assert torchmark.ab(once, once, budget=QUICK).effect.replicates == FEWEST_REPLICATES


def test_the_result_reads_as_a_sentence(compared: FunctionsCompared) -> None:
    number = r"[+-]\d+\.\d\d %"
    figures = rf"{number} \[{number}, {number}\] \(\S+ \S+ → \S+ \S+, \d+ replicates\)"
    text = f"often compared with once: slower, {figures}"
    assert re.fullmatch(text, str(compared))


def test_what_is_unclear_says_what_is_detectable() -> None:
    times = PairedTiming(a_seconds=1e-6, replicates=alone([0.1, -0.1, 0.1, -0.1, 0.0]))
    unclear = FunctionsCompared(a="f", b="g", a_seconds=1e-6, effect=judge_alone(times))
    assert unclear.verdict is Verdict.UNCLEAR
    assert re.search(r"; detectable: \d+\.\d\d %\)$", str(unclear))
    assert "unclear, -0.00 %" in str(unclear) or "unclear, +0.00 %" in str(unclear)
    assert unclear.ratio == pytest.approx(math.exp(0.0))


def test_closures_and_torch_work_in_the_forks_and_what_has_no_name_is_called_by_its_place() -> None:
    x = torch.ones(256, 256)
    seen = []
    found = torchmark.ab(lambda: seen.append(1), functools.partial(torch.mm, x, x))
    assert seen == [1], "in this process each is called once; the forks have their own"
    assert (found.a, found.b, found.verdict) == ("a", "b", Verdict.SLOWER)


def test_what_a_function_raises_at_once_is_raised_as_it_is() -> None:
    class OwnError(Exception):
        pass

    def raises() -> None:
        raise OwnError("mine")

    for pair in ((raises, once), (once, raises)):
        with pytest.raises(OwnError, match="mine"):
            torchmark.ab(*pair)


def later(action: Callable[[], object]) -> Callable[[], object]:
    """A function that works in the process that defines it, and acts so in a fork."""
    here = os.getpid()
    return lambda: None if os.getpid() == here else action()


def test_what_it_raises_later_is_told_with_its_traceback() -> None:
    def breaks() -> None:
        raise KeyError("late")

    with pytest.raises(CaseFailedError, match="the function raised: KeyError: 'late'") as caught:
        torchmark.ab(once, later(breaks), budget=QUICK)
    assert caught.value.kind == "raised"
    assert "in breaks" in caught.value.traceback


def test_what_fails_only_after_many_calls_is_told_too() -> None:
    calls = 0

    def tires() -> None:
        nonlocal calls
        calls += 1
        if calls > 1_000:  # more than are tried, fewer than are measured
            raise RuntimeError("tired")

    with pytest.raises(CaseFailedError, match="the function raised: RuntimeError: tired"):
        torchmark.ab(tires, once, budget=1e9)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("action", "kind", "said"),
    [
        (crash, "crashed", "the function ended the process"),
        (lambda: os._exit(0), "crashed", "the function ended the process"),
        (lambda: sys.exit(3), "raised", "SystemExit: 3"),
    ],
    ids=["crash", "exit", "SystemExit"],
)
def test_a_function_that_ends_its_process_does_not_end_this_one(
    action: Callable[[], object], kind: str, said: str
) -> None:
    with pytest.raises(CaseFailedError, match=said) as caught:
        torchmark.ab(later(action), once, budget=QUICK)
    assert caught.value.kind == kind


def test_a_function_that_hangs_is_stopped_at_its_limit() -> None:
    def hangs() -> None:
        while True:
            pass

    with pytest.raises(CaseTimeoutError, match=r"limit of 0\.5 s"):
        torchmark.ab(once, later(hangs), budget=QUICK, time_limit=0.5)


def children() -> set[str]:
    """The processes of this one, zygotes of other tests among them."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {number for task in tasks for number in task.read_text().split()}


def test_no_process_stays_behind_and_this_one_is_as_before() -> None:
    cores, threads, before = os.sched_getaffinity(0), torch.get_num_threads(), children()
    with pytest.raises(CaseFailedError):
        torchmark.ab(once, later(crash), budget=QUICK)
    assert children() == before
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == (cores, threads)
    assert gc.isenabled()


@pytest.mark.parametrize("name", ["a", "b"])
def test_what_is_no_function_is_refused(name: str) -> None:
    given = {"a": once, "b": once, name: 3}
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a function, got 3"):
        torchmark.ab(**given)  # type: ignore[call-overload]


@pytest.mark.parametrize("budget", [0, -1.0, math.nan])
def test_a_budget_is_positive(budget: float) -> None:
    with pytest.raises(InvalidArgumentError, match="budget"):
        torchmark.ab(once, once, budget=budget)


def test_an_option_of_environments_is_refused_for_functions() -> None:
    with pytest.raises(TypeError, match="'suites'"):
        torchmark.ab(once, once, suites=["standard"])  # type: ignore[call-overload]


def test_one_function_alone_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="b must be a function, got None"):
        torchmark.ab(once)  # type: ignore[call-overload]

from __future__ import annotations

import gc
import inspect
import itertools
import pickle
import re
import timeit
import traceback
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.benchmark as reference

import torchmark
from tests.fakes import FakeLoop, ScriptedReferenceLoop
from torchmark import Language, Measurement, Timer
from torchmark.errors import (
    InvalidArgumentError,
    NotSupportedError,
    StatementSyntaxError,
    TorchmarkError,
    UnknownLanguageError,
)


class FakeTimer(Timer):
    _timer_cls = FakeLoop


class FakeReference(reference.Timer):
    _timer_cls = FakeLoop


def without_address(value: object) -> str:
    return re.sub(r"<\S+ object at 0x[0-9a-f]+>", "<object>", repr(value))


def log_of(timer: Any) -> list[int]:
    calls: list[int] = timer._timer.calls
    return calls


@pytest.mark.parametrize("stmt", sorted(FakeLoop.costs))
@pytest.mark.parametrize("min_run_time", [0.01, 0.2, 10.0])
def test_blocked_autorange_is_torchs_to_the_call(stmt: str, min_run_time: float) -> None:
    ours, theirs = FakeTimer(stmt), FakeReference(stmt)
    mine = ours.blocked_autorange(min_run_time=min_run_time)
    reference_result = theirs.blocked_autorange(min_run_time=min_run_time)
    assert log_of(ours) == log_of(theirs)
    assert log_of(ours)[:6] == [0, 0, 0, 0, 0, 1]
    assert mine.raw_times == reference_result.raw_times
    assert without_address(mine) == without_address(reference_result)


@pytest.mark.parametrize("stmt", sorted(FakeLoop.costs))
@pytest.mark.parametrize("threshold", [0.001, 0.05, 0.1, 0.5])
def test_adaptive_autorange_is_torchs_to_the_call(stmt: str, threshold: float) -> None:
    ours, theirs = FakeTimer(stmt), FakeReference(stmt)
    mine = ours.adaptive_autorange(threshold, min_run_time=0.02, max_run_time=3.0)
    reference_result = theirs.adaptive_autorange(threshold, min_run_time=0.02, max_run_time=3.0)
    assert log_of(ours) == log_of(theirs)
    assert mine.raw_times == reference_result.raw_times


def test_the_numbers_of_torchs_own_test_suite_come_out() -> None:
    """The mock of PyTorch's tests with its published results, digit by digit."""

    class Mock:
        def __init__(self, stmt: str, setup: str, timer: Any, globals: Any) -> None:
            self._random = np.random.RandomState(seed=0)
            self._cost = {"pass": 8e-9, "cheap_fn()": 4e-6, "expensive_fn()": 20e-6}[stmt]

        def sample(self, mean: float, noise: float) -> float:
            return max(self._random.normal(mean, mean * noise), 5e-9)

        def timeit(self, number: int) -> float:
            parts = (100e-9, self._cost * number, 100e-9)
            return sum([self.sample(part, 0.05) for part in parts])

    class MockTimer(Timer):
        _timer_cls = Mock

    m = MockTimer("pass").blocked_autorange(min_run_time=10)
    assert (m.mean, m.median) == (8.0013658357956e-09, 7.983151323215967e-09)
    assert (len(m.times), m.number_per_run) == (125, 10000000)


@pytest.mark.parametrize("method", ["blocked_autorange", "adaptive_autorange"])
def test_the_callback_hears_of_every_block(method: str) -> None:
    heard: list[tuple[int, float]] = []
    m = getattr(FakeTimer("cheap()"), method)(callback=lambda n, t: heard.append((n, t)))
    assert heard == [(m.number_per_run, time) for time in m.raw_times]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7, 10, 39, 97, 100, 1000, 10007, 1000000])
def test_timeit_is_torchs(number: int) -> None:
    ours, theirs = FakeTimer("pass"), FakeReference("pass")
    m, expected = ours.timeit(number), theirs.timeit(number)
    assert log_of(ours) == log_of(theirs)
    assert m.number_per_run == expected.number_per_run == number
    assert m.raw_times == expected.raw_times
    assert len(m.raw_times) == 1


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 7, 10, 39, 97, 100, 1000, 10007, 1000000])
def test_blocks_of_timeit_together_are_the_number_asked_for(number: int) -> None:
    timer = FakeTimer("pass")
    m = timer.timeit_blocks(number)
    total = m.number_per_run * len(m.raw_times)
    assert number - 19 <= total <= number
    assert len(m.raw_times) >= min(number, 4)
    assert log_of(timer)[0] >= number - total, "the rest joins the warm-up"
    if number >= 4:
        assert m.iqr > 0, "the quartiles say something"


def test_timeit_blocks_divides_evenly_what_can_be_divided() -> None:
    for number in (100, 1000, 10000, 1000000, 50, 36):
        m = FakeTimer("pass").timeit_blocks(number)
        assert m.number_per_run * len(m.raw_times) == number


@pytest.mark.parametrize("number", [0, -1, 2.5, True, "3"])
@pytest.mark.parametrize("method", ["timeit", "timeit_blocks"])
def test_what_is_no_number_of_runs_is_refused(method: str, number: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="number of runs"):
        getattr(Timer("pass"), method)(number)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", None, True])
@pytest.mark.parametrize("method", ["blocked_autorange", "adaptive_autorange", "measure"])
def test_a_run_time_must_be_above_zero(method: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="min_run_time"):
        getattr(Timer("pass"), method)(min_run_time=value)


def test_a_most_time_must_be_above_zero() -> None:
    for method in ("adaptive_autorange", "measure"):
        with pytest.raises(InvalidArgumentError, match="max_run_time"):
            getattr(Timer("pass"), method)(max_run_time=0.0)


def test_a_most_time_below_the_least_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max_run_time"):
        Timer("pass").measure(min_run_time=1.0, max_run_time=0.5)


@pytest.mark.parametrize("threads", [0, -2, 1.5, True, "2"])
def test_threads_are_a_whole_number(threads: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="num_threads"):
        Timer("pass", num_threads=threads)


@pytest.mark.parametrize("language", ["fortran", "PY", 3, None])
def test_an_unknown_language_is_named(language: Any) -> None:
    with pytest.raises(UnknownLanguageError, match=re.escape(repr(language))):
        Timer("pass", language=language)


@pytest.mark.parametrize("language", [Language.PYTHON, "py", "python"])
def test_python_has_three_names(language: Language | str) -> None:
    assert Timer("pass", language=language).timeit(1).median > 0


def test_what_this_version_does_not_have_says_so() -> None:
    for call in (Timer().repeat, Timer().autorange):
        with pytest.raises(NotSupportedError):
            call()


def test_global_setup_is_for_cpp_alone() -> None:
    with pytest.raises(InvalidArgumentError, match="put it into setup"):
        Timer("pass", global_setup="import math")


@pytest.mark.parametrize("stmt", [3, None, b"x", ["x"]])
def test_a_statement_is_text_or_a_function(stmt: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="text or a function"):
        Timer(stmt)


def test_arguments_go_with_a_function() -> None:
    with pytest.raises(InvalidArgumentError, match="function"):
        Timer("x", args=(1,))


def test_a_statement_that_does_not_compile_shows_its_own_line_and_caret() -> None:
    with pytest.raises(StatementSyntaxError) as caught:
        Timer("x = 1\ny = = 2")
    shown = "".join(traceback.format_exception_only(caught.value))
    assert 'File "<statement>", line 2' in shown
    assert "    y = = 2\n        ^" in shown
    assert isinstance(caught.value, SyntaxError)
    assert isinstance(caught.value, TorchmarkError)


@pytest.mark.parametrize("method", ["timeit", "blocked_autorange", "adaptive_autorange", "measure"])
def test_a_statement_that_raises_keeps_its_type_and_loses_the_frames_of_the_loop(
    method: str,
) -> None:
    timer = Timer("f(0)", "def f(n):\n    return 1 / n")
    with pytest.raises(ZeroDivisionError) as caught:
        getattr(timer, method)()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not any("torchmark_probe" in file for file in files)
    assert [file.startswith("<torchmark snippet") for file in files[-2:]] == [True, True]


def test_the_collector_and_the_threads_are_put_back_after_a_failure() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0", num_threads=before + 1).measure()
    assert torch.get_num_threads() == before  # the collector is checked after every test


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_set_while_it_runs_and_put_back(threads: int) -> None:
    seen: set[int] = set()
    before = torch.get_num_threads()
    for method in ("timeit", "blocked_autorange", "adaptive_autorange", "measure"):
        timer = Timer(
            "seen.add(torch.get_num_threads())", globals={"seen": seen}, num_threads=threads
        )
        options = {"number": 2} if method == "timeit" else {"min_run_time": 0.001}
        getattr(timer, method)(**options)
    assert seen == {threads}
    assert torch.get_num_threads() == before


def test_the_callers_globals_stay_as_they_were() -> None:
    names: dict[str, Any] = {"x": 1}
    Timer("x", globals=names).timeit(1)
    assert names == {"x": 1}


def test_torch_is_there_unless_the_caller_has_another() -> None:
    Timer("torch.ones(1)").timeit(1)
    fake = object()
    with pytest.raises(AttributeError):
        Timer("torch.ones(1)", globals={"torch": fake}).timeit(1)


def test_a_function_is_called_with_its_arguments_and_named_by_them() -> None:
    calls: list[Any] = []

    def function(*args: Any, key: int = 0) -> None:
        calls.append((args, key))

    timer = Timer(function, args=(1, torch.ones(2, 3)), kwargs={"key": 5})
    timer.timeit(3)
    assert calls[0][0][0] == 1
    assert calls[0][1] == 5
    assert timer.task_spec.stmt == "function(1, float32[2, 3], key=5)"


def test_the_setup_of_a_function_runs_before_it() -> None:
    seen: list[str] = []
    timer = Timer(lambda: seen.append("run"), "seen.append('setup')", globals={"seen": seen})
    timer.timeit(1)
    assert seen[0] == "setup"


def test_measure_is_one_line_for_a_function() -> None:
    m = torchmark.measure(torch.add, torch.ones(2), torch.ones(2), alpha=2)
    assert m.stmt == "torch.add(float32[2], float32[2], alpha=2)"
    assert len(m.times) >= 30 or m.warnings


def test_measure_keeps_every_sample_with_wall_and_cpu_time() -> None:
    m = Timer("torch.ones(3)").measure(min_run_time=0.02)
    assert m.sampling is not None
    assert len(m.sampling.wall) == len(m.sampling.cpu) == len(m.sampling.pace)
    counted = [m.sampling.wall[index] for index in m.sampling.counted()]
    assert m.raw_times == counted
    assert m.cpu_times is not None
    # Whatever else wants the core, some blocks had it to themselves.
    assert 0.3 < min(m.cpu_times) / min(m.times) < 3
    low, high = m.median_interval
    assert low <= m.median <= high
    assert Measurement.from_json(m.to_json()) == pickle.loads(pickle.dumps(m)) == m


def test_the_collector_is_off_while_measure_samples() -> None:
    seen: set[bool] = set()
    Timer("seen.add(gc.isenabled())", globals={"seen": seen, "gc": gc}).measure(min_run_time=0.01)
    assert seen == {False}


def test_measure_runs_the_setup_once() -> None:
    seen: list[int] = []
    Timer("pass", "seen.append(1)", globals={"seen": seen}).measure(min_run_time=0.01)
    assert seen == [1]


def test_measure_works_on_a_loop_that_has_timeit_alone() -> None:
    """`_timer_cls` may be anybody's: `timeit.Timer` itself, or a fake."""

    class Plain(Timer):
        _timer_cls = timeit.Timer

    assert Plain("x = 1").measure(min_run_time=0.001).median > 0
    m = FakeTimer("cheap()").measure(min_run_time=0.1)
    assert m.median == pytest.approx(FakeLoop.costs["cheap()"], rel=0.02)


def test_a_precise_result_stops_early_and_a_noisy_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchmark.engine.rounds.process_reference_loop", ScriptedReferenceLoop)
    monkeypatch.setattr(FakeLoop, "noise", 0.0)
    steady = FakeTimer("cheap()").measure(min_run_time=0.01, max_run_time=10.0)
    monkeypatch.setattr(FakeLoop, "noise", 0.5)
    noisy = FakeTimer("cheap()").measure(min_run_time=0.01, max_run_time=10.0)
    assert steady.sampling is not None
    assert noisy.sampling is not None
    assert len(noisy.sampling.wall) > 5 * len(steady.sampling.wall)


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="does not advance"):
        Timer("pass", timer=lambda: 1.0).measure()


def test_the_callers_own_clock_is_used() -> None:
    ticks = itertools.count()
    m = Timer("pass", timer=lambda: float(next(ticks))).measure(min_run_time=1, max_run_time=50)
    assert m.raw_times == [1.0] * len(m.raw_times)


def test_timers_measured_together_have_as_many_rounds() -> None:
    timers = [Timer("torch.ones(1)"), Timer("torch.ones(2)")]
    a, b = torchmark.measure_together(timers, min_run_time=0.02, seed=1)
    assert a.sampling is not None
    assert b.sampling is not None
    assert len(a.sampling.wall) == len(b.sampling.wall)


def test_timers_measured_together_share_the_number_of_threads() -> None:
    with pytest.raises(InvalidArgumentError, match=r"\[1, 2\]"):
        torchmark.measure_together([Timer(num_threads=1), Timer(num_threads=2)])


def test_no_timers_are_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match="no timers"):
        torchmark.measure_together([])


@pytest.mark.parametrize("name", ["Timer", "Measurement", "TaskSpec", "Compare", "Fuzzer",
                                  "FuzzedParameter", "FuzzedTensor", "FuzzedSparseTensor",
                                  "ParameterAlias"])  # fmt: skip
def test_every_argument_of_torchs_constructors_is_accepted_in_its_place(name: str) -> None:
    theirs = list(inspect.signature(getattr(reference, name)).parameters.values())
    ours = list(inspect.signature(getattr(torchmark, name)).parameters.values())
    assert [p.name for p in ours][: len(theirs)] == [p.name for p in theirs]
    for mine, other in zip(ours, theirs, strict=False):
        assert (mine.default is inspect.Parameter.empty) == (
            other.default is inspect.Parameter.empty
        )


@pytest.mark.parametrize("name", [n for n in vars(reference.Timer) if not n.startswith("_")])
def test_every_method_of_torchs_timer_takes_the_same_arguments(name: str) -> None:
    theirs = inspect.signature(getattr(reference.Timer, name)).parameters
    ours = inspect.signature(getattr(Timer, name)).parameters
    assert list(ours) == list(theirs)
    for key in theirs:
        assert ours[key].default == theirs[key].default, key


def test_every_public_name_of_torchs_module_is_here() -> None:
    not_torchs_own = {"torch", "utils", "math", "Number"}
    public = {n for n in vars(reference) if not n.startswith("_")} - not_torchs_own
    assert public <= set(dir(torchmark))
    assert all(getattr(torchmark, name) is not None for name in public)


def test_functions_of_one_name_are_told_apart() -> None:
    timers = [Timer(lambda n=n: n) for n in range(3)]
    assert len({timer.task_spec for timer in timers}) == 3
    function = lambda: None  # noqa: E731
    assert Timer(function).task_spec == Timer(function).task_spec


def test_an_argument_that_cannot_be_shown_is_named_by_its_type() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "Shy" in Timer(lambda _: None, args=(Shy(),)).task_spec.stmt


def test_numpys_numbers_are_numbers() -> None:
    timer = FakeTimer("cheap()", num_threads=np.int64(1))  # type: ignore[arg-type]
    assert timer.timeit(np.int64(100)).median > 0  # type: ignore[arg-type]
    assert timer.blocked_autorange(min_run_time=np.float32(0.01)).median > 0  # type: ignore[arg-type]
    assert timer.adaptive_autorange(max_run_time=None).median > 0


@pytest.mark.parametrize("method", ["timeit", "timeit_blocks"])
def test_timeit_runs_the_setup_twice_as_torchs_does(method: str) -> None:
    seen: list[int] = []
    getattr(Timer("pass", "seen.append(1)", globals={"seen": seen}), method)(100)
    assert len(seen) == 2


def test_a_loop_that_overrides_timeit_is_what_measure_uses() -> None:
    class Second(Timer._timer_cls):  # type: ignore[misc]
        def timeit(self, number: int) -> float:
            return float(number)

    class SecondTimer(Timer):
        _timer_cls = Second

    assert SecondTimer("pass").measure(min_run_time=1, max_run_time=100).median == 1.0


def test_measure_leaves_the_collector_as_it_was_whatever_the_setup_does() -> None:
    Timer("pass", "gc.disable()", globals={"gc": gc}).measure(min_run_time=0.01)
    assert gc.isenabled()

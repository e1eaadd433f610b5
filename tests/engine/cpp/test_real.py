"""What the real compiler and torch must do: one batch, built once for all of these."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

from torchmark.cli.statements import time_command
from torchmark.engine.cpp.build import CppLoop
from torchmark.errors import CompileError, InvalidArgumentError
from torchmark.model.case import Language
from torchmark.model.measurement import Measurement
from torchmark.timers import Timer
from torchmark.together import measure_together
from torchmark_probe.loops.native import WARM_UP_RUNS, NativeLoop

from ...fakes import FakeLoop

if TYPE_CHECKING:
    from .conftest import RealBatch


def loop_of(real: RealBatch, name: str) -> NativeLoop:
    built = real.built(name)
    return NativeLoop(str(built.library), built.symbol)


def timer_of(real: RealBatch, name: str, **options: Any) -> Timer:
    stmt, setup, global_setup = real.statements[name]
    return Timer(stmt, setup or "pass", global_setup, language="cpp", **options)


def runs_counted(real: RealBatch) -> int:
    """Another statement of the library reads the variable, and says it by throwing."""
    with pytest.raises(RuntimeError) as caught:
        loop_of(real, "reads").run(1)
    return int(str(caught.value))


def test_the_batch_is_one_library_and_survives_its_bad_statement(real: RealBatch) -> None:
    bad = [name for name, result in real.results.items() if isinstance(result, CompileError)]
    assert bad == ["misspelt"]
    assert len({real.built(name).library for name in real.results if name not in bad}) == 1


def test_a_compile_error_shows_the_users_own_line(real: RealBatch) -> None:
    failure = real.results["misspelt"]
    assert isinstance(failure, CompileError)
    assert str(failure).startswith(
        "the C++ statement does not compile:\n  setup, line 2: 'onse' is not a member of 'torch'"
    )
    assert "    auto y = torch::onse({2});" in str(failure)
    assert len(str(failure).splitlines()) < 10


@pytest.mark.parametrize(("number", "warmup"), [(0, 0), (1, 0), (5, 2), (1000, 1)])
def test_a_statement_runs_as_often_as_asked(real: RealBatch, number: int, warmup: int) -> None:
    assert loop_of(real, "counts").run(number, warmup) >= 0
    assert runs_counted(real) == number + warmup


def test_the_callbacks_stand_around_the_timed_runs(real: RealBatch) -> None:
    seen: list[int] = []
    loop_of(real, "counts").run(
        5, 2, lambda: seen.append(runs_counted(real)), lambda: seen.append(runs_counted(real))
    )
    assert seen == [2, 7]


def test_after_is_called_when_the_statement_throws(real: RealBatch) -> None:
    calls: list[str] = []
    with pytest.raises(RuntimeError):
        loop_of(real, "reads").run(
            1, 0, lambda: calls.append("before"), lambda: calls.append("after")
        )
    assert calls == ["before", "after"]


def test_what_a_callback_raises_arrives(real: RealBatch) -> None:
    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        loop_of(real, "counts").run(1, 0, fail)


def test_helpers_and_macros_of_one_name_do_not_clash(real: RealBatch) -> None:
    assert loop_of(real, "helper is a function").run(3, 1) >= 0
    assert loop_of(real, "helper is a type").run(3, 1) >= 0


def test_exceptions_become_errors_with_their_text(real: RealBatch) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        loop_of(real, "torch throws").run(1, 1)
    assert "Exception raised from" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"not a std::exception"):
        loop_of(real, "throws a number").run(1, 1)
    with pytest.raises(RuntimeError, match="left its loop with break"):
        loop_of(real, "breaks").run(1, 1)


def test_other_threads_run_meanwhile(real: RealBatch) -> None:
    """The call holds no lock of Python: a thread gets its turn before the loop has ended."""
    turn = threading.Event()
    waiting = threading.Event()

    def other() -> None:
        waiting.wait()
        turn.set()

    thread = threading.Thread(target=other)
    thread.start()
    loop_of(real, "counts").run(1, 0, waiting.set, turn.wait)
    thread.join()
    assert turn.is_set()


def test_threads_set_through_torch_hold_for_cpp(real: RealBatch) -> None:
    assert timer_of(real, "threads", num_threads=2).timeit(4).median > 0
    with pytest.raises(RuntimeError, match="threads: 1"):
        timer_of(real, "threads", num_threads=1).timeit(4)


@pytest.mark.parametrize("language", ["cpp", "c++", Language.CPP])
def test_timer_takes_cpp_by_all_its_names(real: RealBatch, language: Language | str) -> None:
    stmt, setup, _ = real.statements["add"]
    measurement = Timer(stmt, setup, language=language).timeit(100)
    assert measurement.median > 0
    assert measurement.task_spec.setup == setup


def test_all_the_ways_to_measure_work(real: RealBatch) -> None:
    timer = timer_of(real, "add")
    for measurement in (
        timer.blocked_autorange(min_run_time=0.01),
        timer.adaptive_autorange(max_run_time=0.1),
        timer.measure(min_run_time=0.01),
    ):
        assert isinstance(measurement, Measurement)
        assert measurement.median > 0


def test_a_statement_of_one_addition_is_measured_and_keeps_its_cpu_time(real: RealBatch) -> None:
    (measurement,) = measure_together([timer_of(real, "counts")], min_run_time=0.01)
    assert measurement.cpu_times is not None
    assert len(measurement.cpu_times) == len(measurement.times)
    assert measurement.median > 0
    assert measurement.sampling is not None
    assert measurement.sampling.clock_resolution > 0


def test_a_measurement_runs_the_setup_once(real: RealBatch) -> None:
    """The setup sets the number of runs to 0, so all of them are there only if it ran once."""
    m = timer_of(real, "counts").measure(min_run_time=0.01)
    assert m.sampling is not None
    assert runs_counted(real) > len(m.sampling.wall) * m.sampling.number


def test_the_blocks_of_timeit_share_one_setup(real: RealBatch) -> None:
    timer_of(real, "counts").timeit_blocks(1000)
    assert runs_counted(real) == 1000 + WARM_UP_RUNS


@pytest.mark.parametrize("names", [("without grad", "with grad"), ("with grad", "without grad")])
def test_a_guard_in_a_setup_holds_for_its_own_statement_alone(
    real: RealBatch, names: tuple[str, str]
) -> None:
    first, second = (loop_of(real, name).blocks() for name in names)
    for _ in range(3):
        first.run(2)
        assert torch.is_grad_enabled()
        second.run(2)
        assert torch.is_grad_enabled()
    with torch.no_grad(), closing(loop_of(real, "without grad").blocks()) as third:
        third.run(1)
        assert not torch.is_grad_enabled()
    first.close()
    second.run(1)
    second.close()
    assert torch.is_grad_enabled()


def test_cpp_and_python_are_measured_together(real: RealBatch) -> None:
    timers = [timer_of(real, "add"), Timer("x + x", globals={"x": torch.ones(4)})]
    assert len(measure_together(timers, min_run_time=0.01)) == 2


def test_a_clock_of_the_user_is_used(real: RealBatch) -> None:
    readings: list[float] = []

    def clock() -> float:
        readings.append(float(len(readings)))
        return readings[-1]

    m = timer_of(real, "add", timer=clock).timeit_blocks(20)
    assert m.raw_times == [1.0] * len(m.raw_times)
    assert len(readings) == 2 * (len(m.raw_times) + 1), "twice a block, and the warm-up"


def test_perf_counter_is_the_loops_own_clock(real: RealBatch) -> None:
    assert timer_of(real, "add", timer=time.perf_counter).timeit(10).median < 1


def test_a_bad_statement_raises_at_its_first_use(real: RealBatch) -> None:
    timer = Timer("f(1;", language="cpp")
    with pytest.raises(CompileError, match=r"'\(' is never closed"):
        timer.timeit(1)


def test_cpp_takes_text_alone() -> None:
    with pytest.raises(InvalidArgumentError, match="globals"):
        Timer("x;", globals={"x": 1}, language="cpp")
    with pytest.raises(ValueError, match="text"):
        Timer(torch.add, language="cpp")
    with pytest.raises(InvalidArgumentError, match="text"):
        Timer("x;", args=(1,), language="cpp")


def test_pass_means_nothing_in_cpp() -> None:
    timer = Timer(language="cpp")
    assert isinstance(timer._timer, CppLoop)
    assert timer._timer.statement == ("", "", "")
    assert (timer.task_spec.stmt, timer.task_spec.setup) == ("", "")


def test_a_loop_of_a_subclass_is_used_for_cpp_too() -> None:
    class FakeTimer(Timer):
        _timer_cls = FakeLoop

    assert FakeTimer("cheap()", language="cpp").timeit(20).median > 0


def test_the_command_line_times_cpp(real: RealBatch) -> None:
    stmt, setup, _ = real.statements["add"]
    arguments = [stmt, "--setup", setup, "--language", "cpp", "--min-run-time", "0.01", "--json"]
    done = CliRunner().invoke(time_command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.output)["record"]["results"]) == 1

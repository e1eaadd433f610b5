"""The Timer for old environments, beside torch's own; the clock is one that the statement moves."""

from __future__ import annotations

import ast
import itertools
import pickle
import random
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils import benchmark as reference

import torchmark_probe.backport
from torchmark_probe.backport import Language, Measurement, TaskSpec, Timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FILES = sorted(Path(torchmark_probe.backport.__file__).parent.glob("*.py"))

METHODS: dict[str, Callable[[Any], Any]] = {
    "timeit": lambda timer: timer.timeit(50),
    "blocked_autorange": lambda timer: timer.blocked_autorange(),
    "adaptive_autorange": lambda timer: timer.adaptive_autorange(),
}


class StatementClock:
    """Time passes when a statement says so, and a little whenever the clock is read."""

    def __init__(self, costs: Iterable[float]) -> None:
        self._costs = itertools.cycle(costs)
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 1e-8
        return self._now

    def run(self) -> None:
        self._now += next(self._costs)


def timer_of(kind: Any, costs: Iterable[float], **arguments: Any) -> Any:
    """A Timer, ours or torch's, of a statement whose runs cost what is said."""
    clock = StatementClock(costs)
    return kind("clock.run()", timer=clock, globals={"clock": clock}, **arguments)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_is_syntax_that_python_3_8_reads(file: Path) -> None:
    assert ast.parse(file.read_text(), feature_version=(3, 8)).body


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cost", [1e-5, 1e-3, 0.5])
def test_blocks_and_times_are_torchs(method: str, cost: float) -> None:
    ours, theirs = (METHODS[method](timer_of(kind, [cost])) for kind in (Timer, reference.Timer))
    assert ours.number_per_run == theirs.number_per_run
    assert ours.raw_times == pytest.approx(theirs.raw_times, rel=1e-9)
    assert ours.median == pytest.approx(cost, rel=1e-2)


@pytest.mark.parametrize("most", [0.02, 0.5])
def test_adaptive_autorange_stops_where_torchs_does(most: float) -> None:
    rng = random.Random(0)
    costs = [1e-3 * rng.uniform(0.5, 2.0) for _ in range(97)]
    ours, theirs = (
        timer_of(kind, costs).adaptive_autorange(0.2, max_run_time=most)
        for kind in (Timer, reference.Timer)
    )
    assert ours.raw_times == pytest.approx(theirs.raw_times, rel=1e-9)


def test_without_a_longest_time_it_goes_on_until_it_is_steady() -> None:
    m = timer_of(Timer, [0.1] * 9 + [0.2] + [0.1] * 1000).adaptive_autorange(max_run_time=None)
    assert m.meets_confidence(0.1)


def test_the_callback_is_given_every_block() -> None:
    seen: list[tuple[int, float]] = []
    m = timer_of(Timer, [1e-4]).blocked_autorange(callback=lambda *block: seen.append(block))
    assert seen == [(m.number_per_run, time) for time in m.raw_times]


def test_its_own_clock_and_torch_are_there_without_being_asked_for() -> None:
    m = Timer("x + x", "x = torch.ones(4)").blocked_autorange(min_run_time=0.001)
    assert 0 < m.median < 1


@pytest.mark.parametrize("method", METHODS)
def test_torch_has_the_threads_that_were_asked_for_while_it_runs(method: str) -> None:
    seen: set[int] = set()
    before = torch.get_num_threads()
    clock = StatementClock([0.1])
    timer = Timer(
        "clock.run(); seen.add(torch.get_num_threads())",
        timer=clock,
        globals={"clock": clock, "seen": seen},
        num_threads=before + 1,
    )
    assert METHODS[method](timer).num_threads == before + 1
    assert seen == {before + 1}
    assert torch.get_num_threads() == before


def test_what_the_statement_raises_arrives_and_the_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        Timer("1 / 0", num_threads=before + 1).blocked_autorange()
    assert torch.get_num_threads() == before


def test_the_globals_of_the_caller_stay_as_they_are() -> None:
    names = {"x": 3}
    Timer("y = x", "global z; z = 1", globals=names).timeit(1)
    assert names == {"x": 3}


def test_a_syntax_error_has_the_line_of_the_script() -> None:
    with pytest.raises(SyntaxError, match="the statement does not compile") as caught:
        Timer("x = 1\ny = = 2", setup="z = 3")
    assert (caught.value.lineno, caught.value.text) == (2, "y = = 2\n")


@pytest.mark.parametrize("language", ["cpp", "c++", Language.CPP, reference.Language.CPP])
def test_cpp_is_sent_to_torchmark_outside(language: Any) -> None:
    with pytest.raises(NotImplementedError, match="torchmark ab"):
        Timer("x", language=language)


@pytest.mark.parametrize("language", ["py", "python", Language.PYTHON, reference.Language.PYTHON])
def test_python_is_taken_by_any_of_its_names(language: Any) -> None:
    assert Timer(language=language, global_setup="int x;").timeit(1).global_setup == "int x;"


@pytest.mark.parametrize("arguments", [(), (100,)])
def test_counting_is_sent_to_torchmark_outside(arguments: tuple[int, ...]) -> None:
    with pytest.raises(NotImplementedError, match="torchmark count"):
        Timer().collect_callgrind(*arguments, collect_baseline=False)


@pytest.mark.parametrize(
    ("mistake", "error"),
    [
        (lambda: Timer(language="rust"), ValueError),
        (lambda: Timer(num_threads=0), ValueError),
        (lambda: Timer(len), TypeError),  # type: ignore[arg-type]
        (lambda: Timer().timeit(0), ValueError),
        (lambda: Timer().blocked_autorange(min_run_time=float("nan")), ValueError),
        (lambda: Timer().adaptive_autorange(min_run_time=-1), ValueError),
        (lambda: Timer().repeat(), NotImplementedError),
        (lambda: Timer().autorange(), NotImplementedError),
        (lambda: Measurement(1, [], TaskSpec("x", "pass")).median, ValueError),
    ],
)
def test_a_mistake_has_its_error(mistake: Callable[[], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        mistake()


@pytest.mark.parametrize("seed", range(20))
def test_statistics_are_torchs(seed: int) -> None:
    rng = random.Random(seed)
    scale = 10 ** rng.uniform(-6, 1)
    spread = rng.uniform(0.001, 0.3)
    times = [scale * rng.lognormvariate(0, spread) for _ in range(rng.randrange(1, 60))]
    ours = Measurement(10, times, TaskSpec("x", "pass"))
    theirs = reference.Measurement(10, times, reference.TaskSpec("x", "pass"))
    for name in ("times", "median", "mean", "iqr"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-6)
    assert ours.significant_figures == theirs.significant_figures
    assert ours.has_warnings == theirs.has_warnings
    assert ours.meets_confidence(0.05) == theirs.meets_confidence(0.05)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"label": "add", "sub_label": "float", "description": "4 x 4", "env": "old"},
        {"stmt": "a\nb", "setup": "c\nd", "sub_label": "row", "num_threads": 3},
        {"stmt": "", "global_setup": "g"},
    ],
)
def test_the_fields_of_the_task_read_as_torchs(fields: dict[str, Any]) -> None:
    given = {"stmt": "x + y", "setup": "pass", **fields}
    ours = Measurement(1, [1.0], TaskSpec(**given))
    theirs: Any = reference.Measurement(1, [1.0], reference.TaskSpec(**given))
    for name in (
        *("stmt", "setup", "global_setup", "label", "sub_label", "description", "num_threads"),
        *("title", "as_row_name"),
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.env == fields.get("env", "Unspecified env")
    assert ours.task_spec.summarize() == theirs.task_spec.summarize()


def text_of(times: list[float], **fields: Any) -> str:
    """A measurement's text, without the line that has its address."""
    m = Measurement(10, times, TaskSpec(**{"stmt": "x + y", "setup": "pass", **fields}))
    return repr(m).partition("\n")[2]


def test_its_text_is_what_torchs_would_be() -> None:
    times = [2.0e-5, 2.1e-5, 2.2e-5, 2.3e-5, 2.4e-5]
    assert text_of(times, setup="x = 1", num_threads=2) == textwrap.dedent("""\
        x + y
        setup: x = 1
          Median: 2.20 us
          IQR:    0.20 us (2.10 to 2.30)
          5 measurements, 10 runs per measurement, 2 threads""")
    assert text_of([0.02]) == "x + y\n  2.00 ms\n  1 measurement, 10 runs , 1 thread"
    assert text_of([]) == "x + y\n  no measurements, 1 thread"


def test_a_wide_spread_is_warned_of_in_its_text() -> None:
    assert text_of([1.0, 2.0, 3.0, 4.0]).endswith(
        "  WARNING: Interquartile range is 60.0% of the median measurement.\n"
        "           This suggests significant environmental influence."
    )


def test_merging_gives_one_measurement_for_each_task() -> None:
    x, y = TaskSpec("x", "pass"), TaskSpec("y", "pass")
    merged = Measurement.merge(
        [Measurement(10, [10.0], x), Measurement(1, [5.0], y), Measurement(2, [4.0, 6.0], x)]
    )
    assert merged == [Measurement(1, [1.0, 2.0, 3.0], x), Measurement(1, [5.0], y)]


def test_a_measurement_can_be_pickled() -> None:
    m = Measurement(10, [1.0], TaskSpec("x", "pass", label="l"), metadata={"a": 1})
    assert pickle.loads(pickle.dumps(m)) == m


def test_torchs_own_compare_prints_a_table_of_them() -> None:
    ours = [
        Measurement(1, [time], TaskSpec("x", "pass", label="add", sub_label=row, description="4"))
        for row, time in (("mine", 2e-6), ("other", 4e-6))
    ]
    as_torchs: Any = reference.Measurement
    theirs = [as_torchs(m.number_per_run, m.raw_times, m.task_spec) for m in ours]
    table = str(reference.Compare(theirs))
    assert "mine   |  2" in table
    assert "other  |  4" in table

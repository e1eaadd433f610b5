from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch.utils.benchmark as reference
from hypothesis import given
from hypothesis import strategies as st

from torchmark import Measurement, TaskSpec
from torchmark.errors import (
    EmptyMeasurementError,
    InvalidArgumentError,
    InvalidMeasurementError,
    MeasurementFileError,
    NotSerialisableError,
)
from torchmark_probe.loops.intervals import median_interval
from torchmark_probe.loops.sampling import Sampling

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = TaskSpec("x + y", "pass", label="add", sub_label="plain", description="4x4", env="main")

positive_times = st.floats(min_value=2e-9, max_value=100)
texts = st.sampled_from([None, "", "one", "two words"])
specs = st.fixed_dictionaries(
    {
        "stmt": st.sampled_from(["x + y", "f(x)\ng(y)", ""]),
        "setup": st.sampled_from(["pass", "", "x = 1", "x = 1\ny = 2"]),
        "label": texts,
        "sub_label": texts,
        "description": texts,
        "num_threads": st.integers(1, 4),
    }
)
samplings = st.integers(1, 9).flatmap(
    lambda count: st.builds(
        Sampling,
        number=st.integers(1, 1000),
        wall=st.tuples(*[positive_times] * count),
        cpu=st.tuples(*[positive_times] * count),
        pace=st.tuples(*[positive_times] * count),
        quiet_pace=positive_times,
        clock_resolution=st.floats(min_value=0, max_value=1),
    )
)
payloads = st.none() | st.dictionaries(
    st.text(max_size=5),
    st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    max_size=3,
)
measurements = st.builds(
    Measurement,
    number_per_run=st.integers(1, 10**9),
    raw_times=st.lists(st.floats(min_value=0, max_value=1e6), max_size=20),
    task_spec=st.builds(lambda kwargs: TaskSpec(**kwargs), specs),
    metadata=payloads,
    sampling=st.none() | samplings,
)


def without_address(text: str) -> str:
    return re.sub(r"<\S+ object at 0x[0-9a-f]+>", "<object>", text)


def both(number: int, times: list[float], spec: dict[str, Any]) -> tuple[Any, Measurement]:
    theirs = reference.Measurement(number, times, reference.TaskSpec(**spec))
    return theirs, Measurement(number, times, TaskSpec(**spec))


@given(st.integers(1, 1000), st.lists(positive_times, min_size=1, max_size=40), specs)
def test_statistics_and_text_are_torchs(
    number: int, times: list[float], spec: dict[str, Any]
) -> None:
    theirs, ours = both(number, [time * number for time in times], spec)
    assert without_address(repr(ours)) == without_address(repr(theirs))
    for name in ("times", "mean", "median", "iqr", "significant_figures", "has_warnings",
                 "title", "as_row_name", "stmt", "setup", "label", "sub_label", "description",
                 "num_threads", "global_setup"):  # fmt: skip
        assert getattr(ours, name) == getattr(theirs, name), name
    for threshold in (0.05, 0.1, 0.5):
        assert ours.meets_confidence(threshold) == theirs.meets_confidence(threshold)


def test_env_is_the_one_that_was_given() -> None:
    assert Measurement(1, [1.0], SPEC).env == "main"


def test_a_missing_env_has_a_name_and_is_not_none() -> None:
    assert Measurement(1, [1.0], replace(SPEC, env=None)).env == "Unspecified env"


def test_there_is_no_forwarding_that_could_hide_a_typo() -> None:
    with pytest.raises(AttributeError):
        _ = Measurement(1, [1.0], SPEC).taskspec  # type: ignore[attr-defined]


def test_zero_times_are_results_like_others() -> None:
    zero = Measurement(1, [0.0] * 5, SPEC)
    assert zero.median == zero.mean == zero.iqr == 0
    assert zero.significant_figures == 1
    assert zero.meets_confidence()
    assert not zero.has_warnings
    assert "0.00 ns" in repr(zero)


def test_times_below_a_picosecond_are_shown_as_what_they_are() -> None:
    assert "0.0005 ns" not in repr(Measurement(1, [5e-13], SPEC))
    assert "0.00 ns" in repr(Measurement(1, [5e-13], SPEC))
    assert "0.30 ns" in repr(Measurement(1, [3e-10], SPEC))


def test_no_times_have_no_statistics() -> None:
    empty = Measurement(1, [], SPEC)
    assert "no measurements" in repr(empty)
    assert "Median" not in repr(empty)
    for statistic in ("median", "mean", "iqr", "std", "significant_figures", "has_warnings",
                      "median_interval", "warnings"):  # fmt: skip
        with pytest.raises(EmptyMeasurementError, match="add: plain"):
            getattr(empty, statistic)


@pytest.mark.parametrize("time", [math.nan, math.inf, -1e-9])
def test_what_is_no_time_is_refused(time: float) -> None:
    with pytest.raises(InvalidMeasurementError, match=r"raw_times\[1\]"):
        Measurement(1, [1.0, time], SPEC)


@pytest.mark.parametrize("number", [0, -3, True])
def test_a_run_has_at_least_one_execution(number: int) -> None:
    with pytest.raises(InvalidMeasurementError, match="number_per_run"):
        Measurement(number, [1.0], SPEC)


def test_the_deviation_and_percentiles_are_those_of_the_samples() -> None:
    m = Measurement(2, [2.0, 4.0, 6.0, 8.0], SPEC)
    assert m.std == pytest.approx(1.2909944)
    assert [m.percentile(p) for p in (0, 50, 100)] == [1.0, 2.5, 4.0]
    with pytest.raises(InvalidArgumentError):
        m.percentile(101)


def test_cpu_times_are_those_of_the_samples_that_count() -> None:
    wall = (2.0,) * 6
    sampling = Sampling(2, wall, (1.0, 3.0, 3.0, 3.0, 3.0, 3.0), (9.0, 1, 1, 1, 1, 1), 1.0, 1e-9)
    assert Measurement(2, [2.0] * 5, SPEC, sampling=sampling).cpu_times == [1.5] * 5
    assert Measurement(2, [2.0], SPEC).cpu_times is None


def sampled(wall: Sequence[float], pace: Sequence[float]) -> Measurement:
    """What `measure` makes of these blocks of one run; the quiet pace is 1."""
    sampling = Sampling(1, tuple(wall), tuple(wall), tuple(pace), 1.0, 1e-9)
    return Measurement.from_sampling(SPEC, sampling)


def half_widths(measurement: Measurement) -> tuple[float, float]:
    """Of the interval below and above the median, as shares of it."""
    low, high = measurement.median_interval
    return 1 - low / measurement.median, high / measurement.median - 1


def test_the_interval_allows_for_what_changes_between_results() -> None:
    """Equal samples say nothing about it, so it is known from other results."""
    assert half_widths(sampled([3e-4] * 600, [1.0] * 600)) == pytest.approx((0.01, 0.01))
    assert half_widths(Measurement(1, [3e-4] * 600, SPEC)) == (0, 0)


def test_the_interval_is_wider_where_more_samples_were_disturbed() -> None:
    wall = [3e-4] * 400
    widths = [
        half_widths(sampled(wall, [1.0] * (400 - disturbed) + [2.0] * disturbed))[1]
        for disturbed in (0, 100, 200, 300)
    ]
    assert widths == pytest.approx([0.01, 0.025, 0.04, 0.055])


def test_the_interval_reaches_down_to_an_undisturbed_core_if_no_sample_had_one() -> None:
    """The statement takes 2e-4, and 1.6 times as long beside a neighbour who is always there."""
    low, high = sampled([3.2e-4] * 600, [1.75] * 600).median_interval
    assert low < 2e-4 < 3.2e-4 < high
    quiet = [1.0] * 5 + [1.75] * 595
    assert sampled([3.2e-4] * 600, quiet).median_interval.low > 2.9e-4


def test_long_samples_count_more_than_as_many_short_ones() -> None:
    """Ten neighbours within 3 ms see the same state of the machine, ten within a second do not."""
    wall = [0.9 + 0.2 * (index * 37 % 200) / 200 for index in range(200)]  # no batch differs
    short, long = (sampled([scale * each for each in wall], [1.0] * 200) for scale in (3e-4, 3e-2))
    assert half_widths(long)[1] < half_widths(short)[1] / 1.5


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60), st.floats(0.5, 9))
def test_the_interval_holds_the_median_and_no_negative_time(wall: list[float], pace: float) -> None:
    measurement = sampled(wall, [pace] * len(wall))
    low, high = measurement.median_interval
    assert 0 <= low <= measurement.median <= high


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60), st.floats(0.5, 9))
def test_the_interval_is_never_narrower_than_that_of_its_samples(
    wall: list[float], pace: float
) -> None:
    measurement = sampled(wall, [pace] * len(wall))
    low, high = measurement.median_interval
    own = median_interval(measurement.times)
    assert low <= max(0.0, own.low) * (1 + 1e-12)
    assert high >= own.high * (1 - 1e-12)


@given(measurements)
def test_json_and_back_is_the_same_measurement(measurement: Measurement) -> None:
    merged = Measurement.merge([measurement, measurement])[0]
    assert Measurement.from_json(measurement.to_json()) == measurement
    assert Measurement.from_json(merged.to_json().encode()) == merged


@given(measurements)
def test_pickle_and_back_is_the_same_measurement(measurement: Measurement) -> None:
    assert pickle.loads(pickle.dumps(measurement)) == measurement


@pytest.mark.parametrize(
    "payload", [{1: "key"}, {"t": (1, 2)}, {"s": {1}}, {"x": math.nan}, {"o": object()}]
)
def test_a_payload_that_json_would_change_is_refused(payload: dict[Any, Any]) -> None:
    with pytest.raises(NotSerialisableError, match="measurement of 'add: plain'"):
        Measurement(1, [1.0], SPEC, metadata=payload).to_json()


def damaged(**changes: Any) -> str:
    content = json.loads(Measurement(1, [1.0, 2.0], SPEC).to_json())
    return json.dumps(content | {"record": content["record"] | changes})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "truncated"),
        ("[]", "array"),
        (damaged(raw_times=[1.0, math.nan]), "malformed"),
        (damaged(raw_times=[1.0, None]), r"\$\.raw_times\[1\]"),
        (damaged(raw_times=[1.0, -2.0]), r"raw_times\[1\]|raw_times\[\.\.\.\]"),
        (damaged(raw_times=[1.0, 2.0]).replace("2.0", "1e999"), "raw_times|out of range"),
        (damaged(number_per_run=0), "number_per_run"),
        (damaged(surprise=1), "surprise"),
        (damaged(task={"stmt": 3, "setup": ""}), r"\$\.task\.stmt"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_the_place(text: str, names: str) -> None:
    with pytest.raises(MeasurementFileError, match=names):
        Measurement.from_json(text)


def test_a_sampling_with_lists_of_different_length_is_refused() -> None:
    sampling = Sampling(1, (1.0,), (1.0,), (1.0,), 1.0, 0.0)
    content = json.loads(Measurement(1, [1.0], SPEC, sampling=sampling).to_json())
    changes: list[dict[str, Any]] = [{"cpu": []}, {"number": 0}, {"wall": [-1.0]}]
    for change in changes:
        record = content["record"] | {"sampling": content["record"]["sampling"] | change}
        with pytest.raises(MeasurementFileError, match="one of each per block"):
            Measurement.from_json(json.dumps(content | {"record": record}))


@given(st.lists(measurements, max_size=6))
def test_merging_loses_no_sample_and_no_raw_data(parts: list[Measurement]) -> None:
    merged = Measurement.merge(parts)
    assert len({m.task_spec for m in merged}) == len(merged)
    assert sorted(t for m in merged for t in m.times) == sorted(t for m in parts for t in m.times)
    kept = [replicate for m in merged for replicate in m.replicates]
    assert len(kept) == len(parts)
    assert all(any(replicate is part for part in parts) for replicate in kept)


@given(st.lists(positive_times, min_size=1, max_size=9), st.integers(1, 50))
def test_merged_times_are_torchs(times: list[float], number: int) -> None:
    spec = {"stmt": "x", "setup": "pass"}
    theirs, ours = both(number, times, spec)
    merged = Measurement.merge([ours, ours])[0]
    expected = reference.Measurement.merge([theirs, theirs])[0]
    assert (merged.times, merged.number_per_run) == (expected.times, expected.number_per_run)


def test_merging_keeps_the_warnings_and_cpu_times_of_its_parts() -> None:
    coarse = Sampling(1, (1e-4,) * 40, (2e-4,) * 40, (9.0,) * 40, 1.0, 1e-4)
    part = Measurement(1, [1e-4] * 40, SPEC, sampling=coarse)
    merged = Measurement.merge([part, part])[0]
    assert [warning.kind.value for warning in merged.warnings] == [
        "wide interval", "disturbed", "clock too coarse",
    ]  # fmt: skip
    assert merged.cpu_times == [2e-4] * 80
    assert Measurement.merge([part, Measurement(1, [1.0], SPEC)])[0].cpu_times is None


@pytest.mark.parametrize("value", [None, "1", [1.0]])
def test_a_time_is_a_number(value: Any) -> None:
    with pytest.raises(InvalidMeasurementError, match=r"raw_times\[0\]"):
        Measurement(1, [value], SPEC)


def test_processes_that_agree_make_an_interval_narrower_and_those_that_differ_wider() -> None:
    """What a result cannot know of the next one is in each of them, and shrinks by their root."""
    one, same = (sampled([3e-4, 3.01e-4] * 50, [1.0] * 100) for _ in range(2))
    other = sampled([3.3e-4, 3.31e-4] * 50, [1.0] * 100)
    alone = half_widths(one)[1]
    assert alone / 2 < half_widths(Measurement.merge([one, same])[0])[1] < alone
    assert half_widths(Measurement.merge([one, other])[0])[1] > 2 * alone

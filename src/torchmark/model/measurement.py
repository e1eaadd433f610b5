"""The result of timing one statement: its samples and their statistics.

Interface and arithmetic are the same as in `torch.utils.benchmark.Measurement`, so old and new
numbers can be compared. In addition, a measurement knows how its samples were taken, has an
interval for its median, and has warnings. The base class in the probe also works in old
environments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torchmark.errors import EmptyMeasurementError, InvalidArgumentError, InvalidMeasurementError
from torchmark.model.case import TaskSpec
from torchmark.model.result_warnings import (
    ResultWarning,
    find_interval_warnings,
    find_sampling_warnings,
    find_warnings,
)
from torchmark.model.units import collect, log10_single, mean_double, select_unit, std_single
from torchmark_probe.loops.autorange import single
from torchmark_probe.loops.intervals import (
    FEWEST_SAMPLES,
    Interval,
    median,
    median_interval,
    merged_interval,
    quantile_of_sorted,
    result_interval,
)
from torchmark_probe.loops.measurement import MOST_FIGURES, SURELY_NOISE, Z_90
from torchmark_probe.loops.measurement import Measurement as BareMeasurement
from torchmark_probe.loops.sampling import Sampling


def _is_time(value: Any) -> bool:
    """Whether a value is a valid time: a finite number that is at least zero."""
    try:
        return math.isfinite(value) and value >= 0
    except TypeError:
        return False


@dataclass(repr=False)
class Measurement(BareMeasurement):
    """One or more timings of a statement; each is the time of `number_per_run` runs.

    >>> m = Measurement(number_per_run=10, raw_times=[2e-5, 3e-5, 4e-5],
    ...                 task_spec=TaskSpec("x + y", "pass"))
    >>> round(m.median * 1e6, 3), m.warnings[0].kind.value
    (3.0, 'too few samples')
    """

    task_spec: TaskSpec
    sampling: Sampling | None = None
    """All samples as they were taken, if `Timer.measure` took them."""

    replicates: tuple[Measurement, ...] = ()
    """The measurements that were merged into this one."""

    _empty_error = EmptyMeasurementError

    def __post_init__(self) -> None:
        if isinstance(self.number_per_run, bool) or self.number_per_run < 1:
            raise InvalidMeasurementError(
                f"number_per_run must be at least 1, got {self.number_per_run!r}"
            )
        for index, time in enumerate(self.raw_times):
            if not _is_time(time):
                raise InvalidMeasurementError(
                    f"raw_times[{index}] of {self.task_spec.title!r} is {time!r}; "
                    "a time must be finite and at least zero"
                )

    @classmethod
    def from_sampling(cls, task_spec: TaskSpec, sampling: Sampling) -> Measurement:
        """A measurement of the samples that count; `sampling` keeps all samples."""
        return cls(
            number_per_run=sampling.number,
            raw_times=[sampling.wall[index] for index in sampling.counted()],
            task_spec=task_spec,
            sampling=sampling,
        )

    @property
    def mean(self) -> float:
        return mean_double(self._ordered)

    @property
    def std(self) -> float:
        """The standard deviation of the samples; zero for a single sample."""
        count = len(self._ordered)
        centre = math.fsum(self._ordered) / count
        squares = math.fsum((time - centre) ** 2 for time in self._ordered)
        return math.sqrt(squares / (count - 1)) if count > 1 else 0.0

    def percentile(self, percent: float) -> float:
        """The time below which `percent` % of the samples lie, linearly interpolated."""
        if not 0 <= percent <= 100:
            raise InvalidArgumentError(f"percent must be between 0 and 100, got {percent!r}")
        return quantile_of_sorted(self._ordered, percent / 100)

    @property
    def median_interval(self) -> Interval:
        """The 95 % interval for the median.

        It does not assume that samples are independent. For samples of `measure`, it estimates
        the median that repeated results have in the long run; if no sample was undisturbed, the
        lower end is the time that an undisturbed core may need. It means nothing for fewer than
        five samples, and reports then do not show it.
        """
        samples, sampling = self._samples(), self.sampling
        if self.replicates and all(each.sampling is not None for each in self.replicates):
            parts = [(each.median, each.median_interval) for each in self.replicates]
            return merged_interval(self.median, parts)
        if sampling is None:
            return median_interval(samples)
        low, high = result_interval(
            samples,
            sample_seconds=median(sampling.wall),
            disturbed=sampling.disturbed_share(),
            unsteady=sampling.unsteadiness(),
        )
        return Interval(low / sampling.slowdown(), high)

    @property
    def cpu_times(self) -> list[float] | None:
        """CPU seconds of the timing thread for one run; None if they were not taken."""
        if self.sampling is not None:
            cpu, number = self.sampling.cpu, self.sampling.number
            return [cpu[index] / number for index in self.sampling.counted()]
        parts = [replicate.cpu_times for replicate in self.replicates]
        if not parts or any(part is None for part in parts):
            return None
        return [seconds for part in parts for seconds in part or ()]

    @cached_property
    def warnings(self) -> tuple[ResultWarning, ...]:
        """Warnings about this result; empty for a good one.

        `has_warnings` is torch's and checks the interquartile range only.
        """
        return (
            *find_warnings(self._samples()),
            *find_interval_warnings(self.median, self.median_interval),
            *self._sampling_warnings(),
        )

    def _sampling_warnings(self) -> tuple[ResultWarning, ...]:
        """One warning of each kind, from this measurement or the merged ones."""
        if self.sampling is not None:
            return find_sampling_warnings(self.sampling)
        found = [each for part in self.replicates for each in part._sampling_warnings()]  # noqa: SLF001
        return tuple({each.kind: each for each in reversed(found)}.values())

    @property
    def significant_figures(self) -> int:
        """The number of significant digits of the median: 1 to 4, by torch's estimate."""
        points = self._middle_half()
        error = Z_90 * std_single(points) / single(math.sqrt(len(points)))
        ratio = self.median / max(error, SURELY_NOISE)
        figures = math.floor(log10_single(ratio)) if single(ratio) > 0 else 1
        return min(max(figures, 1), MOST_FIGURES)

    def _lazy_init(self) -> None:
        """Check that there are samples; scripts call it because torch prepares statistics here."""
        self._samples()

    def _unit(self) -> tuple[str, float]:
        return select_unit(self.median)

    def _summary_lines(self) -> list[str]:
        """torch's lines, and the interval of samples that `measure` took."""
        lines = super()._summary_lines()
        if self.sampling is not None and len(self.raw_times) >= FEWEST_SAMPLES:
            unit, scale = self._unit()
            low, high = (bound / scale for bound in self.median_interval)
            lines.append(f"  95% CI: {low:.3f} to {high:.3f} {unit} for the median")
        return lines

    def _warning_lines(self) -> list[str]:
        named = () if self.sampling is None else self.warnings
        return [*self._warnings(), *(f"  WARNING: {warning}" for warning in named)]

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, merged from all its replicates.

        `raw_times` are converted to seconds of one run. `replicates` has the originals.
        """
        by_task = collect((each.task_spec, each) for each in measurements)
        return [
            Measurement(
                number_per_run=1,
                raw_times=[time for replicate in group for time in replicate.times],
                task_spec=task_spec,
                replicates=tuple(group),
            )
            for task_spec, group in by_task.items()
        ]

    def to_json(self) -> str:
        """JSON text that `from_json` reads without loss."""
        from torchmark.model.codec import encode_measurement  # noqa: PLC0415 - it imports this

        return encode_measurement(self)

    @classmethod
    def from_json(cls, text: str | bytes) -> Measurement:
        """Read JSON text of `to_json`; a `MeasurementFileError` if it is not a measurement."""
        from torchmark.model.codec import decode_measurement  # noqa: PLC0415 - it imports this

        return decode_measurement(text)

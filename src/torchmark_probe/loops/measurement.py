"""What a Timer returns: the times of a statement, with the statistics that scripts read.

Names, meaning and text are those of `torch.utils.benchmark.Measurement`. The `Compare` of an old
torch accepts these measurements, and `torchmark.model.measurement` extends them.
"""

import math
import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Dict, Iterable, List, Optional, Tuple

from .intervals import quantile_of_sorted

IQR_DOUBTFUL = 0.1
_IQR_GROSS = 0.25
"""Shares of the median; torch warns above the first, and more strongly above the second."""

MOST_FIGURES = 4
SURELY_NOISE = 25e-9
"""Seconds; torch does not trust an estimated error below the cost of reading a clock."""

Z_90 = 1.645
"""Half width of the interval around a mean, in standard errors, with 90 % of a normal
distribution."""

_UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """Everything that defines a Timer except its globals; equal specs are replicates."""

    stmt: str
    """The statement that is measured."""

    setup: str
    """Code that runs before the loop."""

    global_setup: str = ""
    """C++ only: code at the top of the file."""

    label: Optional[str] = None
    """The table of the result."""

    sub_label: Optional[str] = None
    """The row; the statement itself if it is missing."""

    description: Optional[str] = None
    """The column: usually the inputs."""

    env: Optional[str] = None
    """The environment, such as a branch of torch."""

    num_threads: int = 1
    """Threads that torch may use."""

    @property
    def title(self) -> str:
        """One line for the measurement, or several if only the statement can name it.

        >>> TaskSpec("x + y", "pass", sub_label="float").title
        'x + y: float'
        """
        if self.label is None and "\n" in self.stmt:
            row = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{row}\n" + textwrap.indent(self.stmt, "  ")
        name = self.stmt if self.label is None else self.label
        return f"{name}: {self.sub_label}" if self.sub_label else name

    def setup_str(self) -> str:
        if self.setup in ("", "pass"):
            return ""
        if "\n" in self.setup:
            return "setup:\n" + textwrap.indent(self.setup, "  ")
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return the lines that describe the task above a result."""
        sections = (self.title, self.description or "", self.setup_str())
        return "\n".join(text + "\n" if "\n" in text else text for text in sections if text)

    def __repr__(self) -> str:
        return f"<TaskSpec {self.title!r}>"


@dataclass(repr=False)
class Measurement:
    """One or more timings of a statement, `number_per_run` executions each."""

    number_per_run: int
    """How many times the statement ran in each of the raw times."""

    raw_times: List[float]
    """Seconds for `number_per_run` executions."""

    task_spec: TaskSpec
    metadata: Optional[Dict[Any, Any]] = None
    """For the user; torchmark never reads it."""

    _empty_error = ValueError

    @property
    def times(self) -> List[float]:
        """Seconds for one execution, for every counted sample."""
        return [time / self.number_per_run for time in self.raw_times]

    def _samples(self) -> List[float]:
        if not self.raw_times:
            raise self._empty_error(
                f"the measurement of {self.task_spec.title!r} has no times, so no statistics"
            )
        return self.times

    @cached_property
    def _ordered(self) -> Tuple[float, ...]:
        return tuple(sorted(self._samples()))

    @property
    def median(self) -> float:
        return quantile_of_sorted(self._ordered, 0.5)

    @property
    def mean(self) -> float:
        return math.fsum(self._ordered) / len(self._ordered)

    @property
    def iqr(self) -> float:
        """The interquartile range of the samples."""
        return quantile_of_sorted(self._ordered, 0.75) - quantile_of_sorted(self._ordered, 0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median are significant: 1 to 4, by torch's estimate."""
        middle = self._middle_half()
        mean = math.fsum(middle) / len(middle)
        variance = math.fsum((time - mean) ** 2 for time in middle) / len(middle)
        ratio = self.median / max(Z_90 * math.sqrt(variance / len(middle)), SURELY_NOISE)
        figures = math.floor(math.log10(ratio)) if ratio > 0 else 1
        return min(max(figures, 1), MOST_FIGURES)

    def _middle_half(self) -> Tuple[float, ...]:
        ordered = self._ordered
        return ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]

    def meets_confidence(self, threshold: float = IQR_DOUBTFUL) -> bool:
        """Whether the interquartile range is below this share of the median."""
        if self.median == 0:
            return self.iqr == 0
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        return bool(self._warnings())

    def _warnings(self) -> List[str]:
        if self.meets_confidence(IQR_DOUBTFUL):
            return []
        share = f"{self.iqr / self.median * 100:.1f}%" if self.median else "more than 100%"
        cause = (
            "This could indicate system fluctuation."
            if self.meets_confidence(_IQR_GROSS)
            else "This suggests significant environmental influence."
        )
        headline = f"  WARNING: Interquartile range is {share} of the median measurement."
        return [f"{headline}\n           {cause}"]

    # The fields of the task, under the names that scripts use.

    @property
    def stmt(self) -> str:
        return self.task_spec.stmt

    @property
    def setup(self) -> str:
        return self.task_spec.setup

    @property
    def global_setup(self) -> str:
        return self.task_spec.global_setup

    @property
    def label(self) -> Optional[str]:
        return self.task_spec.label

    @property
    def sub_label(self) -> Optional[str]:
        return self.task_spec.sub_label

    @property
    def description(self) -> Optional[str]:
        return self.task_spec.description

    @property
    def num_threads(self) -> int:
        return self.task_spec.num_threads

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        lines = [object.__repr__(self), self.task_spec.summarize()]
        count = len(self.raw_times)
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        if not count:
            return "\n".join([*lines, f"  no measurements, {threads}"])
        lines += self._summary_lines()
        per_run = "per measurement," if count > 1 else ","
        plural = "s" if count > 1 else ""
        lines.append(
            f"  {count} measurement{plural}, {self.number_per_run} runs {per_run} {threads}"
        )
        lines += self._warning_lines()
        return "\n".join("\n".join(lines).strip().splitlines())

    def _summary_lines(self) -> List[str]:
        unit, scale = self._unit()
        count = len(self.raw_times)
        lines = [f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}"]
        if count >= 4:
            quartiles = (quantile_of_sorted(self._ordered, share) for share in (0.25, 0.75))
            low, high = (quartile / scale for quartile in quartiles)
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        return lines

    def _unit(self) -> Tuple[str, float]:
        return next((pair for pair in _UNITS if self.median >= pair[1]), _UNITS[-1])

    def _warning_lines(self) -> List[str]:
        return self._warnings()

    @staticmethod
    def merge(measurements: Iterable[Any]) -> List[Any]:
        """Merge the replicates of each task into one measurement, as times of one execution."""
        times: Dict[TaskSpec, List[float]] = {}
        for measurement in measurements:
            times.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, merged, task_spec) for task_spec, merged in times.items()]

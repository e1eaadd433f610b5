"""What a Timer in an old environment returns: the times, and the statistics that scripts read.

Names and meaning are those of `torch.utils.benchmark.Measurement`. A task has all that an old
torch's own `Compare` asks of one, so that a table can be made of these times there.
"""

import math
import textwrap
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ..loops.intervals import quantile_of_sorted

_IQR_DOUBTFUL = 0.1
_IQR_GROSS = 0.25
"""Shares of the median; torch warns from the first on, and more loudly from the second."""

_MOST_FIGURES = 4
_SURELY_NOISE = 25e-9
"""Seconds; torch trusts no estimate of an error below the cost of reading a clock."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """Everything that defines a Timer but its globals; equal specs are replicates."""

    stmt: str
    """The statement that is run in a loop."""

    setup: str
    """What runs before the loop."""

    global_setup: str = ""
    """Of C++ statements, which are not timed here; kept as it was given."""

    label: Optional[str] = None
    """The table that a result belongs to."""

    sub_label: Optional[str] = None
    """The row; the statement itself where it is missing."""

    description: Optional[str] = None
    """The column: usually the inputs."""

    env: Optional[str] = None
    """The environment of torch, such as a branch."""

    num_threads: int = 1
    """Threads that torch may use."""

    @property
    def title(self) -> str:
        """One line for the measurement, or more if only the statement can name it."""
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
        """The lines that describe the task where a result is printed."""
        sections = (self.title, self.description or "", self.setup_str())
        return "\n".join(text + "\n" if "\n" in text else text for text in sections if text)

    def __repr__(self) -> str:
        return f"<TaskSpec {self.title!r}>"


@dataclass(repr=False)
class Measurement:
    """One or more timings of a statement, `number_per_run` executions each."""

    number_per_run: int
    """How often the statement ran in each of the raw times."""

    raw_times: List[float]
    """Seconds for `number_per_run` executions."""

    task_spec: TaskSpec
    """What was measured."""

    metadata: Optional[Dict[Any, Any]] = None
    """The script's own; nothing here reads it."""

    @property
    def times(self) -> List[float]:
        """Seconds for one execution."""
        return [time / self.number_per_run for time in self.raw_times]

    @property
    def median(self) -> float:
        return quantile_of_sorted(self._ordered(), 0.5)

    @property
    def mean(self) -> float:
        ordered = self._ordered()
        return math.fsum(ordered) / len(ordered)

    @property
    def iqr(self) -> float:
        """The width of the middle half of the times."""
        low, high = self._quartiles()
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the median carry information: 1 to 4, by torch's estimate."""
        ordered = self._ordered()
        middle = ordered[len(ordered) // 4 : math.ceil(3 * len(ordered) / 4)]
        mean = math.fsum(middle) / len(middle)
        variance = math.fsum((time - mean) ** 2 for time in middle) / len(middle)
        error = 1.645 * math.sqrt(variance / len(middle))  # 90 % of a normal distribution
        ratio = self.median / max(error, _SURELY_NOISE)
        figures = math.floor(math.log10(ratio)) if ratio > 0 else 1
        return min(max(figures, 1), _MOST_FIGURES)

    def meets_confidence(self, threshold: float = _IQR_DOUBTFUL) -> bool:
        """Whether the interquartile range is below this share of the median."""
        median, iqr = self.median, self.iqr
        return iqr / median < threshold if median else iqr == 0

    @property
    def has_warnings(self) -> bool:
        return bool(self._warnings())

    # The fields of the task, by the names under which scripts read them here.

    stmt = property(attrgetter("task_spec.stmt"))
    setup = property(attrgetter("task_spec.setup"))
    global_setup = property(attrgetter("task_spec.global_setup"))
    label = property(attrgetter("task_spec.label"))
    sub_label = property(attrgetter("task_spec.sub_label"))
    description = property(attrgetter("task_spec.description"))
    num_threads = property(attrgetter("task_spec.num_threads"))
    title = property(attrgetter("task_spec.title"))

    @property
    def env(self) -> str:
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable["Measurement"]) -> List["Measurement"]:
        """One measurement for each task, of all its replicates, as times of one execution."""
        times: Dict[TaskSpec, List[float]] = {}
        for measurement in measurements:
            times.setdefault(measurement.task_spec, []).extend(measurement.times)
        return [Measurement(1, merged, task_spec) for task_spec, merged in times.items()]

    def __repr__(self) -> str:
        lines = [object.__repr__(self), self.task_spec.summarize()]
        count = len(self.raw_times)
        threads = f"{self.num_threads} thread" + ("s" if self.num_threads > 1 else "")
        if count == 0:
            return "\n".join([*lines, "  no measurements, " + threads])
        lines += self._statistics()
        runs = f"{self.number_per_run} runs"
        each = f"s, {runs} per measurement" if count > 1 else f", {runs}"
        lines.append(f"  {count} measurement{each}, {threads}")
        return "\n".join(lines + self._warnings())

    def _statistics(self) -> List[str]:
        median = self.median
        scale, unit = next((pair for pair in _UNITS if median >= pair[0]), _UNITS[-1])
        name = "Median: " if len(self.raw_times) > 1 else ""
        lines = [f"  {name}{median / scale:.2f} {unit}"]
        if len(self.raw_times) >= 4:
            low, high = (bound / scale for bound in self._quartiles())
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        return lines

    def _warnings(self) -> List[str]:
        if self.meets_confidence(_IQR_DOUBTFUL):
            return []
        cause = "may be" if self.meets_confidence(_IQR_GROSS) else "is probably"
        share = f"{100 * self.iqr / self.median:.1f}%" if self.median else "over 100%"
        return [
            f"  WARNING: Interquartile range is {share} of the median.",
            f"           Something else {cause} using the machine.",
        ]

    def _ordered(self) -> List[float]:
        if not self.raw_times:
            raise ValueError(f"the measurement of {self.title!r} has no times, so no statistics")
        return sorted(self.times)

    def _quartiles(self) -> Tuple[float, float]:
        ordered = self._ordered()
        return quantile_of_sorted(ordered, 0.25), quantile_of_sorted(ordered, 0.75)

"""Compare: the front door for many measurements."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torchmark.errors import InvalidArgumentError
from torchmark.model.case import TaskSpec
from torchmark.model.measurement import Measurement
from torchmark.report import compare_text, render_view
from torchmark.report.compare_table import Baseline, Table, tables_of
from torchmark.report.compare_text import Colorize, TextStyle
from torchmark.report.formats.json import render_figures
from torchmark.report.formats.markdown import render_table
from torchmark.report.views.measurements import make_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchmark.report.view import View

__all__ = ["Colorize", "Compare"]

_FIELDS = fields(TaskSpec)


class Compare:
    """Shows measurements side by side, one table for each label.

    >>> from torchmark import Measurement, TaskSpec
    >>> spec = TaskSpec("x + y", "pass", label="add", description="4x4")
    >>> print(Compare([Measurement(1, [2e-6, 3e-6, 4e-6], spec)]).to_markdown())
    | add   | 4x4 (us) |
    |-------|---------:|
    | x + y |    3 (!) |
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._style = TextStyle()
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add results to those that are shown."""
        self._results.extend([_as_measurement(result) for result in results])

    def trim_significant_figures(self) -> None:
        """Show only the figures that carry information."""
        self._style.trim_significant_figures = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the text form by column, or by row."""
        self._style.colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark results of high variance in the text form."""
        self._style.highlight_warnings = True

    def relative_to(self, row: str, env: str | None = None) -> None:
        """Show every cell as a ratio to the row of this name in the same column and threads.

        Without `env` a cell is compared within its own environment where that has such a row.
        """
        self._style.baseline = Baseline(row=row, env=env)

    def print(self) -> None:
        """Print the text form."""
        print(str(self))  # noqa: T201 - torch's method, and its purpose

    def __str__(self) -> str:
        return "\n".join(compare_text.render(table, self._style) for table in self._tables())

    def to_markdown(self) -> str:
        """The tables alone, one for each label."""
        tables = [each.table for each in self._view().sections if each.table is not None]
        return "\n\n".join(map(render_table, tables))

    def to_csv(self) -> str:
        """A line for each cell, times in seconds."""
        return render_view(self._view(), "csv")

    def to_html(self) -> str:
        """One page with everything inside it."""
        return render_view(self._view(), "html")

    def to_json(self) -> str:
        """An object for each cell, times in seconds."""
        baseline = self._style.baseline
        row = {"row": baseline.row, "env": baseline.env} if baseline else None
        return render_figures(
            self._view(), {"torchmark": "comparison", "version": 2, "baseline": row}
        )

    def _view(self) -> View:
        return make_view(self._tables(), self._style.baseline)

    def _tables(self) -> list[Table]:
        return tables_of(self._results)


def _as_measurement(result: Any) -> Measurement:
    """A result of torchmark, or one of `torch.utils.benchmark`, which has the same fields."""
    if isinstance(result, Measurement):
        return result
    try:
        spec = TaskSpec(**{field.name: getattr(result.task_spec, field.name) for field in _FIELDS})
        return Measurement(result.number_per_run, list(result.raw_times), spec, result.metadata)
    except (AttributeError, TypeError):
        raise InvalidArgumentError(
            f"Compare shows measurements, got {type(result).__name__}"
        ) from None

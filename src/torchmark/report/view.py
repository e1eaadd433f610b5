"""The contents of a report as pure data; every format renders the same view.

A module in `report/views` makes the view of a `Run`, and a module in `report/formats` renders it.
Views do not depend on formats, and renderers do not depend on kinds of runs. Values are raw
(seconds, counts, ratios as numbers); the kind of a column decides how they are shown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

PALETTE = tuple(f"var(--plot-{number})" for number in range(1, 9))
"""The colours of series in a page."""


class Kind(enum.Enum):
    """The kind of values in a column, which decides how they are shown, aligned and sorted."""

    TEXT = "text"
    CODE = "code"
    NAME = "name"
    """Short text that pages do not wrap: a date, the id of a run."""

    SECONDS = "seconds"
    INTEGER = "integer"
    NUMBER = "number"
    INSTRUCTIONS = "instructions"
    RATIO = "ratio"
    """B over A; its interval is shown in brackets."""

    SPEEDUP = "speed-up"
    """How many times faster: `1.25×`."""

    SHARE = "share"
    """A part of a whole: 0.25 is 25 %."""

    CHANGE = "change"
    """A share with a sign: +0.012 is +1.2 %."""

    BYTES = "bytes"
    FLOPS = "flops"
    RATE = "rate"
    """Something per second; the column has its name."""

    VERDICT = "verdict"
    """A word whose colour depends on its mark: slower, faster, same, unclear, failed, …"""


class Mark(enum.Enum):
    """How a value is marked: by a colour, or by a word in formats without colours."""

    PLAIN = ""
    GOOD = "good"
    BAD = "bad"
    DOUBTFUL = "doubtful"
    QUIET = "quiet"


Value: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    """The heading; also the column's name in CSV and JSON."""

    kind: Kind = Kind.TEXT
    hint: str = ""
    """A sentence that explains the column."""

    is_wide_only: bool = False
    """Whether text for a terminal omits it; pages, Markdown, CSV and JSON have it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a table."""

    value: Value = None
    """The value in CSV and JSON, and the key for sorting; None is an empty cell."""

    text: str | None = None
    """Shown instead of the formatted value."""

    interval: tuple[float, float] | None = None
    """The 95 % interval of the value, in its unit; pages draw it, text shows it."""

    mark: Mark = Mark.PLAIN
    hint: str = ""
    """More about this value: a tooltip in a page, omitted elsewhere."""

    link: str = ""
    """The ID of a section or row with more information."""

    href: str = ""
    """The address of another page, for pages of a site; other formats ignore it."""

    svg: str = ""
    """A small drawing of our own, shown in pages instead of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """Details below a row, folded in pages: code, lines or a table."""

    title: str = ""
    code: str = ""
    lines: tuple[str, ...] = ()
    table: Table | None = None
    is_page_only: bool = False
    """Whether text and Markdown omit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table, with its cells in the order of the columns."""

    cells: tuple[Cell, ...] = ()
    group: str = ""
    """The heading of consecutive rows with the same group."""

    depth: int = 0
    """Indentation of the first cell, for rows that are parts of other rows."""

    is_quiet: bool = False
    """Whether text and Markdown may count such rows instead of showing them, if there are many."""

    details: tuple[Detail, ...] = ()
    id: str = ""
    """The target of links; empty if nothing links to the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with typed columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    quiet_text: str = ""
    """Shown instead of the quiet rows if they are omitted: "31 cases are the same"."""

    most_rows: int | None = None
    """Maximum number of rows in text; pages, Markdown, CSV and JSON have all."""

    where_all: str = "see --html or --json"
    """Where a reader of text finds the rows beyond `most_rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart, as a Vega-Lite specification.

    The data are at the top (`{"data": {"values": [...]}, ...}`). The nominal field that `color`
    encodes has the names of the series, which readers can hide. Colours are those of the page,
    which has a light and a dark theme: `var(--plot-1)` to `var(--plot-8)` (the default range of
    `color`), `var(--good)`, `var(--bad)`, `var(--doubt)`, `var(--quiet)`, `var(--ink)`. Small
    multiples are a `concat`; the page decides how many of them fit in a row.
    """

    id: str
    title: str
    description: str
    """A description for readers who cannot see the chart."""

    spec: Mapping[str, Any]
    """The specification without width, theme and schema, which the renderer adds."""

    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A finished drawing, such as a flame graph."""

    name: str
    """The name of its file, without the extension."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under its own heading."""

    id: str
    title: str
    paragraphs: tuple[str, ...] = ()
    """Text above the table."""

    chart: Chart | None = None
    table: Table | None = None
    listing: tuple[str, ...] = ()
    """Sentences, one per line, such as failures or skips."""

    pictures: tuple[Picture, ...] = ()
    footnotes: tuple[str, ...] = ()
    """Text below the table that explains its words."""

    mark: Mark = Mark.PLAIN
    is_folded: bool = False
    """Whether a page shows it folded."""

    is_page_only: bool = False
    """Whether text and Markdown omit it."""

    @property
    def has_content(self) -> bool:
        return bool(self.paragraphs or self.chart or self.table or self.listing or self.pictures)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTable:
    """Facts of one or several environments."""

    names: tuple[str, ...]
    """The names of the environments."""

    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """The name of each fact, and its value in each environment."""

    @property
    def differing(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(fact for fact in self.facts if len(set(fact[1])) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A whole report."""

    title: str
    summary: str
    """The result in one sentence: first in a page, last in a terminal."""

    lead: tuple[str, ...] = ()
    """Lines below the title: which run, when, where."""

    warnings: tuple[str, ...] = ()
    """Warnings about results, in sentences."""

    notes: tuple[str, ...] = ()
    """Sentences that a reader should know before the figures."""

    sections: tuple[Section, ...] = ()
    """The sections; those without content are dropped."""

    search: str = ""
    """The name of a field that filters all tables of a page; empty if each has its own filter."""

    environments: FactTable | None = None
    """Shown in pages and Markdown only; text has the lead."""

    settings: tuple[tuple[str, str], ...] = ()
    """The options that affect results, by name; shown in pages and Markdown only."""

    data: Table
    """A row for each result with all figures, for CSV and JSON. It uses only the values of cells;
    the ends of an interval are separate columns."""

    def __post_init__(self) -> None:
        kept = tuple(section for section in self.sections if section.has_content)
        object.__setattr__(self, "sections", kept)


T = TypeVar("T")

Field: TypeAlias = tuple[Column, Callable[[T], Cell | Value]]
"""A column, and the function that gives its cell for each thing in the table."""


def field(
    name: str,
    show: Callable[[T], Cell | Value],
    kind: Kind = Kind.TEXT,
    hint: str = "",
    *,
    is_wide_only: bool = False,
) -> Field[T]:
    return Column(name, kind, hint, is_wide_only), show


def cells_of(values: Iterable[Cell | Value]) -> tuple[Cell, ...]:
    """Convert plain values to cells."""
    return tuple(value if isinstance(value, Cell) else Cell(value) for value in values)


def make_table(
    things: Iterable[T],
    fields: Sequence[Field[T]],
    frame: Callable[[T], Row] = lambda _: Row(),
    **more: Any,
) -> Table:
    """A table with a row for each thing.

    `frame` makes a row without its cells; `more` are other fields of the table.
    """
    rows = [
        replace(frame(each), cells=cells_of(show(each) for _, show in fields)) for each in things
    ]
    return Table(columns=tuple(column for column, _ in fields), rows=tuple(rows), **more)


def data_table(names: Sequence[str], results: Iterable[Mapping[str, Value]]) -> Table:
    """A table of plain values with a row for each result; missing names are empty cells."""
    rows = [Row(cells=cells_of(values.get(name) for name in names)) for values in results]
    return Table(columns=tuple(map(Column, names)), rows=tuple(rows))

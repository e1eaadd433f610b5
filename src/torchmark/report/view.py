"""What a report says, as pure data: every format renders the same view.

A view is made from a `Run` by the module of its kind in `report/views`, and turned into text by one
renderer per format in `report/formats`. Views know no format, renderers know no kind of run. Values
are raw (seconds, counts, ratios as numbers); the kind of their column says how they are shown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

PALETTE = tuple(f"var(--plot-{number})" for number in range(1, 9))
"""The colours of a page that tell series apart."""


class Kind(enum.Enum):
    """What the values of a column are, and so how they are shown, aligned and sorted."""

    TEXT = "text"
    CODE = "code"
    SECONDS = "seconds"
    INTEGER = "integer"
    NUMBER = "number"
    INSTRUCTIONS = "instructions"
    RATIO = "ratio"
    """B over A; an interval stands behind it in brackets."""

    SPEEDUP = "speed-up"
    """How many times faster: `1.25×`."""

    SHARE = "share"
    """A part of a whole: 0.25 is 25 %."""

    CHANGE = "change"
    """A share with its sign: +0.012 is +1.2 %."""

    BYTES = "bytes"
    FLOPS = "flops"
    RATE = "rate"
    """Per second; the name of the column says of what."""

    VERDICT = "verdict"
    """A word that a mark colours: slower, faster, same, unclear, failed, …"""


class Mark(enum.Enum):
    """How a value is set off: a colour and, where colours are missing, its own word."""

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
    """What it means, in a sentence."""

    is_wide_only: bool = False
    """Whether text for a terminal leaves it out; pages, Markdown, CSV and JSON have it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a table."""

    value: Value = None
    """As CSV and JSON have it and tables are sorted by it; None is an empty cell."""

    text: str | None = None
    """Shown in place of what the column's kind makes of the value."""

    interval: tuple[float, float] | None = None
    """The 95 % interval of the value, in its unit; pages draw it, text shows it."""

    mark: Mark = Mark.PLAIN
    hint: str = ""
    """More about this value: a tooltip in a page, left out elsewhere."""

    link: str = ""
    """The id of the section or row that says more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What unfolds below a row: code, lines or a table of its own."""

    title: str = ""
    code: str = ""
    lines: tuple[str, ...] = ()
    table: Table | None = None
    is_page_only: bool = False
    """Whether only pages have it; text and Markdown then leave it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a table: its cells in the order of the columns."""

    cells: tuple[Cell, ...] = ()
    group: str = ""
    """The heading under which neighbouring rows stand together."""

    depth: int = 0
    """How far the first cell is indented: rows that are parts of others."""

    is_quiet: bool = False
    """Whether text and Markdown may count it instead of showing it, where there are many."""

    details: tuple[Detail, ...] = ()
    id: str = ""
    """What links name; empty where nothing links here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under typed columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    quiet_text: str = ""
    """Stands for the quiet rows where they are not shown: "31 cases are the same"."""

    most_rows: int | None = None
    """Rows that text shows; pages, Markdown, CSV and JSON have all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture of figures, as a Vega-Lite specification.

    Its data stand at the top (`{"data": {"values": [...]}, ...}`). The nominal field that `color`
    encodes names the series: readers switch them on and off. Colours are those of the page, which
    has a light and a dark form: `var(--plot-1)` to `var(--plot-8)` (the range of `color` where the
    specification gives none), `var(--good)`, `var(--bad)`, `var(--doubt)`, `var(--quiet)`,
    `var(--ink)`. Small multiples are a `concat`; the page says how many of them fit in a row.
    """

    id: str
    title: str
    description: str
    """What can be seen in it, for those who cannot see it."""

    spec: Mapping[str, Any]
    """Without width, theme and schema, which are set where it is drawn."""

    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing that is finished, such as a flame graph."""

    name: str
    """What its file is called, without an ending."""

    title: str
    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report under its own heading."""

    id: str
    title: str
    paragraphs: tuple[str, ...] = ()
    """What stands before the table."""

    chart: Chart | None = None
    table: Table | None = None
    listing: tuple[str, ...] = ()
    """Sentences, one a line: what failed, what was skipped."""

    pictures: tuple[Picture, ...] = ()
    footnotes: tuple[str, ...] = ()
    """What words in the table mean, and how it was judged."""

    mark: Mark = Mark.PLAIN
    is_folded: bool = False
    """Whether a page shows it only when asked."""

    is_page_only: bool = False
    """Whether only pages have it."""

    @property
    def has_content(self) -> bool:
        return bool(self.paragraphs or self.chart or self.table or self.listing or self.pictures)


@dataclass(frozen=True, slots=True, kw_only=True)
class FactTable:
    """Facts of one environment, or of several beside each other."""

    names: tuple[str, ...]
    """Of the environments."""

    facts: tuple[tuple[str, tuple[str, ...]], ...]
    """The name of each fact, and its value in every environment."""

    @property
    def differing(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(fact for fact in self.facts if len(set(fact[1])) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A whole report."""

    title: str
    summary: str
    """All of it in one sentence: first in a page, last in a terminal."""

    lead: tuple[str, ...] = ()
    """Lines below the title: which run, when, where."""

    warnings: tuple[str, ...] = ()
    """What makes results doubtful, in sentences."""

    notes: tuple[str, ...] = ()
    """What a reader should know before the figures, in sentences."""

    sections: tuple[Section, ...] = ()
    """Those without content are left out."""

    environments: FactTable | None = None
    """Pages and Markdown have them; text has what the lead says."""

    settings: tuple[tuple[str, str], ...] = ()
    """The options that change results, by name; left out of text like the environments."""

    data: Table
    """A row for each result with every figure: what CSV holds, and JSON beside the record.
    Only values count here; the ends of an interval are columns of their own."""

    def __post_init__(self) -> None:
        kept = tuple(section for section in self.sections if section.has_content)
        object.__setattr__(self, "sections", kept)


T = TypeVar("T")

Field: TypeAlias = tuple[Column, Callable[[T], Cell | Value]]
"""A column of a table of things, and what it shows of each of them."""


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
    """Plain values become plain cells."""
    return tuple(value if isinstance(value, Cell) else Cell(value) for value in values)


def make_table(
    things: Iterable[T],
    fields: Sequence[Field[T]],
    frame: Callable[[T], Row] = lambda _: Row(),
    **more: Any,
) -> Table:
    """A row for each thing; `frame` makes it without its cells, `more` is what else a table has."""
    rows = [
        replace(frame(each), cells=cells_of(show(each) for _, show in fields)) for each in things
    ]
    return Table(columns=tuple(column for column, _ in fields), rows=tuple(rows), **more)


def data_table(names: Sequence[str], results: Iterable[Mapping[str, Value]]) -> Table:
    """A table of plain values: a row for each result, empty where it lacks a name."""
    rows = [Row(cells=cells_of(values.get(name) for name in names)) for values in results]
    return Table(columns=tuple(map(Column, names)), rows=tuple(rows))

"""A view as plain text."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tests.report import made_up_views
from torchmark.report.formats import text
from torchmark.report.formats.text import lay_out, wrap_all
from torchmark.report.view import Cell, Column, Kind, Mark, Row, Section, Table, Value

WHOLE = """\
B compared with A
Run 20261115-221530-a1b2c3, finished
torch 2.13.0, Fast One, 2 cores

NOTE B has another compiler.

Times
Pointwise                               A          ratio [95 %]  verdict
  add of two tensors,    1.200 us ± 2.0 %  1.019 [1.015, 1.024]  slower
    broadcast along
    dimension 0
      Functions behind the change
      instructions  function
             1,204  at::native::add_kernel(at::TensorIteratorBase&)xxxx…
               -12  c10::intrusive_ptr
  mul 0                  10.00 us ± 2.0 %  1.001 [0.997, 1.006]  same
  mul 1                  9.000 us ± 2.0 %  1.001 [0.997, 1.006]  same
Reductions                              A          ratio [95 %]  verdict
  sum                    2.500 ms ± 2.0 %  1.250 [1.246, 1.255]  slower
      Functions behind the change
      instructions  function
             1,204  at::native::add_kernel(at::TensorIteratorBase&)xxxx…
               -12  c10::intrusive_ptr
  median                                   1.000 [0.996, 1.005]  same
replicate: a fresh launch of both environments.

Failed
  eig (time): does not compile:
      'y' was not declared

WARNING noise of one A/A replicate: 2.3 %; small changes may be missed.

B is slower in 2 of 5 cases (worst: sum, +25.0 %), same in 3; 1 failed.
"""


def test_a_whole_view() -> None:
    assert text.render(made_up_views.view(), width=72) == WHOLE


def test_no_line_is_wider_than_asked_for() -> None:
    for width in (60, 66, 72, 80, 120):
        lines = text.render(made_up_views.view(), width=width).splitlines()
        assert max(map(len, lines)) <= width
        assert any("1.250 [1.246, 1.255]" in line for line in lines)  # figures are never broken


def test_names_stand_above_figures_that_leave_no_room_for_them() -> None:
    rendered = text.render(made_up_views.view(), width=64)
    lines = [" ".join(line.split()) for line in rendered.splitlines()]
    at = lines.index("add of two tensors, broadcast along dimension 0")
    assert lines[at + 1] == "1.200 us ± 2.0 % 1.019 [1.015, 1.024] slower"
    assert "sum 2.500 ms ± 2.0 % 1.250 [1.246, 1.255] slower" in lines, "a short name has room"


def test_many_quiet_rows_are_counted_unless_there_are_no_others() -> None:
    rendered = text.render(made_up_views.view(quiet=30))
    assert "  31 cases are the same\n" in rendered
    assert "mul" not in rendered
    assert "cases are the same" not in text.render(made_up_views.view(quiet=11))
    table = made_up_views.table(quiet=30)
    quiet = dataclasses.replace(table, rows=tuple(row for row in table.rows if row.is_quiet))
    view = made_up_views.view(sections=(Section(id="times", title="Times", table=quiet),))
    assert "mul 29" in text.render(view)


def test_rows_beyond_the_most_are_counted() -> None:
    table = made_up_views.table(most_rows=2)
    view = made_up_views.view(sections=(Section(id="times", title="Times", table=table),))
    rendered = text.render(view)
    assert "mul 0" in rendered
    assert "mul 1" not in rendered
    assert "  … 3 more: see --html or --json\n" in rendered


def test_sections_and_details_for_pages_are_left_out() -> None:
    rendered = text.render(made_up_views.view())
    assert "Charts" not in rendered
    assert "torch.add(x, y)" not in rendered
    assert "replicates" not in rendered  # a column for wide formats


def test_a_number_stays_on_the_line_of_its_unit() -> None:
    for unit in ("%", "us", "ms", "s", "GB"):
        for width in range(10, 30):
            lines = text.wrap_all([f"it is slower by 12.5 {unit} than it was"], width)
            assert any(f"12.5 {unit}" in line for line in lines)


def test_text_from_elsewhere_cannot_move_the_cursor() -> None:
    assert "\x1b" not in text.render(made_up_views.hostile_view())


def test_every_kind_of_column_shows_its_values() -> None:
    shown: dict[Kind, tuple[Value, str]] = {
        Kind.TEXT: ("plain", "plain"),
        Kind.NAME: ("a name", "a name"),
        Kind.SECONDS: (-2e-9, "-2.000 ns"),
        Kind.INTEGER: (12345, "12,345"),
        Kind.NUMBER: (0.123456, "0.1235"),
        Kind.INSTRUCTIONS: (1234.5, "1,234.5"),
        Kind.RATIO: (1.0191, "1.019"),
        Kind.SPEEDUP: (1.25, "1.25×"),
        Kind.SHARE: (0.25, "25.0 %"),
        Kind.CHANGE: (-0.012, "-1.2 %"),
        Kind.BYTES: (2_500_000, "2.50 M"),
        Kind.FLOPS: (7e9, "7.00 G"),
        Kind.RATE: (float("inf"), "inf"),
        Kind.VERDICT: ("faster", "faster"),
        Kind.CODE: (True, "yes"),
    }
    assert set(shown) == set(Kind)
    for kind, (value, expected) in shown.items():
        table = Table(
            columns=(Column(name="case"), Column(name="x", kind=kind)),
            rows=(Row(cells=(Cell(value="it"), Cell(value=value)), depth=1),),
        )
        view = made_up_views.view(sections=(Section(id="x", title="X", table=table),))
        line = next(each for each in text.render(view).splitlines() if "    it" in each)
        assert line == f"    it  {expected}"


def test_a_doubtful_figure_has_a_mark() -> None:
    cell = Cell(value=1e-6, mark=Mark.DOUBTFUL)
    table = Table(
        columns=(Column(name="case"), Column(name="time", kind=Kind.SECONDS)),
        rows=(Row(cells=(Cell(value="add"), cell)),),
    )
    view = made_up_views.view(sections=(Section(id="x", title="X", table=table),))
    assert "1.000 us (!)" in text.render(view)


@given(st.lists(st.text(max_size=50), max_size=4), st.integers(8, 60))
def test_wrapped_text_keeps_to_its_width(texts: list[str], width: int) -> None:
    assert all(len(line) <= width for line in wrap_all(texts, width) if line.strip())


@given(
    st.lists(
        st.tuples(st.text("abc ", min_size=1, max_size=90), st.text("0123456789", max_size=9))
    ),
    st.integers(34, 90),
)
def test_a_table_keeps_to_its_width(rows: list[tuple[str, str]], width: int) -> None:
    layout = lay_out([["case", "time"], *rows], [False, True], width)
    for name, figure in rows:
        lines = layout.lines([name, figure])
        assert max(map(len, lines)) <= width
        assert lines[0].endswith(figure)

"""The results of a view as CSV and JSON: what is written is what can be read back."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests import records
from tests.report import made_up_views
from torchmark import report
from torchmark.model.codec import decode_run
from torchmark.report.formats.data import render_csv, render_json
from torchmark.report.view import Column, Row, Table, Value, View, cells_of

if TYPE_CHECKING:
    from torchmark.model.run import Run


def view_of_values(*values: Value) -> View:
    columns = tuple(Column(name=f"c{at}") for at in range(len(values)))
    return made_up_views.view(data=Table(columns=columns, rows=(Row(cells=cells_of(values)),)))


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_csv_has_a_line_for_each_row_with_raw_values() -> None:
    head, first, *rest = read(render_csv(made_up_views.view().data))
    assert head == ["case", "A", "ratio [95 %]", "verdict", "replicates"]
    assert first[0] == "add of two tensors, broadcast along dimension 0"
    assert [float(each) for each in first[1:3]] == [1.2e-6, 1.019]
    assert len(rest) == 4
    assert rest[-1][1] == ""  # nothing is an empty field


def test_csv_quotes_what_needs_it_and_disarms_formulas() -> None:
    values = ('a "b", c\nd', "=1+1", "+1", "-1", "@x", -1, True, None, 0.1)
    _, row = read(render_csv(view_of_values(*values).data))
    assert row == ['a "b", c\nd', "'=1+1", "'+1", "'-1", "'@x", "-1", "true", "", "0.1"]


def test_csv_disarms_formulas_behind_blanks_and_escapes() -> None:
    values = ("\t=1", "\r=1", "\n=1", "\x1b[0m=1", "\x00@x", "a=1", "")
    _, row = read(render_csv(view_of_values(*values).data))
    assert row == ["'\t=1", "'=1", "'\n=1", "'=1", "'@x", "a=1", ""]


@given(records.runs)
def test_json_is_the_record_and_a_table(run: Run) -> None:
    view = made_up_views.view()
    text = render_json(run, view)
    assert decode_run(text) == run
    content = json.loads(text)
    assert content["summary"] == view.summary
    assert content["table"][0] == {
        "case": "add of two tensors, broadcast along dimension 0",
        "A": 1.2e-6,
        "ratio [95 %]": 1.019,
        "verdict": "slower",
        "replicates": 5,
    }


def test_what_is_not_finite_is_null_in_json() -> None:
    text = render_json(records.run_of(), view_of_values(float("inf"), 1.0))
    assert json.loads(text)["table"] == [{"c0": None, "c1": 1.0}]


@pytest.mark.parametrize("form", report.FORMATS)
def test_a_run_is_rendered_in_every_format(form: str) -> None:
    case = records.case()
    run = records.run_of(case, results=(records.time_result(case),))
    figure = {"csv": "2e-06", "json": '"id":"20261115-221530-a1b2c3"'}.get(form, "2.000 us")
    assert figure in report.render(run, form)

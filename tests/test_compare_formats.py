from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from torchmark import Compare, Measurement, TaskSpec
from torchmark.errors import UnknownRowError
from torchmark.report.formats.markdown import pipe_table

SPEC = TaskSpec("x + y", "pass", label="add", sub_label="plus", description="4x4", env="main")


def compare() -> Compare:
    return Compare(
        [
            Measurement(1, [2e-6] * 40, SPEC),
            Measurement(1, [3e-6] * 40, replace(SPEC, sub_label="a|b <i>&</i>")),
            Measurement(1, [1e-3] * 40, replace(SPEC, description="big", num_threads=2)),
            Measurement(1, [1.0, 2.0], replace(SPEC, label=None, description=None)),
        ]
    )


def test_markdown_is_a_table_for_each_label() -> None:
    first, second = compare().to_markdown().split("\n\n")
    assert first.splitlines() == [
        "| add                           | 4x4 (us) | big (us) |",
        "|-------------------------------|---------:|---------:|",
        "| plus [1 thread]               |        2 |          |",
        "| a\\|b \\<i\\>\\&\\</i\\> [1 thread] |        3 |          |",
        "| plus [2 threads]              |          |     1000 |",
    ]
    assert "1.5 (!)" in second


def test_markdown_cells_cannot_break_the_table() -> None:
    lines = pipe_table(["a", "b"], [["x|y\nz", "1"]]).splitlines()
    assert len(lines) == 3
    assert lines[2].replace("\\|", "").count("|") == 3


def test_csv_has_a_line_for_each_cell_with_all_figures() -> None:
    rows = list(csv.DictReader(io.StringIO(compare().to_csv())))
    assert len(rows) == 4
    assert rows[0]["row"] == "plus"
    assert float(rows[0]["median"]) == 2e-6
    assert rows[1]["row"] == "a|b <i>&</i>"
    assert rows[3]["label"] == ""
    assert {row["ratio"] for row in rows} == {""}


def test_json_has_the_same_figures() -> None:
    record = json.loads(compare().to_json())
    assert (record["torchmark"], record["version"]) == ("comparison", 2)
    first, *others = record["table"]
    assert (first["row"], first["column"], first["median"]) == ("plus", "4x4", 2e-6)
    assert [each["row"] for each in others] == ["a|b <i>&</i>", "plus", "plus"]
    assert "too few samples" in others[-1]["warnings"]


def test_html_is_one_page_that_escapes_what_it_shows() -> None:
    page = compare().to_html()
    assert "a|b &lt;i&gt;&amp;&lt;/i&gt;" in page
    assert page.count('<table class="cases">') == 2
    best = re.findall(r'<td class="figure good"[^>]*>([^<]*)<', page)
    assert best == ["2", "1000"]
    assert re.search(r'<td class="figure doubtful"[^>]*>1.5 <abbr', page)


@pytest.mark.parametrize("form", ["to_markdown", "to_csv", "to_html", "to_json"])
def test_every_form_can_show_ratios_and_refuses_an_unknown_baseline(form: str) -> None:
    results = [
        Measurement(1, [2e-6] * 4, SPEC),
        Measurement(1, [3e-6] * 4, replace(SPEC, sub_label="slow")),
    ]
    shown = Compare(results)
    shown.relative_to("plus")
    assert "1.5" in getattr(shown, form)()
    shown.relative_to("nothing")
    with pytest.raises(UnknownRowError):
        getattr(shown, form)()

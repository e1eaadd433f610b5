"""A run in every format: text, Markdown, CSV, JSON and a page."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import records
from torchmark.model.case import Autograd, Runtime
from torchmark.model.language import Language
from torchmark.model.result import Metric, Result, Status
from torchmark.model.run import Run, RunState
from torchmark.model.run_json import decode_result
from torchmark.report import run_csv, run_json, run_markdown, run_page, run_text
from torchmark.report.columns import lined_up
from torchmark.report.run_table import table_of

if TYPE_CHECKING:
    from collections.abc import Callable

ADD = records.case("Pointwise", "add", autograd=Autograd.FORWARD)
ADD_CPP = replace(ADD, language=Language.CPP, setup="")
MASK = records.case("Indexing", "mask", "with a long name", stmt="x[m]", num_threads=2)
LSTM = records.case("LSTM", runtime=Runtime.TORCHSCRIPT, stmt="lstm(x)")
RUN = records.run_of(
    ADD,
    ADD_CPP,
    MASK,
    LSTM,
    tags=("nightly",),
    state=RunState.INTERRUPTED,
    environment={
        "torch": {"version": "2.13.0"},
        "python": "3.11.7",
        "machine": {"cpu": "Fast One", "usable_cores": 2, "load": 0.5},
        "git": {"commit": "0123456789abcdef", "dirty": True},
    },
)
REASON = "RuntimeError: sizes do not match\n  line 1\n    x[m]"
RESULTS = [
    records.count_result(ADD, 1_234_500, loop=500),
    records.time_result(ADD, 1.5e-6),
    records.time_result(ADD_CPP, 0.25e-6, count=20),
    records.failed_result(ADD_CPP, Metric.INSTRUCTIONS, stdout="\x1b[31mred\x1b[0m <b>bold</b>\0"),
    records.failed_result(MASK, reason=REASON),
    replace(records.count_result(MASK), status=Status.SKIPPED, counts=None, reason="no valgrind"),
]

TEXT = """\
Run 20261115-221530-a1b2c3 (nightly), interrupted, started 2026-11-15T22:15:30Z
torch 2.13.0, Python 3.11.7, Fast One, 2 cores, load 0.5, commit 0123456789,
  with changes

Pointwise                                                     time  instructions
  add · Python, eager, forward                    1.500 us ± 0.1 %      12,340.0
  add · C++, eager, forward                   250.0 ns ± 0.3 % (!)        failed
Indexing                                                      time  instructions
  mask / with a long name · Python, eager, 2                failed       skipped
    threads
LSTM                                                          time  instructions
  LSTM · Python, torchscript                                     –             –

DOUBT too few samples, Pointwise / add · C++, eager, forward: 20 of the 30 that
  a median needs; give it more time

FAILED Pointwise / add · C++, eager, forward (count)
  the case crashed its process with SIGSEGV
FAILED Indexing / mask / with a long name · Python, eager, 2 threads (time)
  RuntimeError: sizes do not match
    line 1
      x[m]
What they printed: torchmark export 20261115-221530-a1b2c3 --format json

SKIPPED Indexing / mask / with a long name · Python, eager, 2 threads: no
  valgrind

3 done, 2 failed, 1 skipped, 2 not measured.
"""


def test_the_text_reads_like_this() -> None:
    assert run_text.render(RUN, RESULTS).splitlines() == TEXT.splitlines()


def test_a_column_that_was_not_asked_for_is_left_out() -> None:
    times = replace(RUN, plan=tuple((case, kind) for case, kind in RUN.plan if kind is Metric.TIME))
    text = run_text.render(times, [RESULTS[1]])
    assert "instructions" not in text
    assert "1.500 us" in text


def test_a_failure_of_timing_and_counting_alike_is_told_once() -> None:
    failures = [records.failed_result(ADD, kind, stderr="") for kind in Metric]
    text = run_text.render(RUN, failures)
    assert text.count("FAILED") == 1
    assert "(time and count)" in text
    assert "What they printed" not in text


def test_a_run_without_results_is_shown_too() -> None:
    assert "8 not measured" in run_text.render(RUN, [])
    assert "0 done" in run_text.render(records.run_of(), [])


def test_a_long_reason_is_cut_and_says_where_the_rest_is() -> None:
    failed = records.failed_result(ADD, reason="\n".join(f"line {n}" for n in range(100)))
    text = run_text.render(RUN, [failed])
    assert "line 11" in text
    assert "line 12" not in text
    assert "88 more lines" in text


@pytest.mark.parametrize("width", [60, 80, 120])
@settings(max_examples=40)
@given(results=st.lists(records.results, max_size=4))
def test_the_text_keeps_to_its_width_and_has_no_escapes(width: int, results: list[Result]) -> None:
    text = run_text.render(
        records.run_of(*(result.case for result in results)), results, width=width
    )
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    # A figure as long as a line, or a single word, cannot be broken.
    assert max(len(line) for line in text.splitlines()) <= max(width, 110)


def test_results_stand_in_the_order_of_the_plan_whatever_the_order_they_came_in() -> None:
    forth, back = table_of(RUN, RESULTS), table_of(RUN, RESULTS[::-1])
    assert forth == back
    assert [(result.case, result.metric) for result in forth.results] == [
        pair for pair in RUN.plan if pair[0] != LSTM
    ]


def test_a_result_that_was_not_planned_is_not_lost() -> None:
    other = records.time_result(records.case("Other", "thing"))
    assert table_of(RUN, [*RESULTS, other]).groups[-1].title == "Other"


def test_markdown_has_a_table_for_each_group_and_cannot_be_broken() -> None:
    evil = records.case("Evil | <b>", "a|b\n*x*")
    text = run_markdown.render(RUN, [*RESULTS, records.time_result(evil)])
    assert "| add · Python, eager, forward |     1.500 us ± 0.1 % |     12,340.0 |" in text
    assert "- **failed** Indexing / mask" in text
    assert "Evil \\| \\<b>" in text
    assert "\x1b" not in text


def test_csv_has_a_line_for_each_result_with_all_figures() -> None:
    rows = list(csv.DictReader(io.StringIO(run_csv.render(RUN, RESULTS))))
    assert len(rows) == len(RESULTS)
    by_kind = {(row["label"], row["language"], row["kind"]): row for row in rows}
    time = by_kind["Pointwise / add", "python", "time"]
    assert float(time["median"]) == 1.5e-6
    assert float(time["interval_low"]) < 1.5e-6 < float(time["interval_high"])
    assert (time["case"], time["run"], time["samples"]) == (ADD.id, RUN.id, "99")
    assert by_kind["Pointwise / add", "python", "count"]["instructions_per_run"] == "12340.0"
    failed = by_kind["Indexing / mask / with a long name", "python", "time"]
    assert (failed["outcome"], failed["median"]) == ("failed", "")
    assert failed["reason"] == "RuntimeError: sizes do not match"


def test_json_has_the_figures_and_on_request_all_that_they_follow_from() -> None:
    record = json.loads(run_json.render(RUN, RESULTS))
    assert (record["torchmark"], record["run"]["id"]) == ("run report", RUN.id)
    assert record["run"]["environment"] == RUN.environment
    assert record["results"][0]["time"]["median"] == 1.5e-6
    assert "record" not in record["results"][0]
    full = json.loads(run_json.render(RUN, RESULTS, samples=True))
    returned = [decode_result(json.dumps(each["record"])) for each in full["results"]]
    assert returned == list(table_of(RUN, RESULTS).results)


def page_body(page: str) -> ET.Element:
    return ET.fromstring(page[page.index("<body>") : page.index("</html>")])


def test_the_page_has_everything_in_it_and_fetches_nothing() -> None:
    page = run_page.render(RUN, RESULTS)
    for fetching in ("http:", "https:", "src=", "url(", "@import", "<script", "<link"):
        assert fetching not in page
    text = "".join(page_body(page).itertext())
    for part in ("Pointwise", "12,340.0", "1.500 us", "± 0.1 %", "do not match", "not measured",
                 "no valgrind", "machine.cpu", "Fast One", "x[m]", "too few samples"):  # fmt: skip
        assert part in text
    assert "red <b>bold</b>" in text, "what a case printed is shown as text"
    assert "prefers-color-scheme: dark" in page


def test_every_link_of_the_page_has_its_target() -> None:
    body = page_body(run_page.render(RUN, RESULTS))
    targets = {element.get("id") for element in body.iter()}
    links = [element.get("href", "")[1:] for element in body.iter("a")]
    assert links
    assert set(links) <= targets


def test_a_megabyte_of_output_does_not_make_the_page_one() -> None:
    failed = records.failed_result(ADD, stdout="x" * 1_000_000 + "the end")
    page = run_page.render(RUN, [failed])
    assert len(page) < 100_000
    assert "the end" in page
    assert "characters left out" in page


RENDERERS = {
    "text": run_text.render,
    "markdown": run_markdown.render,
    "csv": run_csv.render,
    "json": run_json.render,
    "page": run_page.render,
}


@pytest.mark.parametrize("render", RENDERERS.values(), ids=RENDERERS)
@settings(max_examples=40)
@given(run=records.runs, results=st.lists(records.results, max_size=4))
def test_any_run_can_be_shown_in_every_format(
    render: Callable[[Run, list[Result]], str], run: Run, results: list[Result]
) -> None:
    assert render(run, results).encode()


@settings(max_examples=40)
@given(run=records.runs, results=st.lists(records.results, max_size=4))
def test_any_page_is_well_formed(run: Run, results: list[Result]) -> None:
    page_body(run_page.render(run, results))


named_cells = st.lists(st.tuples(st.text(max_size=60), st.text("ab1 ", max_size=9)), max_size=4)


@given(st.lists(st.tuples(st.text(max_size=30), named_cells), max_size=3))
def test_no_figure_of_a_table_is_lost(sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    table = [(title, [(name, [cell]) for name, cell in rows]) for title, rows in sections]
    lines = lined_up(["figure"], table, 60)
    for _, rows in sections:
        for _, cell in rows:
            assert any(line.rstrip().endswith(cell.rstrip()) for line in lines)

"""A run of suites in every format: text, Markdown, CSV, JSON and a page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import records
from torchmark.model.case import Autograd, Language, Runtime
from torchmark.model.codec import decode_run
from torchmark.model.result import Facts, Metric, Result, Status
from torchmark.model.run import Environment, Run, RunKind, RunState
from torchmark.report import FORMATS, render, view_of
from torchmark.report.views.common import results_in_order

ADD = records.case("Pointwise", "add", autograd=Autograd.FORWARD)
ADD_CPP = replace(ADD, language=Language.CPP, setup="")
MASK = records.case("Indexing", "mask", "with a long name", stmt="x[m]", num_threads=2)
LSTM = records.case("LSTM", runtime=Runtime.TORCHSCRIPT, stmt="lstm(x)")
FACTS = {
    "torch": {"version": "2.13.0"},
    "python": "3.11.7",
    "machine": {"cpu": "Fast One", "usable_cores": 2, "load": 0.5},
    "git": {"commit": "0123456789abcdef", "dirty": True},
}
REASON = "RuntimeError: sizes do not match\n  line 1\n    x[m]"
RESULTS = (
    records.count_result(ADD, 1_234_500, loop=500),
    records.time_result(ADD, 1.5e-6),
    records.time_result(ADD_CPP, 0.25e-6, count=20, spread=0.01),
    records.failed_result(ADD_CPP, Metric.INSTRUCTIONS, stdout="\x1b[31mred\x1b[0m <b>bold</b>\0"),
    records.failed_result(MASK, reason=REASON),
    msgspec.structs.replace(
        records.count_result(MASK), status=Status.SKIPPED, payload=None, reason="no valgrind"
    ),
)


def run_with(*results: Result, **fields: Any) -> Run:
    defaults: dict[str, Any] = {
        "tags": ("nightly",),
        "state": RunState.INTERRUPTED,
        "environments": (Environment(facts=FACTS),),
        "results": results,
    }
    return records.run_of(ADD, ADD_CPP, MASK, LSTM, **{**defaults, **fields})


RUN = run_with(*RESULTS)

TEXT = """\
Run 20261115-221530-a1b2c3 (nightly)
interrupted, started 2026-11-15T22:15:30Z
torch 2.13.0, Python 3.11.7, Fast One, 2 cores, load 0.5, commit 0123456789,
  with changes

Results
Pointwise                                                     time  instructions
  add · Python, eager, forward                    1.500 us ± 1.1 %        12,340
  add · C++, eager, forward                   250.0 ns ± 1.4 % (!)        failed
Indexing                                                      time  instructions
  mask / with a long name · Python, eager, 2                failed       skipped
    threads

Failures
case                                                             metric
  Pointwise / add · C++, eager, forward                          instructions
      the case crashed its process with SIGSEGV
  Indexing / mask / with a long name · Python, eager, 2 threads  time
      RuntimeError: sizes do not match
          line 1
            x[m]
The HTML page (--html FILE) also shows the output of the cases.

Skipped
  Indexing / mask / with a long name · Python, eager, 2 threads: no valgrind

WARNING too few samples, Pointwise / add · C++, eager, forward: only 20 samples
  (30 recommended); measure longer

3 done, 2 failed, 1 skipped, 2 not measured.
"""


def test_the_text_reads_like_this() -> None:
    assert render(RUN, "text").splitlines() == TEXT.splitlines()


def test_a_column_that_was_not_asked_for_is_left_out() -> None:
    plan = tuple(each for each in RUN.plan if each.metric is Metric.TIME)
    text = render(run_with(RESULTS[1], plan=plan), "text")
    assert "instructions" not in text
    assert "1.500 us" in text


def test_a_failure_of_timing_and_counting_alike_is_told_once() -> None:
    metrics = (Metric.TIME, Metric.INSTRUCTIONS)
    failures = [records.failed_result(ADD, metric, stderr="") for metric in metrics]
    text = render(run_with(*failures), "text")
    assert text.count("SIGSEGV") == 1
    assert "time and instructions" in text
    assert "what the cases printed" not in text


def test_a_run_without_results_is_shown_too() -> None:
    assert "8 not measured" in render(run_with(), "text")
    assert "0 done" in render(records.run_of(), "text")


def test_a_long_reason_is_cut_in_text_and_whole_in_a_page() -> None:
    reason = "\n".join(f"line {number}" for number in range(100))
    run = run_with(records.failed_result(ADD, reason=reason))
    text = render(run, "text")
    assert "line 11" in text
    assert "line 12" not in text
    assert "88 more lines" in text
    assert "line 99" in render(run, "html")


def test_what_repeats_found_is_a_warning() -> None:
    result = msgspec.structs.replace(RESULTS[1], reason="3 processes differ by 4 %")
    assert any("3 processes differ by 4 %" in text for text in view_of(run_with(result)).warnings)


@pytest.mark.parametrize("width", [60, 80, 120])
@settings(max_examples=40)
@given(results=st.lists(records.plain_results, max_size=4))
def test_the_text_keeps_to_its_width_and_has_no_escapes(width: int, results: list[Result]) -> None:
    run = records.run_of(*(result.case for result in results), results=tuple(results))
    text = render(run, "text", width)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    # A figure as long as a line, or a single word, cannot be broken.
    assert max(len(line) for line in text.splitlines()) <= max(width, 110)


def test_results_stand_in_the_order_of_the_plan_whatever_the_order_they_came_in() -> None:
    forth, back = run_with(*RESULTS), run_with(*RESULTS[::-1])
    assert results_in_order(forth) == results_in_order(back)
    assert [each.key for each in results_in_order(forth)] == [
        planned.key for planned in RUN.plan if planned.case != LSTM
    ]
    assert render(forth, "text") == render(back, "text")


def test_a_result_that_was_not_planned_is_not_lost() -> None:
    other = records.time_result(records.case("Other", "thing"))
    assert "Other" in render(run_with(*RESULTS, other), "text")


def test_markdown_has_a_table_and_cannot_be_broken() -> None:
    evil = records.case("Evil | <b>", "a|b\n*x*")
    text = render(run_with(*RESULTS, records.time_result(evil)), "markdown")
    assert re.search(r"\| add · Python, eager, forward +\| +1\.500 us ± 1\.1 % \| +12,340 \|", text)
    assert "RuntimeError: sizes do not match" in text
    assert "Evil \\| \\<b\\>" in text
    assert "\x1b" not in text


def test_csv_has_a_line_for_each_result_with_all_figures() -> None:
    compiled = msgspec.structs.replace(RESULTS[1], facts=Facts(prepare_seconds=1.5))
    run = run_with(compiled, *RESULTS[2:], RESULTS[0])
    rows = list(csv.DictReader(io.StringIO(render(run, "csv"))))
    assert len(rows) == len(RESULTS)
    found = {(row["label"], row["language"], row["metric"]): row for row in rows}
    time = found["Pointwise / add", "python", "time"]
    assert float(time["median"]) == 1.5e-6
    assert float(time["interval_low"]) < 1.5e-6 < float(time["interval_high"])
    assert (time["case"], time["run"], time["samples"]) == (ADD.id, RUN.id, "99")
    assert time["compile_seconds"] == "1.5"
    count = found["Pointwise / add", "python", "instructions"]
    assert (count["instructions_per_run"], count["counted_runs"]) == ("12340.0", "100")
    failed = found["Indexing / mask / with a long name", "python", "time"]
    assert (failed["status"], failed["median"]) == ("failed", "")
    assert failed["reason"] == "RuntimeError: sizes do not match"
    assert found["Pointwise / add", "cpp", "time"]["warnings"] == "too few samples"


def test_json_has_the_figures_and_the_record_that_they_follow_from() -> None:
    text = render(RUN, "json")
    record = json.loads(text)
    assert record["table"][0]["median"] == 1.5e-6
    assert record["summary"] == "3 done, 2 failed, 1 skipped, 2 not measured."
    assert decode_run(text) == RUN


def test_the_page_has_everything_in_it() -> None:
    compiled = msgspec.structs.replace(RESULTS[1], facts=Facts(prepare_seconds=1.5))
    page = render(run_with(compiled, *RESULTS[2:], RESULTS[0]), "html")
    for part in ("Pointwise", "12,340", "1.500 us", "± 1.1 %", "do not match", "not measured",
                 "no valgrind", "machine.cpu", "Fast One", "x[m]", "too few samples", "nightly",
                 "x = y = torch.ones(4)", "1.500 s"):  # fmt: skip
        assert part in page
    assert "red &lt;b&gt;bold&lt;/b&gt;" in page, "what a case printed is shown as text"


def test_a_megabyte_of_output_does_not_make_the_page_one() -> None:
    failed = records.failed_result(ADD, stdout="x" * 1_000_000 + "the end")
    page = render(run_with(failed), "html")
    assert len(page) - len(render(run_with(records.failed_result(ADD)), "html")) < 50_000
    assert "the end" in page
    assert "characters left out" in page


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=30, deadline=None)
@given(run=records.runs, results=st.lists(records.plain_results, max_size=4))
def test_any_run_can_be_shown_in_every_format(form: str, run: Run, results: list[Result]) -> None:
    shown = msgspec.structs.replace(run, kind=RunKind.RUN, results=tuple(results))
    assert render(shown, form).encode()


def test_settings_are_words_and_not_python() -> None:
    kept = {
        "suites": ["standard", "overrides"],
        "pattern": "",
        "path": [],
        "effort": {
            "limits": [0.02, 0.1, 0.5],
            "hurry": True,
            "budget": 2.0,
            "detect": 0.005,
            "memory": 4_000_000_000,
        },
    }
    view = view_of(records.run_of(records.case(), settings=kept))
    assert view.settings == (
        ("suites", "standard, overrides"),
        ("effort.limits", "± 2 %, after 0.1 s to 0.5 s of measured blocks"),
        ("effort.hurry", "yes"),
        ("effort.budget", "2 s"),
        ("effort.detect", "0.5 %"),
        ("effort.memory", "4.00 GB"),
    )


@pytest.mark.parametrize("count", [1, 4])
def test_few_samples_have_no_interval_in_any_format(count: int) -> None:
    run = run_with(records.time_result(ADD, 2.41, count=count, spread=0.0))
    assert "2.410 s ± ? (!)" in render(run, "text")
    assert "too few for an interval" in render(run, "html")
    row = next(csv.DictReader(io.StringIO(render(run, "csv"))))
    assert (row["interval_low"], row["interval_high"], row["samples"]) == ("", "", str(count))
    (figures,) = json.loads(render(run, "json"))["table"]
    assert (figures["interval_low"], figures["interval_high"]) == (None, None)
    assert "± ?" not in render(run_with(records.time_result(ADD, 2.41, count=5)), "text")


def test_a_run_that_was_cut_short_shows_what_was_measured_and_counts_the_rest() -> None:
    nothing = run_with()
    text = render(nothing, "text")
    assert "–" not in text
    assert "Results" not in text
    assert text.endswith("0 done, 8 not measured.\n")
    some = render(run_with(records.time_result(ADD, 1.5e-6)), "text")
    assert "add" in some
    assert "LSTM" not in some
    assert some.endswith("1 done, 7 not measured.\n")
    whole = render(run_with(records.time_result(ADD, 1.5e-6), state=RunState.FINISHED), "text")
    assert "LSTM" in whole, "a run that is over and lacks a case shows it"

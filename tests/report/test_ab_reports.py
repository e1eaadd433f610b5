"""A/B comparisons in every format: text, Markdown, CSV, JSON and a page."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import ab_records, records
from tests.ab_records import comparison, counted, missing, timed
from torchmark.analyse.ab import Understood, understood
from torchmark.model.ab_record import PythonCalls
from torchmark.model.case import Autograd, Case
from torchmark.model.language import Language
from torchmark.model.result import Metric, Status
from torchmark.report import ab_csv, ab_json, ab_markdown, ab_page, ab_text
from torchmark.report.ab_formats import RENDERERS
from torchmark.report.ab_names import full_name
from torchmark.report.ab_plot import Axis, axis_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchmark.model.ab_record import Compared, Comparison


def case(*label: str, stmt: str = "", threads: int = 1) -> Case:
    return records.case(
        *label, stmt=stmt or label[-1], autograd=Autograd.FORWARD, num_threads=threads
    )


ADD, MUL = case("Pointwise", "add"), case("Pointwise", "mul")
CAT, MM = case("Shapes", "cat"), case("Linear algebra", "mm, 64 x 64")
LSTM, GRU = case("Modules", "LSTM", threads=2), case("Modules", "GRU")
NATIVE = "aten/src/ATen/native/BinaryOps.cpp:at::native::add(at::Tensor const&)"
OVERRIDES = PythonCalls(function="torch/overrides.py:has_torch_function", a=12, b=40)
WHY = "counting needs one thread:\n  this case has 2"
ALL = understood(
    comparison(
        timed(ADD, 1.019, python=(OVERRIDES,)),
        counted(
            ADD,
            {NATIVE: 60_000, "Objects/call.c:_PyObject_Call": 37_127},
            {NATIVE: 61_100, "Objects/call.c:_PyObject_Call": 37_131, "Python/ceval.c:_eval": 100},
            python=(OVERRIDES,),
        ),
        timed(MUL, 0.97),
        counted(MUL, {"f": 9000}, {"f": 9000}),
        timed(CAT, 1.001),
        counted(CAT, {"f": 9000}, {"f": 9010}, layouts=(0, 30)),
        timed(MM, 1.0002),
        missing(MM, Metric.INSTRUCTIONS, Status.SKIPPED, WHY),
        timed(LSTM, 1.004, spread=0.05),
        missing(LSTM, Metric.INSTRUCTIONS, Status.SKIPPED, WHY),
        missing(GRU, Metric.TIME, Status.FAILED, "RuntimeError: no such function\n  in line 1"),
        missing(
            GRU, Metric.INSTRUCTIONS, Status.FAILED, "RuntimeError: no such function\n  in line 1"
        ),
        remarks=("B was built with another compiler.",),
        settings={"seconds": 30},
    )
)

TEXT = """\
B beside A, 20261116-080000-d4e5f6, 2026-11-15T22:15:30Z

A: where torchmark was called, torch 2.12.0, git 0123456789
B: source envs/new/bin/activate, torch 2.13.0, git fedcba9876
both: Python 3.11.7, threads: 1, g++ 12.2.0, counting works, C++ works
Also not alike: torch.config.

NOTE B was built with another compiler.

Times · Python, eager, forward
case                           A         B          ratio [95 %]            sees
  Pointwise / mul       2.000 us  1.940 us  0.970 [0.970, 0.970]   faster
  Pointwise / add       2.000 us  2.038 us  1.019 [1.019, 1.019]   slower
  Modules / LSTM · 2    2.000 us  2.008 us  1.004 [0.989, 1.019]  unclear  2.8 %
    threads
  Shapes / cat          2.000 us  2.002 us  1.001 [1.001, 1.001]     same  0.2 %
  Linear algebra / mm,  2.000 us  2.000 us  1.000 [1.000, 1.000]     same  0.2 %
    64 x 64
sees: the smallest change that four trials in five would have found.

Instructions · Python, eager, forward
case                              ΔI → B (%)
  Pointwise / add  +1,204 → 98,331 (+1.24 %)   more
      +1,100 (+1.13 %) instructions  aten/src/ATen/native/BinaryOps.cpp:at::nat…
        +100 (+0.10 %) instructions  Python/ceval.c:_eval
          +4 (+0.00 %) instructions  Objects/call.c:_PyObject_Call
      +28 bytecodes  torch/overrides.py:has_torch_function
  Shapes / cat        +10 →  9,040 (+0.11 %)  close
  Pointwise / mul       0 →  9,000             same
close: not equal, but no further apart than layouts of memory move the count.

FAILED Modules / GRU · Python, eager, forward (time and count): RuntimeError: no
  such function
SKIPPED Linear algebra / mm, 64 x 64 · Python, eager, forward (count); Modules /
  LSTM · Python, eager, forward, 2 threads (count): counting needs one thread:
  this case has 2

Control, A against A: 0 of 6 comparisons called a change; one pair is off by 1.5
  %.

B is slower in 1 of 5 cases (worst: Pointwise / add, +1.9 %), faster in 1, same
  in 2, unclear in 1; instructions: more in 1 of 3 cases (worst: Pointwise /
  add, +1.24 %), same in 1, close in 1; 2 skipped, 2 failed.
"""


def text_of(*results: Compared, **fields: object) -> str:
    return ab_text.render([understood(comparison(*results, **fields))])


def last_paragraph(text: str) -> str:
    return " ".join(text.rstrip().rpartition("\n\n")[2].split())


def many(number: int, ratio: float = 1.0) -> list[Compared]:
    return [timed(case("Many", f"operator {index}"), ratio) for index in range(number)]


def test_the_text_reads_like_this() -> None:
    assert ab_text.render([ALL]).splitlines() == TEXT.splitlines()


def test_without_changes_the_text_says_that_no_case_has_changed() -> None:
    text = text_of(timed(ADD, 1.0), counted(ADD, {"f": 10}, {"f": 10}))
    assert last_paragraph(text) == (
        "B beside A: no case has changed; times: same in 1 of 1 case; "
        "instructions: same in 1 of 1 case; 0 skipped, 0 failed."
    )


def test_what_is_unclear_is_not_said_to_be_unchanged_without_a_limit() -> None:
    text = text_of(timed(ADD, 1.0, spread=0.2), timed(MUL, 1.0))
    assert "no case has changed as far as can be seen" in last_paragraph(text)
    assert "unclear in 1" in last_paragraph(text)


def test_with_counts_alone_nothing_is_said_of_times_or_a_control() -> None:
    text = text_of(counted(ADD, {"f": 1000}, {"f": 990}), counted(MUL, {"f": 10}, {"f": 10}))
    assert "Times" not in text
    assert "Control" not in text
    assert "-10 →" in text
    assert last_paragraph(text) == (
        "B, in instructions, takes fewer in 1 of 2 cases (best: Pointwise / add, -1.00 %), "
        "same in 1; 0 skipped, 0 failed."
    )


def test_with_times_alone_nothing_is_said_of_instructions() -> None:
    text = text_of(timed(ADD, 1.5))
    assert "nstructions" not in text
    assert last_paragraph(text).startswith(
        "B is slower in 1 of 1 case (worst: Pointwise / add, +50.0"
    )


def test_a_comparison_without_figures_says_so() -> None:
    assert "nothing was measured" in last_paragraph(text_of())
    assert ab_text.render([]) == "Nothing was compared.\n"


def test_what_was_interrupted_says_so() -> None:
    text = text_of(timed(ADD, 1.0), is_complete=False)
    assert "interrupted" in text.splitlines()[0]
    assert "interrupted" in last_paragraph(text)


def test_many_cases_that_are_the_same_are_counted_and_the_others_shown() -> None:
    text = text_of(timed(ADD, 1.05), *many(13))
    assert "13 cases are the same (each sees 0.2 % or less)" in text
    assert "operator" not in text
    assert "Pointwise / add" in text


def test_if_all_cases_are_the_same_or_they_are_few_each_is_shown() -> None:
    assert text_of(*many(20)).count("  Many / operator") == 20
    assert text_of(timed(ADD, 1.05), *many(12)).count("  Many / operator") == 12


def test_many_equal_and_close_counts_are_counted_too() -> None:
    same = [counted(case("Many", f"same {n}"), {"f": 9}, {"f": 9}) for n in range(10)]
    close = [
        counted(case("Many", f"close {n}"), {"f": 900}, {"f": 901}, layouts=(0, 5))
        for n in range(4)
    ]
    text = text_of(counted(ADD, {"f": 10}, {"f": 20}), *same, *close)
    assert "  10 cases are the same, 4 are close" in text
    assert "Many" not in text


def test_at_most_five_functions_of_each_sort_are_told_the_biggest_first() -> None:
    grown = {f"f{index}": 1000 + index for index in range(8)}
    text = text_of(counted(ADD, dict.fromkeys(grown, 1000), grown))
    told = re.findall(r"\+(\d) \(\S+ %\) instructions  (f\d)", text)
    assert told == [("7", "f7"), ("6", "f6"), ("5", "f5"), ("4", "f4"), ("3", "f3")]
    assert "2 more functions differ" in text


def test_python_functions_behind_a_time_are_told_once_for_a_case() -> None:
    only_timed = text_of(timed(ADD, 1.5, python=(OVERRIDES,)))
    assert only_timed.count("+28 bytecodes  torch/overrides.py:has_torch_function") == 1
    assert ab_text.render([ALL]).count("bytecodes") == 1
    assert "bytecodes" not in text_of(timed(ADD, 1.0, python=(OVERRIDES,)))


def test_skips_with_the_same_reason_are_told_together_and_failures_one_by_one() -> None:
    cases = [case("Many", f"operator {index}") for index in range(6)]
    skips = [
        missing(each, Metric.INSTRUCTIONS, Status.SKIPPED, "no valgrind\nin B") for each in cases
    ]
    failures = [missing(each, Metric.TIME, Status.FAILED, "it crashed") for each in cases[:2]]
    text = " ".join(text_of(*skips, *failures).split())
    assert text.count("SKIPPED") == 1
    assert "and 3 more cases: no valgrind" in text
    assert "no valgrind in B" not in text, "only the first line"
    assert text.count("FAILED") == 2
    assert "6 skipped, 2 failed" in text


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        (0, "Control: no pairs of A and A were taken."),
        (2, "Control, A against A: 4 pairs, too few to judge (it takes 5); one pair is off by"),
        (6, "Control, A against A: 0 of 2 comparisons called a change; one pair is off by 0.1 %."),
    ],
)
def test_the_control_is_told_in_one_sentence(controls: int, expected: str) -> None:
    text = text_of(timed(ADD, 1.0, controls=controls), timed(MUL, 1.0, controls=controls))
    assert expected in " ".join(text.split())


def test_a_control_that_cries_wolf_puts_small_changes_in_doubt() -> None:
    result = timed(ADD, 1.0)
    assert result.times is not None
    wolf = replace(result, times=replace(result.times, control=ab_records.turns_around(1.05)))
    assert "4 of 4 comparisons called a change, so small changes are in doubt" in " ".join(
        text_of(wolf).split()
    )


def test_a_case_with_one_pair_is_not_lost() -> None:
    one = understood(comparison(timed(ADD, 1.0, pairs=1), timed(MUL, 1.0)))
    text = ab_text.render([one])
    assert "UNCLEAR Pointwise / add" in text
    assert "1 with too few pairs" in last_paragraph(text)
    for render in (ab_markdown.render, ab_page.render):
        assert "fewer than two pairs" in render([one])
    rows = list(csv.DictReader(io.StringIO(ab_csv.render([one]))))
    assert [(row["case"], row["verdict"]) for row in rows] == [(ADD.id, ""), (MUL.id, "same")]


@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        ({"stmt": "x + y"}, {"stmt": "x.add(y)"}, "x + y  vs  x.add(y) · Python"),
        ({"stmt": "x"}, {"stmt": "x", "setup": "x = 2"}, "x  vs  x (not set up alike) · Python"),
        (
            {"stmt": "x"},
            {"stmt": "x;", "language": Language.CPP},
            "x · Python  vs  x; · C++",
        ),
        ({"label": ("add",)}, {"label": ("mul",)}, "add  vs  mul · Python"),
        (
            {"label": ("P", "add"), "stmt": "x + y"},
            {"label": ("P", "add"), "stmt": "y + x"},
            "P / add: x + y  vs  y + x · Python",
        ),
    ],
)
def test_two_statements_are_named_by_what_sets_them_apart(
    a: dict[str, object], b: dict[str, object], name: str
) -> None:
    sides: list[Case] = [
        Case(**{"label": (), "stmt": "x", **fields})  # type: ignore[arg-type]
        for fields in (a, b)
    ]
    result = timed(sides[0], 1.1, other=sides[1])
    assert full_name(result) == name
    assert name.partition(" · ")[0] in text_of(result)


def test_two_long_statements_share_a_line_and_what_differs_late_is_said() -> None:
    long = "x + y + " * 20
    result = timed(Case(label=(), stmt=f"{long}x"), 1.1, other=Case(label=(), stmt=f"{long}y"))
    assert len(full_name(result)) < 150
    assert full_name(result).endswith("… (ends differently) · Python")


def test_missing_facts_and_flat_facts_are_understood() -> None:
    flat = {"torch": "2.1.0", "torch_git": "abcdef0123456789", "cpp": "no compiler\nat all"}
    text = text_of(
        a=replace(ab_records.A, facts={}), b=replace(ab_records.B, facts=flat, command="run-b")
    )
    assert "\nA: where torchmark was called\n" in text
    assert "\nB: run-b, torch 2.1.0, git abcdef0123, no C++ (no compiler)\n" in text
    assert "both:" not in text


def test_facts_that_differ_anyway_or_tell_who_one_is_are_left_out() -> None:
    facts = {"pid": 1, "machine": {"host": "secret-host", "load": 0.1, "cpu": "Fast One"}}
    other = {"pid": 2, "machine": {"host": "secret-host", "load": 0.2, "cpu": "Slow One"}}
    found = understood(
        comparison(
            timed(ADD, 1.0),
            a=replace(ab_records.A, facts=facts),
            b=replace(ab_records.B, facts=other),
        )
    )
    assert "Also not alike: machine.cpu.\n" in ab_text.render([found])
    for render in (ab_text.render, ab_markdown.render, ab_page.render):
        assert "secret-host" not in render([found])


def test_several_environments_follow_each_other_each_with_its_name() -> None:
    second = replace(
        ALL, comparison=replace(ALL.comparison, b=replace(ab_records.B, name="nightly"))
    )
    text = ab_text.render([ALL, second])
    assert text.index("B beside A") < text.index("nightly beside A")
    assert last_paragraph(text).startswith("nightly is slower in 1 of 5 cases")
    markdown = ab_markdown.render([ALL, second])
    assert [line.split()[0] for line in markdown.splitlines() if line.startswith("**")] == [
        "**B",
        "**nightly",
    ]
    rows = list(csv.DictReader(io.StringIO(ab_csv.render([ALL, second]))))
    assert [row["environment"] for row in rows] == ["B"] * 12 + ["nightly"] * 12
    names = [each["b"]["name"] for each in json.loads(ab_json.render([ALL, second]))["comparisons"]]
    assert names == ["B", "nightly"]
    body = page_body(ab_page.render([ALL, second]))
    links = [element.get("href", "")[1:] for element in body.iter("a")]
    assert links == ["comparison-0", "comparison-1"]
    assert set(links) <= {element.get("id") for element in body.iter()}


def test_a_pull_request_has_the_changes_in_sight_and_the_rest_folded() -> None:
    markdown = ab_markdown.render([ALL])
    shown, _, folded = markdown.partition("<details>")
    assert shown.startswith("**B is slower in 1 of 5 cases")
    assert (
        "| Pointwise / mul                | 2.000 us | 1.940 us | 0.970 [0.970, 0.970] |" in shown
    )
    assert "+1,204 → 98,331 (+1.24 %)" in shown
    assert "failed: Modules / GRU" in shown
    for hidden in ("Shapes / cat", "torch 2.13.0", "Control, A against A", "skipped: Linear",
                   "+1,100 (+1.13 %) instructions: aten", "+28 bytecodes: torch/over"):  # fmt: skip
        assert hidden not in shown
        assert hidden in folded
    assert folded.rstrip().endswith("</details>")


def test_a_pull_request_without_changes_has_no_table_in_sight() -> None:
    shown = ab_markdown.render([understood(comparison(*many(3)))]).partition("<details>")[0]
    assert "no case has changed" in shown
    assert "|" not in shown


def wide_results(number: int) -> list[Compared]:
    functions = {f"at::native::function_{index}<{'T, ' * 90}>": 10 + index for index in range(20)}
    cases = [case("A long group | name " * 3, f"*operator* {n} " * 9) for n in range(number)]
    return [
        *(timed(each, 1.1) for each in cases),
        *(counted(each, dict.fromkeys(functions, 1), functions) for each in cases),
        *(missing(each, Metric.TIME, Status.FAILED, f"{each.id} " * 99) for each in cases),
    ]


def test_a_pull_request_takes_whatever_comes() -> None:
    found = understood(comparison(*wide_results(80), remarks=("long " * 2000,) * 50))
    text = ab_markdown.render([found])
    assert 10_000 < len(text) <= 60_000
    shown = [line for line in text.splitlines() if line.startswith("| A long group")]
    left_out = [int(n) for n in re.findall(r"^(\d+) more cases are left out", text, re.MULTILINE)]
    assert len(shown) + sum(left_out) == 4 * 80
    several = ab_markdown.render([understood(comparison(*wide_results(6)))] * 30)
    assert len(several) <= 60_000
    number = several.count("**B is slower")
    assert number > 0
    assert f"{30 - number} more comparisons are left out: the text is too long." in several


def test_csv_has_a_line_for_each_result_with_all_figures() -> None:
    rows = list(csv.DictReader(io.StringIO(ab_csv.render([ALL]))))
    assert len(rows) == len(ALL.comparison.results)
    assert tuple(rows[0]) == ab_csv.HEADER
    assert all(name in str(ab_csv.__doc__) for name in ab_csv.HEADER)
    by_case = {(row["case"], row["kind"]): row for row in rows}
    time = by_case[ADD.id, "time"]
    assert (time["comparison"], time["environment"]) == (ab_records.ID, "B")
    assert (time["verdict"], time["a"], time["pairs"]) == ("slower", "2e-06", "20")
    assert float(time["low"]) < float(time["ratio"]) < float(time["high"])
    assert float(time["share"]) == pytest.approx(0.019)
    assert time["difference"] == time["spread"] == ""
    count = by_case[ADD.id, "count"]
    assert (count["a"], count["b"], count["difference"]) == ("97127.0", "98331.0", "1204.0")
    assert (count["verdict"], count["ratio"], count["pairs"]) == ("more", "", "")
    assert by_case[CAT.id, "count"]["spread"] == "30.0"
    failed = by_case[GRU.id, "time"]
    assert (failed["outcome"], failed["verdict"]) == ("failed", "")
    assert failed["reason"] == "RuntimeError: no such function"


def test_json_has_what_was_measured_and_what_follows_from_it() -> None:
    record = json.loads(ab_json.render([ALL]))
    assert (record["torchmark"], record["version"]) == ("ab comparison", 2)
    (found,) = record["comparisons"]
    assert found["a"]["facts"] == ab_records.FACTS_A
    assert found["settings"] == {"seconds": 30}
    assert found["remarks"] == list(ALL.comparison.remarks)
    assert (found["control"]["comparisons"], found["control"]["alarms"]) == (6, 0)
    assert (found["changed"], found["got_slower"]) == (True, True)
    time, count = found["results"][:2]
    assert ALL.comparison.results[0].times is not None
    pairs = ALL.comparison.results[0].times.pairs
    assert time["times"]["pairs"] == [[list(turn) for turn in turns] for turns in pairs]
    assert time["meaning"]["verdict"] == "slower"
    assert time["case"]["id"] == ADD.id
    assert time["python"] == [{"function": OVERRIDES.function, "a": 12, "b": 40}]
    assert count["counts"]["a"] == [{"instructions": 9_713_200, "loop": 500, "runs": 100}]
    assert count["meaning"]["difference"] == 1204.0
    assert count["meaning"]["functions"][0] == {"function": NATIVE, "instructions": 1100.0}
    assert len(found["results"][5]["counts"]["b"]) == 2
    assert "meaning" not in found["results"][-1]


def test_json_has_the_biggest_two_hundred_functions_and_says_how_many_there_are() -> None:
    grown = {f"f{index}": 10 + index for index in range(300)}
    found = understood(comparison(counted(ADD, dict.fromkeys(grown, 9), grown)))
    (result,) = json.loads(ab_json.render([found]))["comparisons"][0]["results"]
    assert result["meaning"]["functions"][0]["function"] == "f299"
    assert len(result["meaning"]["functions"]) == 200
    assert result["meaning"]["functions_left_out"] == 100


def test_a_share_of_nothing_is_null_in_json_and_empty_in_csv() -> None:
    found = understood(comparison(counted(ADD, {}, {"f": 10})))
    (result,) = json.loads(ab_json.render([found]))["comparisons"][0]["results"]
    assert result["meaning"]["share"] is None
    assert next(csv.DictReader(io.StringIO(ab_csv.render([found]))))["share"] == ""
    assert "+10 → 10 (from none)" in ab_text.render([found])


def page_body(page: str) -> ET.Element:
    return ET.fromstring(page[page.index("<body>") : page.index("</html>")])


def test_the_page_has_everything_in_it_and_fetches_nothing() -> None:
    page = ab_page.render([ALL])
    for fetching in ("http:", "https:", "src=", "url(", "@import", "<script", "<link"):
        assert fetching not in page
    text = "".join(page_body(page).itertext())
    for part in ("B is slower in 1 of 5 cases", "1.019 [1.019, 1.019]", "+1,204 → 98,331",
                 NATIVE, OVERRIDES.function, "no such function", "counting needs one thread",
                 "Control, A against A", "another compiler", "torch.git ≠", "python",
                 "seconds"):  # fmt: skip
        assert part in text
    assert page.count("prefers-color-scheme: dark") == 2, "its own colours have a dark side too"


def test_facts_that_differ_are_highlighted_and_those_alike_folded_away() -> None:
    body = page_body(ab_page.render([ALL]))
    differing = [row for row in body.iter("tr") if row.get("class") == "differs"]
    names = [row[0].text for row in differing]
    assert names == ["command ≠", "torch.version ≠", "torch.git ≠", "torch.config ≠"]
    assert any("5 facts are the same" in str(each.text) for each in body.iter("summary"))


def picture_rows(page: str) -> list[ET.Element]:
    body = page_body(page)
    (picture,) = [each for each in body.iter("div") if each.get("class") == "picture"]
    return [row for row in picture if row.get("class") != "axis"]


def test_the_picture_is_sorted_by_ratio_and_tells_verdicts_by_shape_and_word() -> None:
    rows = picture_rows(ab_page.render([ALL]))
    assert [row[0].text for row in rows] == [
        "Pointwise / add",
        "Modules / LSTM · 2 threads",
        "Shapes / cat",
        "Linear algebra / mm, 64 x 64",
        "Pointwise / mul",
    ]
    words = ["".join(row[2].itertext()) for row in rows]
    assert words == [
        "+1.9 % slower",
        "+0.4 % unclear",
        "+0.1 % same",
        "+0.0 % same",
        "-3.0 % faster",
    ]
    marks = {
        text.split()[-1]: ET.tostring(mark[0])
        for row, text in zip(rows, words, strict=True)
        for mark in row.iter("svg")
        if mark.get("class") == "mark"
    }
    assert len(set(marks.values())) == 4
    bands = [each for row in rows for each in row.iter("rect")]
    zeros = [each for row in rows for each in row.iter("line") if each.get("class") == "zero"]
    assert len(bands) == len(zeros) == 5
    assert {zero.get("x1") for zero in zeros} == {"50.00%"}


def test_a_ratio_beyond_the_axis_becomes_an_arrow_and_spoils_no_scale() -> None:
    far = [timed(ADD, 12.0), timed(MUL, 0.1)]
    found = understood(comparison(*far, *many(198, 1.005)))
    assert axis_of(found.times).reach < 0.03
    rows = picture_rows(ab_page.render([found]))
    assert len(rows) == 200
    kinds = [[str(each.get("class")) for each in row.iter("svg")] for row in rows]
    assert "arrow bold" in kinds[0]
    assert "mark" not in kinds[0]
    assert "arrow bold" in kinds[-1]
    assert all("mark" in each for each in kinds[1:-1])


@given(st.floats(0.001, 2), st.floats(1e-9, 1e9))
def test_every_ratio_has_a_place_and_labels_do_not_touch(reach: float, ratio: float) -> None:
    axis = Axis(reach)
    assert 0 <= axis.place(ratio) <= 100
    places = [axis.place(1 + change / 100) for change in axis.ticks()]
    assert 50 in places
    assert all(right - left > 8 for left, right in pairwise(places))


HOSTILE = case(
    "<script>alert(1)</script>", "a|b\x1b[31m", stmt="x = '</pre><b>'\n" + "x + y; " * 9000
)
DANGEROUS = understood(
    comparison(
        timed(HOSTILE, 1.1),
        timed(HOSTILE, 1.1, other=replace(HOSTILE, stmt="<i>")),
        counted(HOSTILE, {"f<T>|\x1b[1m": 10}, {"f<T>|\x1b[1m": 20}),
        missing(HOSTILE, Metric.TIME, Status.SKIPPED, "<img src=x>\x07"),
        a=replace(ab_records.A, name="<A>", command="a && <b>"),
        b=replace(ab_records.B, name="B|\x1b[2J", facts={"torch": "<2>"}),
        remarks=("<script>\x1b[31m",),
    )
)


def test_names_with_markup_and_escapes_are_shown_as_text() -> None:
    for render in (ab_text.render, *RENDERERS.values()):
        assert "\x1b" not in render([DANGEROUS])
    page = ab_page.render([DANGEROUS])
    assert "<script" not in page
    assert "<img" not in page
    assert "<script>alert(1)</script>" in "".join(page_body(page).itertext())
    assert len(page) < 100_000, "a long statement is cut"
    markdown = ab_markdown.render([DANGEROUS])
    assert not re.search(r"(?<!\\)<(?!/?details>|/?summary>)", markdown)
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} == {4, 6, 7}
    assert max(map(len, ab_text.render([DANGEROUS]).splitlines())) <= 80


@pytest.mark.parametrize("width", [80, 120])
def test_the_text_keeps_to_its_width(width: int) -> None:
    long = understood(comparison(*wide_results(3), remarks=("long " * 99,)))
    for found in (ALL, DANGEROUS, long):
        lines = ab_text.render([found], width=width).splitlines()
        assert max(map(len, lines)) <= width


@pytest.mark.parametrize("render", [ab_text.render, *RENDERERS.values()])
@settings(max_examples=20)
@given(found=st.lists(ab_records.comparisons.map(understood), max_size=2))
def test_any_comparison_can_be_shown_in_every_format(
    render: Callable[[Sequence[Understood]], str], found: list[Understood]
) -> None:
    assert render(found).encode()


@settings(max_examples=20)
@given(ab_records.comparisons)
def test_any_page_is_well_formed_and_any_table_comes_back(record: Comparison) -> None:
    found = understood(record)
    page_body(ab_page.render([found]))
    rows = list(csv.DictReader(io.StringIO(ab_csv.render([found]))))
    assert [row["case"] for row in rows] == [each.case.id for each in record.results]
    (read,) = json.loads(ab_json.render([found]))["comparisons"]
    assert len(read["results"]) == len(record.results)

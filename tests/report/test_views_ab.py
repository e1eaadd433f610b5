"""The view of an A/B comparison, and what every format makes of it."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import ab_records, records
from tests.ab_records import controlled, counted, missing, planned, run_of, timed
from tests.report.made_up_views import find_section
from torchmark.model.case import Autograd, Case, Language
from torchmark.model.codec import decode_run
from torchmark.model.result import Metric, PythonCalls, Status
from torchmark.model.run import Environment, RunState
from torchmark.report import FORMATS, render
from torchmark.report.names import full_name
from torchmark.report.views.ab import make_view
from torchmark.report.views.charts import axis_labels, reach_of

if TYPE_CHECKING:
    from typing import Any

    from torchmark.model.result import Result
    from torchmark.model.run import Run


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
FAILURE = "RuntimeError: no such function\n  in line 1"
ALL = run_of(
    timed(ADD, 1.019, python_calls=(OVERRIDES,), seconds=19.0),
    counted(
        ADD,
        {NATIVE: 60_000, "Objects/call.c:_PyObject_Call": 37_127},
        {NATIVE: 61_100, "Objects/call.c:_PyObject_Call": 37_131, "Python/ceval.c:_eval": 100},
        python_calls=(OVERRIDES,),
    ),
    timed(MUL, 0.97),
    counted(MUL, {"f": 9000}, {"f": 9000}),
    timed(CAT, 1.001),
    counted(CAT, {"f": 9000}, {"f": 9010}, layouts=(0, 30)),
    timed(MM, 1.0002),
    missing(MM, Metric.INSTRUCTIONS, Status.SKIPPED, WHY),
    timed(LSTM, 1.004, spread=0.05),
    missing(LSTM, Metric.INSTRUCTIONS, Status.SKIPPED, WHY),
    missing(GRU, Metric.TIME, Status.FAILED, FAILURE),
    missing(GRU, Metric.INSTRUCTIONS, Status.FAILED, FAILURE),
    controlled(MUL, spread=0.02, seconds=0.75),
    controlled(MM, spread=0.02, seconds=0.25),
    notes=("B was built with another compiler.",),
    settings={"seconds": 30},
)

TEXT = """\
B compared with A
Run 20261116-080000-d4e5f6, finished, started 2026-11-15T22:15:30Z
A: current environment, torch 2.12.0, git 0123456789
B: source envs/new/bin/activate, torch 2.13.0, git fedcba9876
both: Python 3.11.7, threads: 1, g++ 12.2.0, counting works, C++ works
Also different: torch.config.

NOTE B was built with another compiler.
"""


def text_of(*results: Result, **fields: Any) -> str:
    return render(run_of(*results, **fields), "text")


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def summary_of(*results: Result, **fields: Any) -> str:
    return make_view(run_of(*results, **fields)).summary


def rows_of(run: Run) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(run, "csv"), newline="")))


def many(number: int, ratio: float = 1.0) -> list[Result]:
    return [timed(case("Many", f"operator {index}"), ratio) for index in range(number)]


def test_the_text_begins_with_what_sets_the_environments_apart() -> None:
    assert render(ALL, "text").startswith(TEXT)


def test_the_text_has_ratios_with_intervals_verdicts_and_what_is_detectable() -> None:
    text = on_one_line(render(ALL, "text"))
    assert "Times · Python, eager, forward" in text
    assert "case A B ratio [99.6 %] verdict detectable" in text
    assert "Pointwise / mul 2.000 us 1.940 us 0.970 [0.969, 0.971] faster" in text
    assert "Pointwise / add 2.000 us 2.038 us 1.019 [1.018, 1.020] slower" in text
    assert re.search(r"Modules / LSTM .* 1\.004 \[0\.988, 1\.020\] unclear 2\.2 %", text)
    assert "Verdicts follow from the intervals: 99.6 % confidence over all looks and cases." in text
    assert "detectable: smallest change found with 80 % power." in text
    assert (
        "0 of 2 A/A comparisons found a change; noise of one A/A replicate: 1.2 %. "
        "The control took 5 % of the time, not counting launches."
    ) in text


def test_the_text_has_instructions_with_the_functions_behind_a_change() -> None:
    text = on_one_line(render(ALL, "text"))
    assert "Pointwise / add 97,127 98,331 +1,204 +1.24 % more" in text
    assert "+1,100 +1.13 % BinaryOps.cpp" in text
    assert "+28 torch/overrides.py:has_torch_function" in text
    assert "Shapes / cat 9,030 9,040 +10 +0.11 % close" in text
    assert "Pointwise / mul 9,000 9,000 0 same" in text
    assert "close: not equal, but the difference is within the effect of memory layouts." in text


def test_the_last_paragraph_is_all_of_it_in_one_sentence() -> None:
    text = render(ALL, "text")
    assert on_one_line(text.rstrip().rpartition("\n\n")[2]) == (
        "B is slower in 1 of 5 cases (worst: Pointwise / add, +1.9 %), faster in 1, same in 2, "
        "unclear in 1; instructions: more in 1 of 3 cases (worst: Pointwise / add, +1.24 %), "
        "same in 1, close in 1; 2 skipped, 2 failed."
    )


def test_without_changes_the_summary_says_that_no_case_has_changed() -> None:
    assert summary_of(timed(ADD, 1.0), counted(ADD, {"f": 10}, {"f": 10})) == (
        "B compared with A: no case has changed; times: same in 1 of 1 case; "
        "instructions: same in 1 of 1 case; 0 skipped, 0 failed."
    )


def test_what_is_unclear_is_not_said_to_be_unchanged() -> None:
    summary = summary_of(timed(ADD, 1.0, spread=0.2), timed(MUL, 1.0))
    assert "no change was found" in summary
    assert "unclear in 1" in summary


def test_with_counts_alone_nothing_is_said_of_times_or_a_control() -> None:
    results = (counted(ADD, {"f": 1000}, {"f": 990}), counted(MUL, {"f": 10}, {"f": 10}))
    text = text_of(*results)
    assert "Times" not in text
    assert "Control" not in text
    assert summary_of(*results) == (
        "B compared with A: fewer instructions in 1 of 2 cases (best: Pointwise / add, -1.00 %), "
        "same in 1; 0 skipped, 0 failed."
    )


def test_with_times_alone_nothing_is_said_of_instructions() -> None:
    assert "nstructions" not in text_of(timed(ADD, 1.5))
    assert summary_of(timed(ADD, 1.5)).startswith(
        "B is slower in 1 of 1 case (worst: Pointwise / add, +50.0"
    )


def test_a_run_without_figures_says_so() -> None:
    assert summary_of() == "Nothing was compared."
    unmeasured = run_of(plan=(planned(ADD),), state=RunState.INTERRUPTED)
    assert "nothing was measured" in make_view(unmeasured).summary


def test_what_was_interrupted_says_so_and_how_much_is_missing() -> None:
    run = run_of(timed(ADD, 1.0), state=RunState.INTERRUPTED)
    more = msgspec.structs.replace(run, plan=(*run.plan, planned(MUL)))
    assert "interrupted" in render(more, "text").splitlines()[1]
    assert "1 not measured" in make_view(more).summary


def test_many_cases_that_are_the_same_are_counted_and_the_others_shown() -> None:
    text = text_of(timed(ADD, 1.05), *many(13))
    assert "13 cases are the same (detectable: 0.1 % or less)" in text
    assert "operator" not in text
    assert "Pointwise / add" in text


def test_if_all_cases_are_the_same_or_they_are_few_each_is_shown() -> None:
    assert text_of(*many(20)).count("\n  operator") == 20
    assert text_of(timed(ADD, 1.05), *many(12)).count("  Many / operator") == 12


def test_a_label_that_all_cases_share_stands_in_the_title() -> None:
    text = text_of(*many(3, 1.5))
    assert "Times · Many · Python, eager, forward" in text
    assert text.count("Many") == 2, "there and in the summary"
    assert "Times · Python, eager, forward" in text_of(*many(1)), "a case alone has its name"


def test_many_equal_and_close_counts_are_counted_too() -> None:
    same = [counted(case("Many", f"same {n}"), {"f": 9}, {"f": 9}) for n in range(10)]
    close = [
        counted(case("Many", f"close {n}"), {"f": 900}, {"f": 901}, layouts=(0, 5))
        for n in range(4)
    ]
    text = text_of(counted(ADD, {"f": 10}, {"f": 20}), *same, *close)
    assert "  10 cases are the same, 4 are close" in text
    assert "Many / " not in text


def test_the_score_is_the_geometric_mean_of_all_cases_and_of_each_group() -> None:
    text = on_one_line(text_of(timed(ADD, 1.1), timed(MUL, 1 / 1.1), timed(CAT, 1.21)))
    assert "Score of the times group cases ratio [95 %] all 3 1.066" in text
    assert "Pointwise 2 1.000" in text
    assert "Shapes 1 1.210" in text
    assert "Score" not in text_of(timed(ADD, 1.1))


def test_the_score_of_counts_has_no_interval() -> None:
    results = [counted(each, {"f": 100}, {"f": 121}) for each in (ADD, MUL)]
    text = on_one_line(text_of(*results))
    assert "Score of the instructions group cases ratio all 2 1.21" in text


def test_text_has_five_functions_of_each_sort_the_biggest_first() -> None:
    grown = {f"f{index}": 1000 + index for index in range(8)}
    text = text_of(counted(ADD, dict.fromkeys(grown, 1000), grown))
    told = re.findall(r"\+(\d) +\S+ %  (f\d)", text)
    assert told == [("7", "f7"), ("6", "f6"), ("5", "f5"), ("4", "f4"), ("3", "f3")]
    assert "2 more" in text


def test_no_format_has_thousands_of_functions() -> None:
    grown = {f"function_{index}": 1000 + index for index in range(300)}
    page = render(run_of(counted(ADD, dict.fromkeys(grown, 1000), grown)), "html")
    assert page.count("function_") == 100
    assert "199 more functions differ" in page


def test_python_functions_behind_a_time_are_told_once_for_a_case() -> None:
    only_timed = text_of(timed(ADD, 1.5, python_calls=(OVERRIDES,)))
    assert only_timed.count("has_torch_function") == 1
    assert render(ALL, "text").count("has_torch_function") == 1
    assert "bytecodes" not in text_of(timed(ADD, 1.0, python_calls=(OVERRIDES,)))


def test_skips_with_the_same_reason_are_told_together_and_failures_one_by_one() -> None:
    cases = [case("Many", f"operator {index}") for index in range(6)]
    skips = [
        missing(each, Metric.INSTRUCTIONS, Status.SKIPPED, "no valgrind\nin B") for each in cases
    ]
    failures = [missing(each, Metric.TIME, Status.FAILED, "it crashed") for each in cases[:2]]
    text = on_one_line(text_of(*skips, *failures))
    assert text.count("skipped: ") == 1
    assert "and 3 more cases: no valgrind" in text
    assert "no valgrind in B" not in text, "only the first line"
    assert text.count("it crashed") == 2
    assert "6 skipped, 2 failed" in text


@pytest.mark.parametrize(
    ("controls", "expected"),
    [
        (
            (),
            "None: the comparison was too short. 5 replicates must fit in a tenth of its time.",
        ),
        (
            (controlled(ADD, seconds=0.8),),
            (
                "0 of 1 A/A comparison found a change; noise of one A/A replicate: 0.1 %. "
                "The control took 8 % of the time, not counting launches."
            ),
        ),
        (
            (controlled(ADD, 1.05, seconds=0.4), controlled(MUL, seconds=0.4)),
            (
                "1 of 2 A/A comparisons found a change; noise of one A/A replicate: 3.5 %. "
                "The control took 8 % of the time, not counting launches."
            ),
        ),
    ],
    ids=["none", "one", "two"],
)
def test_the_control_says_its_alarms_the_noise_and_what_it_took(
    controls: tuple[Result, ...], expected: str
) -> None:
    run = run_of(timed(ADD, 1.0, seconds=4.6), timed(MUL, 1.0, seconds=4.6), *controls)
    control = find_section(make_view(run), "control")
    assert control is not None
    assert control.paragraphs == (expected,)
    assert "Control: A compared with A" in render(run, "text")


def test_a_control_is_no_case_of_the_comparison() -> None:
    plain, run = run_of(timed(ADD, 1.0)), run_of(timed(ADD, 1.0), controlled(ADD, 1.2))
    assert make_view(run).summary == make_view(plain).summary
    assert rows_of(run) == rows_of(plain)


def test_a_control_that_finds_changes_puts_small_ones_in_doubt() -> None:
    wolves = [controlled(ADD, 1.05), controlled(MUL, 0.95), controlled(CAT)]
    (warning,) = make_view(run_of(timed(ADD, 1.0), *wolves)).warnings
    assert warning == (
        "2 of 3 A/A comparisons found a change, so small changes of B may be false alarms; "
        "measure again"
    )
    assert not make_view(run_of(timed(ADD, 1.0), controlled(CAT))).warnings


def test_a_case_that_was_cut_short_of_its_replicates_has_no_verdict() -> None:
    reason = "cut short after 2 replicates"
    fields = {"status": Status.PARTIAL, "reason": reason}
    cut_short = msgspec.structs.replace(timed(ADD, 1.3, replicates=2), **fields)
    text = on_one_line(render(run_of(cut_short), "text"))
    assert "slower" not in text
    assert f"(time): {reason}" in text
    assert "--resume measures it again." in text
    assert "no case was measured completely; 1 cut short; 0 skipped, 0 failed" in text
    (row,) = rows_of(run_of(cut_short))
    assert (row["status"], row["verdict"], row["reason"]) == ("partial", "", reason)
    enough = msgspec.structs.replace(timed(ADD, 1.3, replicates=5), **fields)
    assert "slower" in render(run_of(enough), "text")


def test_a_case_with_one_crossover_is_not_lost() -> None:
    run = run_of(timed(ADD, 1.0, replicates=1), timed(MUL, 1.0))
    assert "1 with too few replicates" in make_view(run).summary
    for form in ("text", "markdown", "html"):
        told = on_one_line(render(run, form))
        assert "unclear: Pointwise / add" in told
        assert "fewer than 5 replicates" in told
    assert [(row["case"], row["verdict"]) for row in rows_of(run)] == [
        (ADD.id, ""),
        (MUL.id, "same"),
    ]


@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        ({"stmt": "x + y"}, {"stmt": "x.add(y)"}, "x + y  vs  x.add(y) · Python"),
        ({"stmt": "x"}, {"stmt": "x", "setup": "x = 2"}, "x  vs  x (different setup) · Python"),
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
    a: dict[str, Any], b: dict[str, Any], name: str
) -> None:
    sides = [Case(**{"label": (), "stmt": "x", **fields}) for fields in (a, b)]
    result = timed(sides[0], 1.1, other=sides[1])
    assert full_name(result) == name
    assert on_one_line(name.partition(" · ")[0]) in on_one_line(text_of(result))


def test_two_long_statements_share_a_line_and_what_differs_late_is_said() -> None:
    long = "x + y + " * 20
    result = timed(Case(label=(), stmt=f"{long}x"), 1.1, other=Case(label=(), stmt=f"{long}y"))
    assert len(full_name(result)) < 150
    assert full_name(result).endswith("… (differs at the end) · Python")


def environments(a: dict[str, Any], b: dict[str, Any]) -> tuple[Environment, Environment]:
    return Environment(name="A", facts=a), Environment(name="B", command="run-b", facts=b)


def test_missing_facts_and_flat_facts_are_understood() -> None:
    flat = {"torch": "2.1.0", "torch_git": "abcdef0123456789", "cpp": "no compiler\nat all"}
    text = text_of(environments=environments({}, flat))
    assert "\nA: current environment\n" in text
    assert "\nB: run-b, torch 2.1.0, git abcdef0123, no C++ (no compiler)\n" in text
    assert "both:" not in text


def test_facts_that_differ_anyway_or_tell_who_one_is_are_left_out() -> None:
    facts = {"pid": 1, "machine": {"host": "secret-host", "load": 0.1, "cpu": "Fast One"}}
    other = {"pid": 2, "machine": {"host": "secret-host", "load": 0.2, "cpu": "Slow One"}}
    run = run_of(timed(ADD, 1.0), environments=environments(facts, other))
    assert "Also different: machine.cpu.\n" in render(run, "text")
    for form in ("text", "markdown", "html"):
        assert "secret-host" not in render(run, form)


def test_facts_that_differ_are_known_as_such() -> None:
    table = make_view(ALL).environments
    assert table is not None
    assert [name for name, _ in table.differing] == [
        "command", "torch.version", "torch.git", "torch.config",
    ]  # fmt: skip
    assert len(table.facts) - len(table.differing) == 5


def test_several_environments_follow_each_other_each_with_its_name() -> None:
    nightly = Environment(name="nightly", command="source n", facts=ab_records.FACTS_B)
    second = [msgspec.structs.replace(each, environments=("A", "nightly")) for each in ALL.results]
    run = run_of(*ALL.results, *second, environments=(*ALL.environments, nightly))
    text = render(run, "text")
    assert text.startswith("B compared with A; nightly compared with A\n")
    assert text.index("B compared with A: Times") < text.index("nightly compared with A: Times")
    assert "nightly is slower in 1 of 5 cases" in on_one_line(text)
    assert [row["environment"] for row in rows_of(run)] == ["B"] * 12 + ["nightly"] * 12
    ids = [section.id for section in make_view(run).sections]
    assert len(set(ids)) == len(ids)


def test_csv_has_a_line_for_each_result_with_all_figures() -> None:
    rows = rows_of(ALL)
    assert len(rows) == len(ALL.plan), "controls are none of them"
    by_case = {(row["case"], row["metric"]): row for row in rows}
    time = by_case[ADD.id, "time"]
    assert (time["run"], time["environment"], time["base"]) == (ab_records.ID, "B", "A")
    assert (time["verdict"], time["a"], time["replicates"]) == ("slower", "2e-06", "20")
    low, low_95, high_95, high = (
        float(time[name]) for name in ("low", "low_95", "high_95", "high")
    )
    assert low < low_95 < float(time["ratio"]) < high_95 < high, "the allowance is in the first two"
    assert float(time["level"]) == pytest.approx(1 - 0.01 * 2 / 5), "two changes in five cases"
    assert float(time["share"]) == pytest.approx(0.019)
    assert float(time["p"]) < 0.001
    assert time["difference"] == time["spread"] == ""
    count = by_case[ADD.id, "instructions"]
    assert (count["a"], count["b"], count["difference"]) == ("97127.0", "98331.0", "1204.0")
    assert (count["verdict"], count["ratio"], count["replicates"]) == ("more", "", "")
    assert count["level"] == count["low_95"] == count["high_95"] == ""
    assert by_case[CAT.id, "instructions"]["spread"] == "30.0"
    failed = by_case[GRU.id, "time"]
    assert (failed["status"], failed["verdict"]) == ("failed", "")
    assert failed["reason"] == "RuntimeError: no such function"


def test_json_has_what_was_measured_and_what_follows_from_it() -> None:
    text = render(ALL, "json")
    assert decode_run(text) == ALL
    given_table = json.loads(text)["table"]
    time, count = given_table[:2]
    assert [time["verdict"], count["verdict"]] == ["slower", "more"]
    assert time["low"] < time["low_95"] < time["ratio"] < time["high_95"] < time["high"]
    assert 0.99 < time["level"] < 1
    assert [*time][-3:] == ["level", "low_95", "high_95"], "new columns come last"
    assert count["level"] is count["low_95"] is None
    assert json.loads(text)["summary"].startswith("B is slower")


def test_a_share_of_nothing_is_null_in_json_and_empty_in_csv() -> None:
    run = run_of(counted(ADD, {}, {"f": 10}))
    (row,) = json.loads(render(run, "json"))["table"]
    assert row["share"] is None
    assert rows_of(run)[0]["share"] == ""
    assert "from 0" in render(run, "text")


def test_the_page_has_everything_in_it() -> None:
    page = render(ALL, "html")
    for part in ("B is slower in 1 of 5 cases", "[1.018, 1.020]", "95 %: [1.01", "+1,204",
                 OVERRIDES.function, "no such function", "counting needs one thread",
                 "another compiler", "torch.git", "detectable", "replicates",
                 "seconds"):  # fmt: skip
        assert part in page


def chart_of(run: Run) -> dict[str, Any]:
    times = find_section(make_view(run), "times")
    assert times is not None
    chart = times.chart
    assert chart is not None
    return {"note": chart.note, **chart.spec}


def test_the_chart_is_sorted_by_ratio_and_tells_verdicts_by_colour_and_shape() -> None:
    chart = chart_of(ALL)
    values = chart["data"]["values"]
    assert [(each["case"].rpartition(" / ")[2], each["verdict"]) for each in values] == [
        ("add", "slower"), ("LSTM · 2 threads", "unclear"), ("cat", "same"),
        ("mm, 64 x 64", "same"), ("mul", "faster"),
    ]  # fmt: skip
    point = chart["layer"][-1]["encoding"]
    for channel in ("color", "shape"):
        assert point[channel]["field"] == "verdict"
        assert len(set(point[channel]["scale"]["range"])) == 4
    assert {each["field"] for each in point["tooltip"]} >= {"case", "verdict", "change", "interval"}
    assert all(each["interval"].endswith("(99.6 % confidence)") for each in values)
    assert "1 %" in chart["note"]


def test_a_ratio_beyond_the_axis_stands_at_its_end_and_spoils_no_scale() -> None:
    far = [timed(ADD, 12.0), timed(MUL, 0.1)]
    chart = chart_of(run_of(*far, *many(98, 1.005)))
    low, high = chart["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert math.log(high) == pytest.approx(-math.log(low))
    assert math.log(high) < 0.03
    assert "Cases beyond the axis are shown at its end: 2." in chart["note"]


@given(st.lists(st.floats(1e-9, 1e9), max_size=20))
def test_labels_lie_on_the_axis_and_do_not_touch(ratios: list[float]) -> None:
    reach = reach_of(ratios, same_within=0.01)
    places = [math.log1p(change / 100) / reach for change in axis_labels(reach)]
    assert 0 in places
    assert all(abs(place) <= 1 for place in places)
    assert all(right - left > 0.2 for left, right in pairwise(places))


HOSTILE = case(
    "<script>alert(1)</script>", "a|b\x1b[31m", stmt="x = '</pre><b>'\n" + "x + y; " * 9000
)
DANGEROUS = run_of(
    timed(HOSTILE, 1.1),
    timed(replace(HOSTILE, setup=""), 1.1, other=replace(HOSTILE, stmt="<i>")),
    counted(HOSTILE, {"f<T>|\x1b[1m": 10}, {"f<T>|\x1b[1m": 20}),
    missing(ADD, Metric.TIME, Status.SKIPPED, "<img src=x>\x07"),
    environments=(
        Environment(name="A", command="a && <b>"),
        Environment(name="B", command="<i>|\x1b[2J", facts={"torch": "<2>"}),
    ),
    notes=("<script>\x1b[31m",),
)


def test_names_with_markup_and_escapes_are_shown_as_text() -> None:
    for form in ("text", "markdown", "html", "csv"):
        assert "\x1b" not in render(DANGEROUS, form)
    page = render(DANGEROUS, "html")
    assert "<script>alert(1)" not in page
    assert "<img" not in page


@pytest.mark.parametrize("width", [80, 120])
def test_the_text_keeps_to_its_width(width: int) -> None:
    functions = {f"at::native::function_{index}<{'T, ' * 90}>": 10 + index for index in range(20)}
    cases = [case("A long group | name " * 3, f"*operator* {n} " * 9) for n in range(3)]
    long = run_of(
        *(timed(each, 1.1) for each in cases),
        *(counted(each, dict.fromkeys(functions, 1), functions) for each in cases),
        notes=("long " * 99,),
    )
    for run in (ALL, DANGEROUS, long):
        assert max(map(len, render(run, "text", width).splitlines())) <= width


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=20)
@given(run=ab_records.runs())
def test_any_comparison_can_be_shown_in_every_format(form: str, run: Run) -> None:
    assert render(run, form).encode()


@settings(max_examples=20)
@given(ab_records.runs())
def test_every_result_but_a_control_is_a_row_of_the_data(run: Run) -> None:
    table = make_view(run).data
    assert {row.cells[2].value for row in table.rows} == {each.case.id for each in run.plan}
    assert len(table.rows) == len(run.plan)
